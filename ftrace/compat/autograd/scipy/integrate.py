"""SciPy's `odeint`, differentiated by the adjoint equation.

Source: R. Chen, Y. Rubanova, J. Bettencourt, D. Duvenaud, "Neural ordinary differential
equations", 2018, appendix B.
"""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as onp

from ftrace.compat.autograd import numpy as np
from ftrace.compat.autograd.core import defvjp_argnums, make_vjp, primitive
from ftrace.compat.autograd.misc.flatten import flatten


@primitive
def odeint(func: Any, y0: Any, t: Any, args: Any = (), **options: Any) -> Any:
    """The solution of dy/dt = func(y, t, *args) at the times t, by SciPy."""
    from scipy import integrate

    return integrate.odeint(func, y0, t, args, **options)


def _adjoint(
    argnums: Sequence[int], ys: Any, arguments: Any, options: Any
) -> Callable[[Any], Any]:
    func, y0, t = arguments[:3]
    args = arguments[3] if len(arguments) > 3 else ()
    size = len(y0)
    flat, unflatten = flatten(args)

    def rates(state: Any, at: Any) -> Any:
        """Of (y, its adjoint, the adjoints of time and of the arguments)."""
        vjp, rate = make_vjp(
            lambda x: func(x[0], x[1], *unflatten(x[2])), (state[:size], at, flat)
        )
        return np.hstack((rate, *vjp(-state[size : 2 * size])))

    def pull(g: Any) -> list[Any]:
        adjoint, of_start, of_args = g[-1], 0.0, onp.zeros(len(flat))
        of_times: list[Any] = []
        for i in range(len(t) - 1, 0, -1):
            moved = np.dot(func(ys[i], t[i], *args), g[i])
            of_times.append(moved)
            begin = np.hstack((ys[i], adjoint, of_start - moved, of_args))
            times = np.array([t[i], t[i - 1]])
            end = odeint(rates, begin, times, **options)[1]
            adjoint, of_start = end[size : 2 * size] + g[i - 1], end[2 * size]
            of_args = end[2 * size + 1 :]
        of_times.append(of_start)
        every = (None, adjoint, np.hstack(of_times[::-1]), unflatten(of_args))
        return [every[argnum] for argnum in argnums]

    return pull


defvjp_argnums(odeint, _adjoint)
