"""Loss scaling, in place, as the two operators of Paddle that it is named after."""

import paddle

from twinops.paddle._plugin import run


def _memory_of(xs):
    """The tensors without their history: Paddle refuses to write in place what may want a gradient."""
    return [x.detach() for x in xs] if paddle.in_dynamic_mode() else list(xs)


@paddle.no_grad()
def check_finite_and_unscale(xs, scale, check="output"):
    """Paddle's operator check_finite_and_unscale_: multiplies every tensor of a list with 1 / scale, in
    place, and looks for values that are not finite.

    xs: floating tensors, any number, shapes and mix of types.
    scale: float32 or float64, one element, where the tensors are.
    check: which values must be finite: "output", those that are stored, or "input", those that are
        read.

    Returns (xs, found_inf), found_inf a bool tensor of shape [1].
    docs/operators/check_finite_and_unscale.md
    """
    xs = list(xs)
    if not xs:
        return xs, paddle.zeros([1], "bool")
    inputs = {"x": _memory_of(xs), "scale": scale}
    # A new found_inf begins as false.
    return xs, run("check_finite_and_unscale", inputs, {"check": check, "reset": True})[-1]


@paddle.no_grad()
def update_loss_scaling(
    xs,
    found_inf,
    prev_loss_scaling,
    num_good_steps,
    num_bad_steps,
    incr_every_n_steps,
    decr_every_n_nan_or_inf,
    incr_ratio,
    decr_ratio,
    stop_update=False,
    min_scale=1.0,
):
    """Paddle's operator update_loss_scaling_: takes one step of dynamic loss scaling, in place.

    xs: floating tensors; they become 0 if found_inf is true.
    found_inf: bool, one element, of check_finite_and_unscale.
    prev_loss_scaling: float32 or float64, one element: the scale.
    num_good_steps, num_bad_steps: int32, one element: steps in a row, finite and not finite.
    incr_every_n_steps: the scale is raised after so many finite steps; 1 or more.
    decr_every_n_nan_or_inf: it is lowered after so many steps in a row that are not; 1 or more.
    incr_ratio, decr_ratio: the factors; above 1, and between 0 and 1.
    stop_update: the state stays as it is; tensors are still zeroed.
    min_scale: the scale is not lowered below this; above 0. A scale that is below it stays.

    Returns (xs, prev_loss_scaling, num_good_steps, num_bad_steps).
    docs/operators/update_loss_scaling.md
    """
    inputs = {
        "x": _memory_of(xs),
        "found_inf": found_inf,
        "scale": prev_loss_scaling,
        "good_steps": num_good_steps,
        "bad_steps": num_bad_steps,
    }
    attributes = {
        "incr_every_n_steps": incr_every_n_steps,
        "decr_every_n_nan_or_inf": decr_every_n_nan_or_inf,
        "incr_ratio": incr_ratio,
        "decr_ratio": decr_ratio,
        "stop_update": stop_update,
        "min_scale": min_scale,
    }
    run("update_loss_scaling", inputs, attributes)
    return xs, prev_loss_scaling, num_good_steps, num_bad_steps
