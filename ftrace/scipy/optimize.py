"""Minimisation of differentiable functions: a loop of the graph, as in JAX.

BFGS    Broyden, Fletcher, Goldfarb and Shanno (Nocedal, Wright: Numerical
        Optimization, algorithm 6.1)
L-BFGS  the same from the last steps alone (Nocedal 1980; algorithms 7.4 and 7.5)
"""

# pyright: reportUntypedNamedTuple=false

# What is passed on is of any type, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping
from typing import Any, NamedTuple

from ftrace import dtypes, errors, numpy as fnp
from ftrace.ground.missing_names import tell_missing
from ftrace.lax.control import while_loop
from ftrace.lax.elementwise import complex as join
from ftrace.numpy.axes import cast
from ftrace.optim import tree as trees
from ftrace.optim.base import GradientTransformation
from ftrace.optim.linesearch import Point, scale_by_lbfgs, strong_wolfe
from ftrace.trace.eager.checked_calls import without_checks
from ftrace.trace.tracing.tracer import Function
from ftrace.transforms.grad import value_and_grad
from ftrace.typing import ArrayLike

__all__ = ["OptimizeResults", "minimize"]

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
    hess_inv: Any | None
    nfev: Any
    njev: Any
    nit: Any


@without_checks
def minimize(
    fun: Function,
    x0: ArrayLike,
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

    Returns:
      `OptimizeResults`: x, fun, success and more.

    Raises:
      ShapeError: x0 is no vector.
      ArgumentError: `args` is no tuple, or an option is unknown.
      ValueRangeError: the method is unknown.

    Example:
      >>> def rosenbrock(x):
      ...     return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
      >>> result = ft.scipy.optimize.minimize(rosenbrock, fnp.zeros(2))
      >>> fnp.round(result.x, 2)
      Array([1., 1.], dtype=float32)
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
            f"minimize: x0 must be a vector, got shape {x.shape}; use "
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
    if dtypes.is_complex(x.dtype):  # real and imaginary parts, one behind the other
        count = x.shape[0]

        def of_parts(v: Any, *args: Any) -> Any:
            return fun(join(v[:count], v[count:]), *args)

        parts = fnp.concatenate([x.real, x.imag])
        found = minimize(of_parts, parts, args, method=method, options=settings)
        (v, w), (g, h) = (fnp.split(y, 2) for y in (found.x, found.jac))
        return found._replace(x=join(v, w), jac=join(g, -h))
    derivative = value_and_grad(fun)

    def at(x: Any) -> tuple[Any, Any]:
        value, gradient = derivative(x, *args)
        return cast(value, x.dtype), cast(gradient, x.dtype)

    limited = method.lower() != "bfgs"
    memory = scale_by_lbfgs(settings["maxcor"]) if limited else _scale_by_bfgs()
    return _descend(at, x, memory, settings)


#: What BFGS remembers: how many steps were taken, where the last one began and the
#: gradient there, and an estimate of the inverse of the Hessian.
_Inverse = namedtuple("_Inverse", "count params updates inverse")


def _scale_by_bfgs() -> GradientTransformation:
    """Gradients times that estimate.

    The first step tells its scale (Nocedal, Wright: equation 6.20).
    """

    def init(x: Any) -> Any:
        return _Inverse(0, x, fnp.zeros_like(x), fnp.eye(x.shape[0], dtype=x.dtype))

    def update(g: Any, state: Any, x: Any = None) -> Any:
        count, inverse = state.count, state.inverse
        moved, change = x - state.params, g - state.updates
        curvature = fnp.dot(moved, change)
        good = (count > 0) & (curvature > 0)
        safe = fnp.where(good, curvature, 1)
        size = fnp.dot(change, change)
        scale = safe / fnp.where(size > 0, size, 1)
        old = fnp.where(count == 1, scale * inverse, inverse)
        away = fnp.eye(x.shape[0], dtype=x.dtype) - fnp.outer(moved, change) / safe
        new = away @ old @ away.T + fnp.outer(moved, moved) / safe
        inverse = fnp.where(good, new, inverse)
        length = fnp.linalg.norm(g)
        short = fnp.where((count > 0) | (length <= 1), 1, 1 / length)
        return short * (inverse @ g), _Inverse(count + 1, x, g, inverse)

    return GradientTransformation(init, update)


def _descend(
    at: Function, x0: Any, memory: GradientTransformation, settings: Mapping[str, Any]
) -> OptimizeResults:
    """The loop: a direction, a step along it, and what that tells."""
    most = settings.get("line_search_maxiter", settings.get("maxls", 0))
    evaluations = min([settings.get(n, math.inf) for n in ("maxfun", "maxgrad")])

    def status_of(value: Any, gradient: Any, count: Any, k: Any) -> Any:
        size = fnp.linalg.norm(gradient, settings["norm"])
        finite = fnp.isfinite(value) & fnp.isfinite(gradient).all()
        many = (k >= settings["maxiter"]) | (count >= evaluations)
        status = fnp.where(many, _TOO_MANY_ITERATIONS, _RUNNING)
        status = fnp.where(size <= settings["gtol"], _CONVERGED, status)
        return fnp.where(finite, status, _NO_STEP)

    def step(state: Any) -> Any:
        x, value, gradient, known, count, k, _ = state
        direction, known = memory.update(gradient, known, x)
        slope = -fnp.dot(gradient, direction)
        start, one = Point(0 * value, value, slope), fnp.ones_like(value)
        end = strong_wolfe(at, x, -direction, value, gradient, one, most, factor=4.0)
        # What falls without end has no such step.
        best = trees.where(end.found, (end.safe, end.safe_grad), (start, gradient))
        found, slopes = trees.where(end.failed, best, (end.now, end.grad))
        good = (slope < 0) & (found.at > 0)
        count, k = count + end.count, fnp.where(good, k + 1, k)
        status = status_of(found.value, slopes, count, k)
        if "ftol" in settings:
            flat = value - found.value < settings["ftol"]
            status = fnp.where((status == _RUNNING) & flat, _NO_GAIN, status)
        status = fnp.where(good, status, _NO_STEP)
        x = x - found.at * direction
        return x, found.value, slopes, known, count, k, status

    value, gradient = at(x0)
    first = (x0, value, gradient, memory.init(x0), 1, 0)
    first = (*first, status_of(value, gradient, 1, 0))
    x, value, gradient, known, count, k, status = while_loop(
        lambda state: state[-1] == _RUNNING, step, first
    )
    last = memory.update(gradient, known, x)[1]
    x = fnp.where(fnp.isnan(gradient), gradient, x)  # known no better than its slope
    return OptimizeResults(
        x=x, success=status == _CONVERGED, status=status, fun=value, jac=gradient,
        hess_inv=getattr(last, "inverse", None), nfev=count, njev=count, nit=k,
    )  # fmt: skip


tell_missing(__name__)
