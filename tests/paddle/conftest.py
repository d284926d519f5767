import pytest
from seeded import SEED


@pytest.fixture(autouse=True, scope="session")
def values_that_die_with_their_programs():
    """Paddle 3.3 collects a program's values in a function that calls itself, so the list waits for Python to collect
    cycles. Some of its values are references into the program's memory, which is freed sooner. When a later program
    lists its values in that memory, Python gets the old references back, and Paddle crashes over them now and then
    (docs/hosts/paddle.md, Troubleshooting). A list that is emptied keeps none."""
    from paddle.jit.dy2static.pir_partial_program import RunnableProgram

    original = RunnableProgram._get_program_all_values

    def values_of(program):
        held = original(program)
        values = list(held)
        held.clear()
        return values

    RunnableProgram._get_program_all_values = staticmethod(values_of)
    yield
    RunnableProgram._get_program_all_values = staticmethod(original)


@pytest.fixture(autouse=True)
def seeded():
    import paddle

    paddle.seed(SEED)
