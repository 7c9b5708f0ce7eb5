"""Steps whose length is searched for along an update; L-BFGS.

`update` takes the value and gradient at the parameters, and the function:

    value, grad = ft.value_and_grad(f)(params)
    updates, state = optimizer.update(
        grad, state, params, value=value, grad=grad, value_fn=f
    )

Source: J. Nocedal, S. Wright, "Numerical Optimization", 2006, algorithms 3.1
(backtracking), 3.5 and 3.6 (strong Wolfe conditions), 7.4 (L-BFGS); W. Hager, H. Zhang,
2005 (the approximate decrease near a minimum).
"""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedNamedTuple=false

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import ArgumentError, ValueRangeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.optim import base, tree as trees
from ftrace.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Scalar,
    ScalarOrSchedule,
    Tree,
)
from ftrace.optim.optimizers import scale_by_learning_rate
from ftrace.transforms.grad import value_and_grad

__all__ = [
    "lbfgs", "scale_by_backtracking_linesearch", "scale_by_lbfgs",
    "scale_by_zoom_linesearch", "value_and_grad_from_state",
]  # fmt: skip

#: How many lengths were tried, and what the last lacks in decrease.
BacktrackingLinesearchInfo = namedtuple(
    "BacktrackingLinesearchInfo", "num_linesearch_steps decrease_error"
)

#: How many lengths were tried; what the last lacks in decrease and in curvature.
ZoomLinesearchInfo = namedtuple(
    "ZoomLinesearchInfo", "num_linesearch_steps decrease_error curvature_error"
)

#: The last length, the value and gradient there, and how it was found.
LinesearchState = namedtuple("LinesearchState", "learning_rate value grad info")


def _function_of(name: str, value_fn: Callable[..., Any], extra: dict[str, Any]) -> Any:
    """The function with the arguments of its own among what `update` is given."""
    known = inspect.signature(value_fn).parameters
    if unknown := sorted(set(extra) - set(known)):
        raise ArgumentError(f"{name}: value_fn takes no arguments {unknown}")
    return lambda params: value_fn(params, **extra)


def _first(params: Tree) -> tuple[Any, Any]:
    """The length before the first step, and no value yet."""
    dtype = fnp.real(fnp.zeros((), fnp.asarray(trees.leaves(params)[0]).dtype)).dtype
    return fnp.ones((), dtype), fnp.full((), fnp.inf, dtype)


def _dot(x: Tree, y: Tree) -> Any:
    return fnp.real(trees.vdot(x, y))


def _positive(x: Any) -> Any:
    """What is missing: 0 where nothing is, infinite where it is NaN."""
    return fnp.where(fnp.isnan(x), fnp.inf, fnp.maximum(x, 0.0))


