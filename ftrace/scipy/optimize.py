"""Minimisation of differentiable functions: a loop of the graph, as in JAX.

BFGS    Broyden, Fletcher, Goldfarb and Shanno (Nocedal, Wright: Numerical
        Optimization, algorithm 6.1)
L-BFGS  the same from the last steps alone (Nocedal 1980; algorithms 7.4 and 7.5)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ftrace import dtypes, errors, numpy as fnp
from ftrace.lax.control import cond, fori_loop, while_loop
from ftrace.lax.elementwise import complex as join
from ftrace.numpy.axes import cast
from ftrace.numpy.floats import finfo
from ftrace.trace.tracing.tracer import Value
from ftrace.transforms.grad import value_and_grad

__all__ = ["OptimizeResults", "minimize"]

Function = Callable[..., Any]

#: A step must gain this part of what the slope promises, and flatten it to that part.
_GAIN = 1e-4
_FLATTEN = 0.9

_RUNNING, _CONVERGED, _TOO_MANY_ITERATIONS, _NO_GAIN, _NO_STEP = -1, 0, 1, 4, 5

#: The options of each method, and their defaults; None depends on the size.
_OPTIONS: dict[str, dict[str, Any]] = {
    "bfgs": {
        "gtol": 1e-5, "norm": math.inf, "maxiter": None, "line_search_maxiter": 10,
    },
    "l-bfgs-experimental-do-not-rely-on-this": {
        "gtol": 1e-5, "norm": math.inf, "maxiter": None, "maxls": 20, "maxcor": 10,
        "ftol": 2.220446049250313e-09, "maxfun": math.inf, "maxgrad": math.inf,
    },
}  # fmt: skip


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    Attributes:
      x: where the minimum is.
      success: the gradient is as small as asked for.
      status: 0, success; 1, too many iterations; 4, a step gained less than `ftol`; 5,
        the line search found no step.
      fun: the value at x.
      jac: the gradient at x.
      hess_inv: an estimate of the inverse of the Hessian; None for L-BFGS.
      nfev, njev: how often the function and its gradient were computed.
      nit: iterations.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Function,
    x0: Value,
    args: tuple[Any, ...] = (),
    *,
    method: str = "BFGS",
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of `fun(x, *args)` near `x0`.

    Args:
      fun: a differentiable function of a vector, and of `args`, to a scalar.
      x0: the vector to start from; of complex numbers `jac` is the conjugate gradient.
      args: what else `fun` takes.
      method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this".
      tol: the same as the option `gtol`, which goes before it.
      options: `gtol`, the norm of the gradient at which to stop (1e-5); `norm`, the
        order of that norm (inf); `maxiter`, of iterations (200 per element);
        `line_search_maxiter`, of evaluations in each of them (10). Of L-BFGS `maxls`
        (20) instead; `maxcor`, how many steps are remembered (10); `ftol`, the gain of
        an iteration at which to stop; `maxfun` and `maxgrad`, of evaluations.

    Raises:
      ShapeError: x0 is no vector.
      ArgumentError: `args` is no tuple, or an option is unknown.
      ValueRangeError: the method is unknown.
    """
    given: Any = args
    if not isinstance(given, tuple):
        raise errors.ArgumentError(f"minimize: args must be a tuple, got {args!r}")
    known = _OPTIONS.get(str(method).lower())
    if known is None:
        names = ["BFGS", *[name for name in _OPTIONS if name != "bfgs"]]
        raise errors.ValueRangeError(
            f"minimize: method must be one of {names}, got {method!r}"
        )
    x = fnp.asarray(x0)
    if x.ndim != 1:
        raise errors.ShapeError(
            f"minimize: x0 must be a vector, got the shape {x.shape}; use "
            "ftrace.flatten_util.ravel_pytree"
        )
    chosen = {k: v for k, v in (options or {}).items() if v is not None}
    if unknown := chosen.keys() - known.keys():
        raise errors.ArgumentError(
            f"minimize: unknown options {sorted(unknown)}; there are {[*known]}"
        )
    settings = {**known, "maxiter": 200 * x.shape[0], **chosen}
    if tol is not None and "gtol" not in chosen:
        settings["gtol"] = tol
    x = cast(x, dtypes.to_inexact(x.dtype))
    if dtypes.is_complex(x.dtype):
        return _minimize_complex(fun, x, args, method, settings)
    derivative = value_and_grad(fun)

    def at(x: Any) -> tuple[Any, Any]:
        value, gradient = derivative(x, *args)
        return cast(value, x.dtype), cast(gradient, x.dtype)

    limited = method.lower() != "bfgs"
    memory = _Steps(x, settings["maxcor"]) if limited else _Inverse(x)
    return _descend(at, x, memory, settings)


