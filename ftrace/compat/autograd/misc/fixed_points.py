"""Fixed points of functions, differentiated implicitly."""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

from typing import Any

from ftrace.compat.autograd.core import defvjp, make_vjp, primitive, vspace
from ftrace.trace.tracing.tracer import Function


@primitive
def fixed_point(f: Function, a: Any, x0: Any, distance: Function, tol: float) -> Any:
    """x = f(a)(x), by iteration from x0 until the distance of two is at most `tol`."""
    step = f(a)
    x, before = step(x0), x0
    while distance(x, before) > tol:
        x, before = step(x), x
    return x


def _vjp(ans: Any, f: Function, a: Any, x0: Any, distance: Function, tol: float) -> Any:
    """The adjoint is a fixed point as well: y = g + y·∂f/∂x."""
    vjp_a, _ = make_vjp(lambda a: f(a)(ans), a)
    vjp_x, _ = make_vjp(lambda x: f(a)(x), ans)
    space = vspace(ans)

    def pull(g: Any) -> Any:
        def around(g: Any) -> Function:
            return lambda y: space.add(vjp_x(y), g)

        return vjp_a(fixed_point(around, g, space.zeros(), distance, tol))

    return pull


defvjp(fixed_point, None, _vjp, None)