def scale_by_backtracking_linesearch(
    max_backtracking_steps: int,
    slope_rtol: Scalar = 1e-4,
    decrease_factor: Scalar = 0.8,
    increase_factor: Scalar = 1.5,
    max_learning_rate: Scalar = 1.0,
    atol: Scalar = 0.0,
    rtol: Scalar = 0.0,
    store_grad: bool = False,
    verbose: bool = False,
) -> GradientTransformationExtraArgs:
    """Updates shortened until the function decreases enough.

    Args:
      max_backtracking_steps: how often at most.
      slope_rtol: the part of the slope that the decrease must reach.
      decrease_factor: of the length, per try.
      increase_factor: of the last length, for the first try.
      max_learning_rate: the greatest length.
      atol, rtol: tolerances of the decrease.
      store_grad: keep the gradient at the end for `value_and_grad_from_state`.
      verbose: accepted; nothing is printed.
    """

    def init(params: Tree) -> Any:
        length, value = _first(params)
        grad = trees.zeros_like(params) if store_grad else None
        info = BacktrackingLinesearchInfo(fnp.zeros((), "int32"), value)
        return LinesearchState(length, value, grad, info)

    def update(
        updates: Tree, state: Any, params: Tree, *, value: Any, grad: Tree,
        value_fn: Callable[..., Any], **extra: Any,
    ) -> Any:  # fmt: skip
        name = "scale_by_backtracking_linesearch"
        base.check_state(name, state, LinesearchState)
        function = _function_of(name, value_fn, extra)
        slope = _dot(grad, updates)

        def more(carry: Any) -> Any:
            count, _, _, error = carry
            return ~(error <= atol) & (count <= max_backtracking_steps)

        def attempt(carry: Any) -> Any:
            count, length, _, _ = carry
            length = fnp.where(count > 0, decrease_factor * length, length)
            found = function(trees.add_scale(params, length, updates))
            error = found - (1.0 + rtol) * value - length * slope_rtol * slope
            return count + 1, length, found, _positive(error)

        dtype = state.learning_rate.dtype
        length = fnp.minimum(increase_factor * state.learning_rate, max_learning_rate)
        first = length.astype(dtype), fnp.asarray(value, dtype), _first(params)[1]
        start: Any = (fnp.zeros((), "int32"), *first)
        end = lax.while_loop(more, _cast(attempt, start), start)
        count, length, found, error = end
        length = fnp.where(fnp.isinf(error), 0.0, length)
        made = trees.scale(length, updates)
        info, slopes = BacktrackingLinesearchInfo(count, error), None
        if store_grad:
            slopes = value_and_grad(function)(trees.add(params, made))[1]
        return made, LinesearchState(length, found, slopes, info)

    return GradientTransformationExtraArgs(init, update)


# Strong Wolfe conditions.

#: A length, the value and the slope there.
Point = namedtuple("Point", "at value slope")


class Search(NamedTuple):
    """Where a search stands.

    Attributes:
      count: the lengths tried.
      now, grad: the last of them, and the gradient there.
      safe, safe_grad: the best that decreases enough; its length is 0 before.
      low, high: the interval, once `found`; low has the lesser value.
      third: a third point, for a cubic.
      lacks: what the last lacks, in decrease and in curvature.
      done, failed: is it over?
    """

    count: Any
    now: Point
    grad: Tree
    safe: Point
    safe_grad: Tree
    low: Point
    high: Point
    third: Point
    lacks: Any
    found: Any
    done: Any
    failed: Any


def _cubic_minimum(a: Point, b: Point, c: Point) -> Any:
    """The minimum of the cubic through three points with the slope of the first."""
    db, dc = b.at - a.at, c.at - a.at
    rest_b = (b.value - a.value - a.slope * db) / db**2
    rest_c = (c.value - a.value - a.slope * dc) / dc**2
    cubic = (rest_b - rest_c) / (db - dc)
    square = rest_b - cubic * db
    root = fnp.sqrt(square * square - 3.0 * cubic * a.slope)
    return a.at + (root - square) / (3.0 * cubic)


def _quadratic_minimum(a: Point, b: Point) -> Any:
    d = b.at - a.at
    return a.at - a.slope / (2.0 * (b.value - a.value - a.slope * d) / d**2)


def _middle(low: Point, high: Point, third: Point) -> Any:
    """By a cubic, a quadratic, or in half: the first that lies well inside."""
    width = fnp.abs(high.at - low.at)
    left, right = fnp.minimum(low.at, high.at), fnp.maximum(low.at, high.at)
    middle = (low.at + high.at) / 2.0
    for guess, edge in (
        (_quadratic_minimum(low, high), 0.1),
        (_cubic_minimum(low, high, third), 0.2),
    ):
        inside = (guess > left + edge * width) & (guess < right - edge * width)
        middle = fnp.where(inside, guess, middle)
    return middle


def _attempt(
    function: Any, params: Tree, updates: Tree, start: Point, slope_rtol: Any,
    curv_rtol: Any, approx_dec_rtol: Any,
) -> Callable[[Any], tuple[Point, Tree, Any]]:  # fmt: skip
    """From a length to the point there, the gradient, and what Wolfe's rules lack."""

    def attempt(at: Any) -> tuple[Point, Tree, Any]:
        value, grad = function(trees.add_scale(params, at, updates))
        p = Point(at, value, _dot(grad, updates))
        decrease = p.value - start.value - slope_rtol * p.at * start.slope
        if approx_dec_rtol is not None:
            steep = p.slope - (2 * slope_rtol - 1.0) * start.slope
            close = p.value - start.value - approx_dec_rtol * abs(start.value)
            decrease = fnp.minimum(fnp.maximum(steep, close), decrease)
        curvature = abs(p.slope) - curv_rtol * abs(start.slope)
        return p, grad, (_positive(decrease), _positive(curvature))

    return attempt


