"""python -m twinops info | explain | crosscheck: runs the twinops command of this package."""

import os
import sys

from twinops._native import find


def main():
    command = str(find("twinops", "the twinops command"))
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
