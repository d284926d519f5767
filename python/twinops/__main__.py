"""python -m twinops info | explain | crosscheck: runs the twinops command of this package.
python -m twinops build-paddle: builds the plugin for the PaddlePaddle of this Python."""

import os
import sys

from twinops._native import find


def main():
    if sys.argv[1:2] == ["build-paddle"]:
        from twinops import _build_paddle

        return _build_paddle.main(sys.argv[2:])
    command = str(find("twinops", "the twinops command"))
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