def _cast(function: Any, like: Any) -> Any:
    """The function, whose results have the dtypes of what a loop began with."""

    def call(s: Any) -> Any:
        found = function(s)
        return trees.map(lambda x, y: fnp.asarray(x, fnp.asarray(y).dtype), found, like)

    return call


def strong_wolfe(
    function: Callable[[Tree], tuple[Any, Tree]], params: Tree, updates: Tree,
    value: Any, grad: Tree, first: Any, steps: Any, longest: Any = None, tol: Any = 0.0,
    factor: Any = 2.0, slope_rtol: Any = 1e-4, curv_rtol: Any = 0.9,
    approx_dec_rtol: Any = 1e-6, precision: Any = 1e-5,
) -> Search:  # fmt: skip
    """Searches for a length of the updates, from the length `first` on.

    The options are those of `scale_by_zoom_linesearch`.
    """
    zero, no = fnp.zeros_like(first), fnp.asarray(False)
    slope = _dot(updates, grad).astype(first.dtype)
    start = Point(zero, fnp.asarray(value, first.dtype), slope)
    lacks = (zero + fnp.inf, zero + fnp.inf)
    begin = Search(
        base.zero(), start, grad, start, grad, start, start, start, lacks, no, no, no
    )
    attempt = _attempt(
        function, params, updates, start, slope_rtol, curv_rtol, approx_dec_rtol
    )

    def search(s: Search) -> Search:
        """A longer step, until an interval with a minimum is found."""
        at = fnp.where(s.count == 0, first, factor * s.now.at)
        is_longest = fnp.asarray(False)
        if longest is not None:
            is_longest, at = at >= longest, fnp.minimum(at, longest)
        now, slopes, lacks = attempt(at)
        good = fnp.maximum(*lacks) <= tol
        safe, safe_grad = trees.where(
            lacks[0] <= tol, (now, slopes), (s.safe, s.safe_grad)
        )
        over = (lacks[0] > 0) | ((now.value >= s.now.value) & (s.count > 0))
        turned = (now.slope >= 0) & ~over
        low, high = trees.where(turned, (now, s.now), (s.now, now))
        found = over | turned | good
        done = good | (is_longest & ~found)
        return Search(
            s.count + 1, now, slopes, safe, safe_grad, low, high, low, lacks, found,
            done, (s.count + 1 >= steps) & ~done,
        )  # fmt: skip

    def zoom(s: Search) -> Search:
        """A point within the interval, which becomes one of its ends."""
        now, slopes, lacks = attempt(_middle(s.low, s.high, s.third))
        done = fnp.maximum(*lacks) <= tol
        better = (lacks[0] <= tol) & (now.value < s.safe.value)
        safe, safe_grad = trees.where(better, (now, slopes), (s.safe, s.safe_grad))
        worse = (lacks[0] > 0) | (now.value >= s.low.value)
        rises = (now.slope * (s.high.at - s.low.at) >= 0) & ~worse
        high = trees.where(worse, now, trees.where(rises, s.low, s.high))
        third = trees.where(worse | rises, s.high, s.low)
        low = trees.where(worse, s.low, now)
        narrow = fnp.abs(s.high.at - s.low.at) <= precision
        over = (s.count + 1 >= steps) | (narrow & (safe.at > 0))
        return Search(
            s.count + 1, now, slopes, safe, safe_grad, low, high, third, lacks,
            s.found, done, over & ~done,
        )  # fmt: skip

    def step(s: Search) -> Search:
        return lax.cond(s.found, _cast(zoom, begin), _cast(search, begin), s)

    return lax.while_loop(lambda s: ~(s.done | s.failed), step, begin)


