"""Minima of scalar functions of vectors, by a loop that runs in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.missing_names import tell_missing
from ftrace.numpy.creation import finfo
from ftrace.trace.arrays.array import Array
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer, Value
from ftrace.transforms.grad import value_and_grad

__all__ = ["OptimizeResults", "minimize"]

Vector = np.ndarray[Any, Any]

#: A step must gain this part of what the slope promises, and flatten it to that part.
_GAIN = 1e-4
_FLATTEN = 0.9

_CONVERGED, _TOO_MANY_ITERATIONS, _NO_STEP = 0, 1, 5


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    Attributes:
      x: where the minimum is.
      success: the gradient is as small as asked for.
      status: 0, success; 1, too many iterations; 5, the line search found no step.
      fun: the value at x.
      jac: the gradient at x.
      hess_inv: an estimate of the inverse of the Hessian.
      nfev, njev: how often the function and its gradient were computed.
      nit: iterations.
    """

    x: Array
    success: bool
    status: int
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int
    njev: int
    nit: int


def minimize(
    fun: Callable[..., Any],
    x0: Value,
    args: tuple[Any, ...] = (),
    *,
    method: str = "BFGS",
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of `fun(x, *args)` near `x0`.

    Args:
      fun: a differentiable function of a vector, and of `args`, to a scalar; under jit
        it is faster.
      x0: the vector to start from.
      args: what else `fun` takes.
      method: "BFGS".
      tol: the same as the option `gtol`, which goes before it.
      options: `gtol`, the norm of the gradient at which to stop (1e-5); `norm`, the
        order of that norm (inf); `maxiter`, of iterations (200 per element);
        `line_search_maxiter`, of evaluations in each of them (10).

    Raises:
      ConcretizationTypeError: called under jit or another transform.
      ShapeError: x0 is no vector.
      ArgumentError: `args` is no tuple, or an option is unknown.
      ValueRangeError: the method is unknown.
    """
    given: Any = args
    if not isinstance(given, tuple):
        raise errors.ArgumentError(f"minimize: args must be a tuple, got {args!r}")
    if method.lower() != "bfgs":
        raise errors.ValueRangeError(f"minimize: method must be 'BFGS', got {method!r}")
    for leaf in tree.leaves((x0, args)):
        _outside(leaf)
    start = asarray(x0)
    if start.ndim != 1:
        raise errors.ShapeError(
            f"minimize: x0 must be a vector, got the shape {start.shape}; use "
            "ftrace.flatten_util.ravel_pytree"
        )
    settings = {
        "gtol": 1e-5 if tol is None else tol,
        "norm": math.inf,
        "maxiter": 200 * start.shape[0],
        "line_search_maxiter": 10,
    }
    chosen = {k: v for k, v in (options or {}).items() if v is not None}
    if unknown := chosen.keys() - settings.keys():
        raise errors.ArgumentError(
            f"minimize: unknown options {sorted(unknown)}; there are {[*settings]}"
        )
    settings.update(chosen)
    dtype = dtypes.to_inexact(start.dtype)
    function = _Function(value_and_grad(fun), args, dtype)
    return _bfgs(function, start.numpy().astype(dtype), settings)


def _outside(value: Any) -> None:
    """Raises if a value is traced."""
    if isinstance(value, Tracer):
        raise errors.ConcretizationTypeError(
            f"minimize runs outside jit, but was called under {value.scope.transform}: "
            "its loop runs in Python and looks at values. Call it from a function "
            "that is not transformed; the function that it minimizes may be jitted"
        )


@dataclass(frozen=True)
class _Point:
    """Where a line search looks: how far, and what is there."""

    step: float
    x: Vector
    value: float
    gradient: Vector
    slope: float

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.slope)


class _Function:
    """The function on NumPy's vectors, and how often it was computed."""

    def __init__(
        self, derivative: Callable[..., Any], args: tuple[Any, ...], dtype: Any
    ) -> None:
        self.derivative = derivative
        self.args = args
        self.dtype = dtype
        self.count = 0
        self.noise = 4 * float(finfo(dtype).eps)

    def at(self, x: Vector, step: float, direction: Vector) -> _Point:
        self.count += 1
        x = (x + step * direction).astype(self.dtype)
        value, gradient = self.derivative(Array.of(x), *self.args)
        _outside(value)
        _outside(gradient)
        slopes = np.asarray(gradient).astype(np.float64)
        return _Point(step, x, float(value), slopes, float(slopes @ direction))


def _bfgs(
    function: _Function, x0: Vector, settings: Mapping[str, Any]
) -> OptimizeResults:
    """Broyden, Fletcher, Goldfarb and Shanno's method (Nocedal & Wright, 6.1)."""
    inverse: Vector = np.eye(len(x0))
    here = function.at(x0, 0.0, np.zeros(len(x0)))
    iterations = 0
    step = min(1.0, 1.0 / max(float(np.linalg.norm(here.gradient)), 1e-300))
    while True:
        if not np.linalg.norm(here.gradient, settings["norm"]) > settings["gtol"]:
            status = _CONVERGED if here.is_finite else _NO_STEP
            break
        if iterations >= settings["maxiter"]:
            status = _TOO_MANY_ITERATIONS
            break
        direction: Vector = -inverse @ here.gradient
        slope = float(here.gradient @ direction)
        found = None
        if slope < 0:
            most = settings["line_search_maxiter"]
            found = _line_search(function, here, direction, slope, step, most)
        if found is None:
            status = _NO_STEP
            break
        moved = found.x.astype(np.float64) - here.x
        change = found.gradient - here.gradient
        inverse = _update(inverse, moved, change)
        here = found
        step = 1.0
        iterations += 1

    def array(value: Any) -> Array:
        return Array.of(np.asarray(value, function.dtype))

    return OptimizeResults(
        x=array(here.x),
        success=status == _CONVERGED,
        status=status,
        fun=array(here.value),
        jac=array(here.gradient),
        hess_inv=array(inverse),
        nfev=function.count,
        njev=function.count,
        nit=iterations,
    )


def _update(inverse: Vector, moved: Vector, change: Vector) -> Vector:
    """The inverse of a Hessian after a step along which the gradient changed."""
    curvature = float(moved @ change)
    if curvature <= 0:
        return inverse
    away: Any = np.eye(len(moved)) - np.outer(moved, change) / curvature
    return away @ inverse @ away.T + np.outer(moved, moved) / curvature


def _line_search(
    function: _Function,
    start: _Point,
    direction: Vector,
    slope: float,
    step: float,
    most: int,
) -> _Point | None:
    """A step that satisfies Wolfe's strong conditions; None if none gains anything.

    Between `low`, which gains enough and still falls, and `high`, which gains too
    little or rises, there is such a step.
    """
    low = _Point(0.0, start.x, start.value, start.gradient, slope)
    high: _Point | None = None
    slack = function.noise * abs(start.value)
    for _ in range(most):
        found = function.at(start.x, step, direction)
        enough = start.value + _GAIN * step * slope + slack
        if not found.is_finite or found.value > enough:
            high = found
        elif abs(found.slope) <= _FLATTEN * abs(slope):
            return found
        elif found.slope > 0:
            high = found
        else:
            low = found
        step = 4 * low.step if high is None else _between(low, high)
    return low if low.step > 0 else None


def _between(low: _Point, high: _Point) -> float:
    """The minimum of the cubic through two points, kept away from both."""
    width = high.step - low.step
    part = 0.5
    if high.is_finite:
        mean = low.slope + high.slope - 3 * (high.value - low.value) / width
        root = math.sqrt(max(mean * mean - low.slope * high.slope, 0.0))
        bottom = high.slope - low.slope + 2 * root
        if bottom:
            part = 1 - (high.slope + root - mean) / bottom
    return low.step + min(max(part, 0.1), 0.9) * width


tell_missing(__name__)
