"""Derivatives against differences, along random directions."""

from __future__ import annotations

from itertools import product
from typing import Any

from ftrace.compat.autograd.core import make_jvp, make_vjp, vspace
from ftrace.compat.autograd.wrap_util import get_name, unary_to_nary, wraps
from ftrace.trace.tracing.tracer import Function

TOL = RTOL = EPS = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    """Are two numbers equal up to 1e-6, absolutely or relatively?"""
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def make_numerical_jvp(f: Function, x: Any) -> Function:
    """The product of the Jacobian with a vector, by central differences."""
    x_space, y_space = vspace(x), vspace(f(x))

    def jvp(v: Any) -> Any:
        above, below = (
            f(x_space.add(x, x_space.scalar_mul(v, half)))
            for half in (EPS / 2, -EPS / 2)
        )
        difference = y_space.add(above, y_space.scalar_mul(below, -1.0))
        return y_space.scalar_mul(difference, 1.0 / EPS)

    return jvp


def check_vjp(f: Function, x: Any) -> None:
    """Asserts that the reverse derivative is that of differences."""
    vjp, y = make_vjp(f, x)
    x_space, y_space = vspace(x), vspace(y)
    x_v, y_v = x_space.randn(), y_space.randn()
    pulled = x_space.covector(vjp(y_space.covector(y_v)))
    assert vspace(pulled) == x_space
    exact = x_space.inner_prod(x_v, pulled)
    numeric = y_space.inner_prod(y_v, make_numerical_jvp(f, x)(x_v))
    assert scalar_close(numeric, exact), (
        f"Derivative (VJP) check of {get_name(f)} failed with arg {x}:\n"
        f"analytic: {exact}\nnumeric:  {numeric}"
    )


def check_jvp(f: Function, x: Any) -> None:
    """Asserts that the forward derivative is that of differences."""
    v = vspace(x).randn()
    check_equivalent(make_jvp(f, x)(v)[1], make_numerical_jvp(f, x)(v))


def check_equivalent(x: Any, y: Any) -> None:
    """Asserts that two values are of one space, and equal along a direction."""
    space = vspace(x)
    assert space == vspace(y), f"VSpace mismatch:\nx: {space}\ny: {vspace(y)}"
    v = space.randn()
    close = scalar_close(space.inner_prod(x, v), space.inner_prod(y, v))
    assert close, f"Value mismatch:\nx: {x}\ny: {y}"


@unary_to_nary
def check_grads(f: Function, x: Any, modes: Any = None, order: int = 2) -> None:
    """Asserts that derivatives up to an order are those of differences.

    Args:
      f: a function.
      x: where.
      modes: "fwd", "rev" or both.
      order: up to which one; those of derivatives are checked as well.
    """
    modes = ["fwd", "rev"] if modes is None else modes
    if not set(modes) <= {"fwd", "rev"}:
        raise ValueError(f'modes are "fwd" and "rev", got {modes}')

    @wraps(f, "jvp_{fun}")
    def along(x: Any, v: Any) -> Any:
        return make_jvp(f, x)(v)[1]

    @wraps(f, "vjp_{fun}")
    def back(x: Any, v: Any) -> Any:
        return make_vjp(f, x)[0](v)

    for mode, check, derived in (("fwd", check_jvp, along), ("rev", check_vjp, back)):
        if mode in modes:
            check(f, x)
            if order > 1:
                v = vspace(x if mode == "fwd" else f(x)).randn()
                check_grads(derived, (0, 1), modes, order=order - 1)(x, v)


def combo_check(fun: Function, *check_args: Any, **check_kwargs: Any) -> Function:
    """`check_grads` with every combination of the arguments that are listed."""

    def check(*args: Any, **kwargs: Any) -> None:
        named = [[(name, value) for value in values] for name, values in kwargs.items()]
        for chosen in product(*args):
            for options in product(*named):
                check_grads(fun, *check_args, **check_kwargs)(*chosen, **dict(options))

    return check