def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    max_learning_rate: Scalar | None = None,
    tol: Scalar = 0.0,
    increase_factor: Scalar = 2.0,
    slope_rtol: Scalar = 1e-4,
    curv_rtol: Scalar = 0.9,
    approx_dec_rtol: Scalar | None = 1e-6,
    stepsize_precision: Scalar = 1e-5,
    initial_guess_strategy: str = "keep",
    verbose: bool = False,
) -> GradientTransformationExtraArgs:
    """Updates of a length at which decrease and slope satisfy Wolfe's conditions.

    Args:
      max_linesearch_steps: how many lengths to try at most.
      max_learning_rate: the greatest length, or None.
      tol: what may be lacking.
      increase_factor: of the length, until an interval is found.
      slope_rtol: the part of the slope that the decrease must reach.
      curv_rtol: the part of the slope that may be left at the end.
      approx_dec_rtol: of the value, within which the slope decides; None for never.
      stepsize_precision: the least width of the interval.
      initial_guess_strategy: the first length is that of the last step, "keep", or
        "one".
      verbose: accepted; nothing is printed.
    """
    name = "scale_by_zoom_linesearch"
    one_of(f"{name}: initial_guess_strategy", initial_guess_strategy, ("keep", "one"))

    def init(params: Tree) -> Any:
        length, value = _first(params)
        info = ZoomLinesearchInfo(base.zero(), value, value)
        return LinesearchState(length, value, trees.zeros_like(params), info)

    def update(
        updates: Tree, state: Any, params: Tree, *, value: Any, grad: Tree,
        value_fn: Callable[..., Any], **extra: Any,
    ) -> Any:  # fmt: skip
        base.check_state(name, state, LinesearchState)
        function = value_and_grad(_function_of(name, value_fn, extra))
        last = state.learning_rate
        end = strong_wolfe(
            function, params, updates, value, grad,
            last if initial_guess_strategy == "keep" else fnp.ones_like(last),
            max_linesearch_steps, max_learning_rate, tol, increase_factor, slope_rtol,
            curv_rtol, approx_dec_rtol, stepsize_precision,
        )  # fmt: skip
        fallback = end.failed & ((end.safe.at > 0) | fnp.isinf(end.lacks[0]))
        now, slopes = trees.where(
            fallback, (end.safe, end.safe_grad), (end.now, end.grad)
        )
        info = ZoomLinesearchInfo(end.count, *end.lacks)
        after = LinesearchState(now.at, now.value, slopes, info)
        return trees.scale(now.at, updates), after

    return GradientTransformationExtraArgs(init, update)


def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., Any]:
    """`value_and_grad(value_fn)` that takes what a search has found.

    Returns:
      `f(params, *args, state=state, **kwargs)` that gives (value, gradient); the state
      is one of an optimizer with a line search that stores gradients.
    """

    def function(params: Tree, *args: Any, state: Tree, **kwargs: Any) -> Any:
        value, grad = trees.get(state, "value"), trees.get(state, "grad")
        if value is None or grad is None:
            raise ArgumentError(
                "value_and_grad_from_state: the state has no value and gradient; use "
                "scale_by_zoom_linesearch, or store_grad=True"
            )
        known = fnp.isfinite(value)

        def compute(params: Tree) -> Any:
            return value_and_grad(value_fn)(params, *args, **kwargs)

        old = value, grad
        return lax.cond(known, lambda _: old, _cast(compute, old), params)

    return function


# L-BFGS.

#: The number of steps, the last point, and the differences that are remembered.
ScaleByLBFGSState = namedtuple(
    "ScaleByLBFGSState",
    "count params updates diff_params_memory diff_updates_memory weights_memory",
)


