"""Ordinary differential equations, and their derivative by the adjoint equation.

Steps are those of Dormand and Prince (A family of embedded Runge-Kutta formulae, 1980),
their size by Hairer, Nørsett, Wanner (Solving Ordinary Differential Equations I, II.4);
between their ends a polynomial goes through the point that Shampine gives for the
middle (Some practical Runge-Kutta formulas, 1986). The adjoint equation runs backwards
from one time to the one before (Chen and others: Neural ordinary differential
equations, 2018, appendix C).
"""

from __future__ import annotations

import math
from functools import partial
from operator import itemgetter
from typing import Any, cast as cast_to

import numpy as np

from ftrace import dtypes, numpy as fnp
from ftrace.errors import DtypeError, ShapeError
from ftrace.flatten_util import ravel_pytree
from ftrace.ground.missing_names import tell_missing
from ftrace.lax.control import fori_loop, scan, while_loop
from ftrace.numpy.axes import cast
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Function, Value
from ftrace.transforms.custom.closure_convert import closure_convert
from ftrace.transforms.custom.custom_derivatives import custom_vjp
from ftrace.transforms.grad import vjp
from ftrace.transforms.jit.jit import jit
from ftrace.transforms.vmap import vmap

__all__ = ["odeint"]

#: The tableau: when each stage is, what it takes of those before; the last one is the
#: solution of order 5, from which that of order 4 differs by `_ERROR`.
_WHEN = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_STAGES = np.array([
    [0, 0, 0, 0, 0, 0, 0],
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
])  # fmt: skip
_ERROR = _STAGES[-1] - np.array([
    1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60,
])  # fmt: skip
_MIDDLE = np.array([
    6025192743 / 30085553152, 0, 51252292925 / 65400821598,
    -2691868925 / 45128329728, 187940372067 / 1594534317056,
    -1776094331 / 19743644256, 11237099 / 235043384,
]) / 2  # fmt: skip
#: A step is so much shorter than the estimate, grows and shrinks by so much at most.
_SAFETY, _GROWS, _SHRINKS = 0.9, 10.0, 0.2


def odeint(
    func: Function, y0: Any, t: Value, *args: Any, rtol: float = 1.4e-8,
    atol: float = 1.4e-8, mxstep: float = math.inf, hmax: float = math.inf,
) -> Any:  # fmt: skip
    """The solution of dy/dt = func(y, t, *args) at times.

    It has a derivative in reverse mode, of y0, t, args, and what `func` closes over: as
    exact as the tolerances.

    Args:
      func: (y, t, *args) -> dy/dt.
      y0: y at the first time, an array or a tree of arrays.
      t: times (n,), which increase.
      args: trees of arrays.
      rtol, atol: of the error of a step, relative and absolute.
      mxstep: at most so many steps to each time.
      hmax: the longest step.

    Returns:
      y at all times: leaves (n, …). Where steps end before a time, because `func` gives
      NaN, the solution grows without bound, or there were mxstep, the last step is
      extrapolated, or NaN if there was none; NaN too where times decrease.

    Raises:
      ArgumentError: args hold something else than arrays and numbers.
      DtypeError, ShapeError: t is no vector of floats.

    Example:
      >>> from ftrace.experimental.ode import odeint
      >>> t = fnp.array([0.0, 1.0, 2.0])
      >>> fnp.round(odeint(lambda y, t: -y, fnp.array(1.0), t), 4)  # exp(-t)
      Array([1.    , 0.3679, 0.1353], dtype=float32)
    """
    flatten_values(args, "odeint: the argument ")
    times = fnp.asarray(t)
    if not dtypes.is_float(times.dtype):
        raise DtypeError(f"odeint: t must be floats, got {times.dtype}")
    if times.ndim != 1 or not times.shape[0]:
        raise ShapeError(f"odeint: t must be a vector, got shape {times.shape}")
    y0 = tree.map(fnp.asarray, y0)
    converted, consts = closure_convert(func, y0, times[0], *args)
    options = (float(rtol), float(atol), mxstep, hmax)
    return _solve_tree(converted, options, y0, times, *args, *consts)