def _minimize_complex(
    fun: Function, x: Any, args: tuple[Any, ...], method: str, settings: Any
) -> OptimizeResults:
    """A minimum over real and imaginary parts, one behind the other."""
    count = x.shape[0]

    def of_parts(v: Any, *args: Any) -> Any:
        return fun(join(v[:count], v[count:]), *args)

    parts = fnp.concatenate([x.real, x.imag])
    found = minimize(of_parts, parts, args, method=method, options=settings)
    v, g = found.x, found.jac
    return found._replace(x=join(v[:count], v[count:]), jac=join(g[:count], -g[count:]))


class _Point(NamedTuple):
    """Where a line search looks: how far, and what is there."""

    step: Any
    value: Any
    gradient: Any
    slope: Any


class _Inverse:
    """What BFGS remembers: an estimate of the inverse of the Hessian.

    The first step tells its scale (Nocedal, Wright: equation 6.20).
    """

    def __init__(self, x: Any) -> None:
        self.first = (fnp.eye(x.shape[0], dtype=x.dtype), fnp.asarray(True))

    def apply(self, memory: Any, gradient: Any) -> Any:
        return memory[0] @ gradient

    def update(self, memory: Any, moved: Any, change: Any) -> Any:
        inverse, fresh = memory
        curvature = fnp.dot(moved, change)
        good = curvature > 0
        safe = fnp.where(good, curvature, 1)
        size = fnp.dot(change, change)
        scale = safe / fnp.where(size > 0, size, 1)
        old = fnp.where(fresh, scale * inverse, inverse)
        away = fnp.eye(moved.shape[0], dtype=moved.dtype)
        away = away - fnp.outer(moved, change) / safe
        new = away @ old @ away.T + fnp.outer(moved, moved) / safe
        return fnp.where(good, new, inverse), fresh & ~good

    def result(self, memory: Any) -> Any:
        return memory[0]


class _Steps:
    """What L-BFGS remembers: the last steps, and what they changed of the gradient."""

    def __init__(self, x: Any, count: int) -> None:
        self.count = count
        rows = fnp.zeros((count, x.shape[0]), x.dtype)
        # Steps, changes, one over their products (0: none), and the scale.
        self.first = (rows, rows, fnp.zeros(count, x.dtype), fnp.ones((), x.dtype))

    def apply(self, memory: Any, gradient: Any) -> Any:
        steps, changes, weights, scale = memory

        def back(i: Any, state: Any) -> Any:
            q, parts = state
            k = self.count - 1 - i
            part = weights[k] * fnp.dot(steps[k], q)
            return q - part * changes[k], parts.at[k].set(part)

        def forth(k: Any, r: Any) -> Any:
            return r + steps[k] * (parts[k] - weights[k] * fnp.dot(changes[k], r))

        q, parts = fori_loop(0, self.count, back, (gradient, fnp.zeros_like(weights)))
        return fori_loop(0, self.count, forth, scale * q)

    def update(self, memory: Any, moved: Any, change: Any) -> Any:
        steps, changes, weights, scale = memory
        curvature = fnp.dot(moved, change)
        good = curvature > 0
        safe = fnp.where(good, curvature, 1)

        def push(rows: Any, new: Any) -> Any:
            return fnp.where(good, fnp.concatenate([rows[1:], new[None]]), rows)

        size = fnp.dot(change, change)
        scale = fnp.where(good, safe / fnp.where(size > 0, size, 1), scale)
        return push(steps, moved), push(changes, change), push(weights, 1 / safe), scale

    def result(self, memory: Any) -> Any:
        return None