def scale_by_lbfgs(
    memory_size: int = 10, scale_init_precond: bool = True
) -> GradientTransformation:
    """Gradients times an approximation of the inverse Hessian.

    Args:
      memory_size: how many differences of parameters and gradients are remembered.
      scale_init_precond: begin with a multiple of the identity that fits the last.

    Raises:
      ValueRangeError: the size is not positive.
    """
    if memory_size < 1:
        raise ValueRangeError(
            f"scale_by_lbfgs: memory_size must be positive, got {memory_size}"
        )

    def init(params: Tree) -> Any:
        zeros = trees.zeros_like(params)
        memory = trees.batch_shape(zeros, (memory_size,))
        weights = fnp.zeros((memory_size,))
        count = fnp.zeros((), "int32")
        return ScaleByLBFGSState(count, zeros, zeros, memory, memory, weights)

    def update(updates: Tree, state: Any, params: Tree | None = None) -> Any:
        base.check_state("scale_by_lbfgs", state, ScaleByLBFGSState)
        params, count = base.need_params("scale_by_lbfgs", params), state.count
        some = count > 0
        moved = trees.sub(params, state.params), trees.sub(updates, state.updates)
        steps, slopes = trees.where(some, moved, trees.zeros_like(moved))
        product = _dot(slopes, steps)
        weight = fnp.where(product == 0, 0.0, 1.0 / fnp.where(product == 0, 1, product))
        place = (count - 1) % memory_size

        def remember(memory: Any, new: Any) -> Any:
            return memory.at[place].set(new.astype(memory.dtype))

        old = state.diff_params_memory, state.diff_updates_memory, state.weights_memory
        memory: Any = trees.map(remember, old, (steps, slopes, weight))
        size: Any = 1.0
        if scale_init_precond:
            square = trees.norm(slopes, squared=True)
            fits = fnp.where(square > 0, product / fnp.where(square > 0, square, 1), 1)
            short = fnp.minimum(1.0, 1.0 / trees.norm(updates))
            size = fnp.where(some, fits, short)
        oldest = count % memory_size
        made = _two_loops(updates, memory[0], memory[1], memory[2], size, oldest)
        after = base.increment(count), params, updates, *memory
        return made, ScaleByLBFGSState._make(after)

    return GradientTransformation(init, update)


def _two_loops(
    vector: Tree, steps: Tree, slopes: Tree, weights: Any, size: Any, oldest: Any
) -> Tree:
    """The two-loop recursion, from the newest difference to the oldest and back."""
    count = weights.shape[0]
    order = (oldest + fnp.arange(count)) % count

    def add(vector: Tree, factor: Any, other: Tree) -> Tree:
        return trees.cast_like(trees.add_scale(vector, factor, other), vector)

    def at(place: Any) -> Any:
        return trees.map(lambda x: x[place], (steps, slopes))

    def right(vector: Tree, place: Any) -> Any:
        step, slope = at(place)
        alpha = weights[place] * _dot(step, vector)
        return add(vector, -alpha, slope), alpha

    def left(vector: Tree, row: Any) -> Any:
        place, alpha = row
        step, slope = at(place)
        beta = weights[place] * _dot(slope, vector)
        return add(vector, alpha - beta, step), None

    vector, alphas = lax.scan(right, vector, order, reverse=True)
    vector = trees.cast_like(trees.scale(size, vector), vector)
    return lax.scan(left, vector, (order, alphas))[0]


#: The default of `lbfgs`; None there is no search.
_ZOOM: Any = object()


def lbfgs(
    learning_rate: ScalarOrSchedule | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: Any = _ZOOM,
) -> GradientTransformationExtraArgs:
    """L-BFGS (Liu, Nocedal, 1989), by default with a line search.

    Args:
      learning_rate: before the search; None is 1.
      memory_size, scale_init_precond: see `scale_by_lbfgs`.
      linesearch: a transformation; None for steps of the learning rate. By default
        `scale_by_zoom_linesearch(20, initial_guess_strategy="one")`.
    """
    if linesearch is _ZOOM:
        linesearch = scale_by_zoom_linesearch(20, initial_guess_strategy="one")
    rate = 1.0 if learning_rate is None else learning_rate
    return base.chain(
        scale_by_lbfgs(memory_size, scale_init_precond),
        scale_by_learning_rate(rate),
        base.identity() if linesearch is None else linesearch,
    )


base.check_hyperparameters(__name__)