@partial(jit, static_argnums=(0, 1))
def _solve_tree(func: Function, options: Any, y0: Any, t: Any, *args: Any) -> Any:
    flat, build = ravel_pytree(y0)
    if not dtypes.is_inexact(flat.dtype):
        flat = cast(flat, dtypes.to_inexact(flat.dtype))

    def of_vectors(y: Any, t: Any, *args: Any) -> Any:
        return cast(ravel_pytree(func(build(y), t, *args))[0], flat.dtype)

    return vmap(build)(_solve(of_vectors, options, flat, t, *args))


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _solve(func: Function, options: Any, y0: Any, t: Any, *args: Any) -> Any:
    rtol, atol, most, longest = options

    def slope(y: Any, t: Any) -> Any:
        return func(y, t, *args)

    def to_time(carry: Any, target: Any) -> Any:
        def cond_fun(state: Any) -> Any:
            count, _, _, t, step, _, _ = state
            return (t < target) & (count < most) & (step > 0)

        def advance(state: Any) -> Any:
            count, y, f, t, step, last, polynomial = state
            new_y, new_f, error, middle = _runge_kutta(slope, y, f, t, step)
            size = fnp.maximum(fnp.abs(y), fnp.abs(new_y))
            excess = fnp.abs(error / (atol + rtol * size).astype(error.dtype))
            ratio = fnp.sqrt(fnp.mean(fnp.square(excess)))
            new = (new_y, new_f, t + step, t,
                   _polynomial(y, new_y, middle, f, new_f, step))  # fmt: skip
            old = (y, f, t, last, polynomial)
            pairs = zip(new, old, strict=True)
            y, f, t, last, polynomial = [fnp.where(ratio <= 1, a, b) for a, b in pairs]
            # For an error that was so many times what is allowed; NaN ends the steps.
            most = _SAFETY * fnp.where(ratio == 0, 1, ratio) ** -0.2
            times = fnp.maximum(most, fnp.where(ratio < 1, 1.0, _SHRINKS))
            times = fnp.where(ratio == 0, _GROWS, fnp.minimum(times, _GROWS))
            step = fnp.clip(step * times, 0, longest)
            return count + 1, y, f, t, cast(step, t.dtype), last, polynomial

        _, *carry = while_loop(cond_fun, advance, (0, *carry))
        _, _, t, _, last, polynomial = carry
        # Before a first step only its start is known.
        past = fnp.where(t == last, fnp.where(target == t, 1, math.nan), t - last)
        part = cast((target - last) / past, y0.dtype)
        return tuple(carry), fnp.polyval(polynomial, part)

    f0, start = slope(y0, t[0]), t[0]
    step = fnp.clip(_first_step(slope, start, y0, f0, rtol, atol), 0, longest)
    first = (y0, f0, start, cast(step, t.dtype), start, fnp.stack([y0] * 5))
    return fnp.concatenate([y0[None], scan(to_time, first, t[1:])[1]])


def _forward(func: Function, options: Any, y0: Any, t: Any, *args: Any) -> Any:
    ys = cast_to(Any, _solve)(func, options, y0, t, *args)
    return ys, (ys, t, args)


def _backward(func: Function, options: Any, residuals: Any, ct: Any) -> Any:
    ys, t, args = residuals

    def augment(state: Any, minus_t: Any, *args: Any) -> Any:
        slope, pull = vjp(func, state[0], -minus_t, *args)
        return (-slope, *pull(state[1]))

    rtol, atol, mxstep, hmax = options

    def back(carry: Any, i: Any) -> Any:
        y_bar, t_bar, args_bar = carry
        moved = fnp.dot(func(ys[i], t[i], *args), ct[i]).real
        moved = cast(moved, t.dtype)
        found = odeint(
            augment, (ys[i], y_bar, t_bar - moved, *args_bar),
            fnp.stack([-t[i], -t[i - 1]]), *args,
            rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax,
        )  # fmt: skip
        _, y_bar, t_bar, *args_bar = [tree.map(itemgetter(1), x) for x in found]
        return (y_bar + ct[i - 1], t_bar, tuple(args_bar)), moved

    zeros = tree.map(fnp.zeros_like, args)
    first = (ct[-1], fnp.zeros((), t.dtype), zeros)
    (y_bar, t_bar, args_bar), moved = scan(back, first, np.arange(len(t) - 1, 0, -1))
    return (y_bar, fnp.concatenate([t_bar[None], moved[::-1]]), *args_bar)


_solve.defvjp(_forward, _backward)


def _runge_kutta(slope: Function, y: Any, f: Any, t: Any, step: Any) -> Any:
    """The state and its slope after a step, an error, and the state in the middle."""
    h = cast(step, f.dtype)
    when, stages = cast(_WHEN, step.dtype), cast(_STAGES, f.dtype)

    def stage(i: Any, k: Any) -> Any:
        return k.at[i].set(slope(y + h * (stages[i] @ k), t + step * when[i]))

    k = fori_loop(1, 7, stage, fnp.zeros((7, *f.shape), f.dtype).at[0].set(f))
    error, middle = (h * (cast(row, f.dtype) @ k) for row in (_ERROR, _MIDDLE))
    return y + h * (stages[-1] @ k), k[-1], error, y + middle


def _polynomial(y0: Any, y1: Any, middle: Any, f0: Any, f1: Any, step: Any) -> Any:
    """Of order 4, through three points, with these slopes at both ends."""
    d0, d1 = cast(step, y0.dtype) * f0, cast(step, y0.dtype) * f1
    return fnp.stack([
        2 * (d1 - d0) - 8 * (y0 + y1) + 16 * middle,
        5 * d0 - 3 * d1 + 18 * y0 + 14 * y1 - 32 * middle,
        d1 - 4 * d0 - 11 * y0 - 5 * y1 + 16 * middle,
        d0,
        y0,
    ])  # fmt: skip


def _first_step(
    slope: Function, t: Any, y: Any, f: Any, rtol: float, atol: float
) -> Any:
    scale = (atol + rtol * fnp.abs(y)).astype(y.dtype)
    size, first = (fnp.linalg.norm(x / scale) for x in (y, f))
    flat = (size < 1e-5) | (first < 1e-5)
    h = fnp.where(flat, 1e-6, 0.01 * size / fnp.where(first == 0, 1, first))
    after = slope(y + cast(h, y.dtype) * f, t + cast(h, t.dtype))
    second = fnp.linalg.norm((after - f) / scale) / h
    most = fnp.maximum(first, second)
    safe = fnp.where(most > 0, most, 1)
    still = (first <= 1e-15) & (second <= 1e-15)
    better = fnp.where(still, fnp.maximum(1e-6, h * 1e-3), (0.01 / safe) ** 0.2)
    return fnp.minimum(100 * h, better)


tell_missing(__name__)