def _descend(
    at: Function, x0: Any, memory: _Inverse | _Steps, settings: Mapping[str, Any]
) -> OptimizeResults:
    """The loop: a direction, a step along it, and what that tells."""
    most = settings.get("line_search_maxiter", settings.get("maxls", 0))
    evaluations = min([settings.get(n, math.inf) for n in ("maxfun", "maxgrad")])
    noise = 4 * float(finfo(x0.dtype).eps)

    def status_of(value: Any, gradient: Any, count: Any, k: Any) -> Any:
        size = fnp.linalg.norm(gradient, settings["norm"])
        finite = fnp.isfinite(value) & fnp.isfinite(gradient).all()
        many = (k >= settings["maxiter"]) | (count >= evaluations)
        status = fnp.where(many, _TOO_MANY_ITERATIONS, _RUNNING)
        status = fnp.where(size <= settings["gtol"], _CONVERGED, status)
        return fnp.where(finite, status, _NO_STEP)

    def goes_on(state: Any) -> Any:
        return state[-1] == _RUNNING

    def step(state: Any) -> Any:
        x, value, gradient, known, trial, count, k, _ = state
        direction = -memory.apply(known, gradient)
        slope = fnp.dot(gradient, direction)
        start = _Point(fnp.zeros_like(value), value, gradient, slope)
        found, used = _line_search(at, x, start, direction, trial, most, noise)
        moved = found.step * direction
        known = memory.update(known, moved, found.gradient - gradient)
        good = (slope < 0) & (found.step > 0)
        k = fnp.where(good, k + 1, k)
        status = status_of(found.value, found.gradient, count + used, k)
        if "ftol" in settings:
            flat = value - found.value < settings["ftol"]
            status = fnp.where((status == _RUNNING) & flat, _NO_GAIN, status)
        status = fnp.where(good, status, _NO_STEP)
        new = (x + moved, found.value, found.gradient, known, fnp.ones_like(trial))
        return (*new, count + used, k, status)

    value, gradient = at(x0)
    size = fnp.linalg.norm(gradient)
    trial = fnp.minimum(1, 1 / fnp.where(size > 0, size, 1)).astype(x0.dtype)
    status = status_of(value, gradient, 1, 0)
    first = (x0, value, gradient, memory.first, trial, 1, 0, status)
    x, value, gradient, known, _, count, k, status = while_loop(goes_on, step, first)
    x = fnp.where(fnp.isnan(gradient), gradient, x)  # known no better than its slope
    return OptimizeResults(
        x=x, success=status == _CONVERGED, status=status, fun=value, jac=gradient,
        hess_inv=memory.result(known), nfev=count, njev=count, nit=k,
    )  # fmt: skip


def _line_search(
    at: Function, x: Any, start: _Point, direction: Any, step: Any, most: int,
    noise: float,
) -> tuple[_Point, Any]:  # fmt: skip
    """A step that satisfies Wolfe's strong conditions, and how many were tried.

    Between `low`, which gains enough and still falls, and `high`, which gains too
    little or rises, there is such a step. If none is found it is `low`.
    """
    slack = noise * fnp.abs(start.value)

    def goes_on(state: Any) -> Any:
        _, _, _, _, count, done = state
        return (count < most) & ~done

    def look(state: Any) -> Any:
        low, high, bounded, step, count, _ = state
        value, gradient = at(x + step * direction)
        found = _Point(step, value, gradient, fnp.dot(gradient, direction))
        finite = fnp.isfinite(value) & fnp.isfinite(found.slope)
        enough = start.value + _GAIN * step * start.slope + slack
        short = ~finite | (value > enough)
        done = ~short & (fnp.abs(found.slope) <= _FLATTEN * fnp.abs(start.slope))
        too_far = ~done & (short | (found.slope > 0))
        low = _choose(too_far, low, found)
        high = _choose(too_far, found, high)
        bounded = bounded | too_far
        step = fnp.where(bounded, _between(low, high), 4 * low.step)
        return low, high, bounded, step, count + 1, done

    def search(_: Any) -> Any:
        first = (start, start, fnp.asarray(False), step, 0, fnp.asarray(False))
        low, _, bounded, _, count, done = while_loop(goes_on, look, first)
        # What falls without end has no such step.
        return _choose(bounded | done, low, start), count

    def stay(_: Any) -> Any:
        return start, 0

    return cond(start.slope < 0, search, stay, 0)


def _choose(where: Any, first: _Point, second: _Point) -> _Point:
    pairs = zip(first, second, strict=True)
    return _Point(*[fnp.where(where, a, b) for a, b in pairs])


def _between(low: _Point, high: _Point) -> Any:
    """The minimum of the cubic through two points, kept away from both."""
    width = high.step - low.step
    wide = fnp.where(width == 0, 1, width)
    mean = low.slope + high.slope - 3 * (high.value - low.value) / wide
    root = fnp.sqrt(fnp.maximum(mean * mean - low.slope * high.slope, 0))
    bottom = high.slope - low.slope + 2 * root
    part = 1 - (high.slope + root - mean) / fnp.where(bottom == 0, 1, bottom)
    usable = fnp.isfinite(high.value) & fnp.isfinite(high.slope) & (bottom != 0)
    part = fnp.where(usable & fnp.isfinite(part), part, 0.5)
    return low.step + fnp.clip(part, 0.1, 0.9) * width
