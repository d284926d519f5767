"""examples/onnx_digits: its graph reads digits, and twinops' attention has the same bits on every
instruction set and for every number of threads, a rounding from ONNX Runtime's."""

import re

from examples import isas, run

PATTERN = r"2 nodes replaced, attention (\w+), apart at most (\S+), accuracy (\S+)"


def read(**environment):
    return re.fullmatch(PATTERN, run("onnx_digits/run.py", **environment).strip())


def test_it_reads_digits_with_the_same_attention_everywhere():
    runs = [read(TWINOPS_ISA=isa) for isa in isas()] + [read(TWINOPS_THREADS="2")]
    assert len({found[1] for found in runs}) == 1
    for found in runs:
        assert float(found[2]) <= 2e-7 and float(found[3]) >= 0.95
