"""Transformations of transformations, and of all updates together.

Steps that are skipped or gathered; parts of the parameters; clipping; noise; what is
measured of updates, in the state.
"""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedNamedTuple=false

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any

import ftrace.numpy as fnp
from ftrace import random
from ftrace.errors import ArgumentError, ShapeError, TreeError
from ftrace.flatten_util import ravel_pytree
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.optim import base, scaling, tree as trees
from ftrace.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Scalar,
    Tree,
    with_extra_args_support,
)
from ftrace.optim.optimizers import square_of
from ftrace.trace.eager.function_objects import member

__all__ = [
    "ApplyIfFiniteState", "LookaheadParams", "LookaheadState", "MonitorState",
    "MultiSteps", "MultiStepsState", "PartitionState", "SnapshotState",
    "adaptive_grad_clip", "add_noise", "apply_if_finite", "clip_by_block_rms",
    "conditionally_mask", "conditionally_transform", "flatten", "freeze",
    "keep_params_nonnegative", "lookahead", "measure_with_ema", "monitor",
    "multi_transform", "partition", "per_example_global_norm_clip",
    "per_example_layer_norm_clip", "selective_transform", "skip_large_updates",
    "skip_not_finite", "snapshot", "unitwise_clip", "unitwise_norm", "zero_nans",
]  # fmt: skip


# Clipping.


def clip_by_block_rms(threshold: Scalar) -> GradientTransformation:
    """Each array scaled down where its root mean square exceeds `threshold`.

    Args:
      threshold: the bound of each array's √(mean of squares).

    Example:
      >>> tx, w = ft.optim.clip_by_block_rms(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.13867506, -0.02773501], dtype=float32)
    """

    def shorten(u: Any) -> Any:
        return u / fnp.maximum(1.0, fnp.sqrt(fnp.mean(square_of(u))) / threshold)

    return base.of_each(shorten)


def unitwise_norm(x: Any, axis: Any = None) -> Any:
    """The norms of what belongs to each output unit, in the shape of x.

    Args:
      x: of 1 to 5 axes, the last of which counts the units.
      axis: which axes belong to one unit, where it is otherwise.

    Raises:
      ShapeError: there are more axes, and `axis` is not given.

    Example:
      >>> ft.optim.unitwise_norm(fnp.array([[3.0], [4.0]]))
      Array([[5.],
             [5.]], dtype=float32)
    """
    if axis is None:
        if fnp.squeeze(x).ndim <= 1:
            axis = tuple(range(x.ndim))
        elif x.ndim <= 5:
            axis = 0 if x.ndim <= 3 else tuple(range(x.ndim - 1))
        else:
            raise ShapeError(
                f"unitwise_norm takes arrays of 1 to 5 axes, got {x.shape}; say by "
                "axis= which of them belong to one unit"
            )
    total = fnp.sum(square_of(x), axis=axis, keepdims=True)
    return fnp.broadcast_to(fnp.sqrt(total), x.shape)


def unitwise_clip(g_norm: Any, max_norm: Any, grad: Any, div_eps: Any = 1e-6) -> Any:
    """Gradients scaled down where their norm exceeds a bound, element by element.

    Args:
      g_norm, max_norm: norms of gradients and their bounds, which broadcast with
        `grad`.
      grad: an array.
      div_eps: the least norm that is divided by.
    """
    clipped = grad * (max_norm / fnp.maximum(g_norm, div_eps))
    return fnp.where(g_norm < max_norm, grad, clipped)


def adaptive_grad_clip(
    clipping: Scalar, eps: Scalar = 1e-3, axis: Any = None
) -> GradientTransformation:
    """Updates of a unit no longer than a part of its weights (Brock et al., 2021).

    Args:
      clipping: that part.
      eps: the least norm that weights are taken for.
      axis: which axes belong to one unit: see `unitwise_norm`.

    Raises:
      ArgumentError: `update` is called without the parameters.

    Example:
      >>> tx, w = ft.optim.adaptive_grad_clip(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.21926452, -0.04385291], dtype=float32)
    """

    def shorten(g: Any, param: Any) -> Any:
        bound = clipping * fnp.maximum(unitwise_norm(param, axis), eps)
        return unitwise_clip(unitwise_norm(g, axis), bound, g)

    return base.with_params("adaptive_grad_clip", shorten)


def _batch(name: str, grads: Tree) -> None:
    sizes = {fnp.shape(x)[:1] for x in trees.leaves(grads)}
    if len(sizes) != 1 or () in sizes:
        raise ShapeError(
            f"{name} takes gradients whose first axis counts examples, got shapes "
            f"{[fnp.shape(x) for x in trees.leaves(grads)]}"
        )


def per_example_global_norm_clip(grads: Tree, l2_norm_clip: Any) -> tuple[Tree, Any]:
    """(the sum of the gradients of all examples, each clipped; how many were).

    Args:
      grads: a tree of arrays, with a first axis of examples.
      l2_norm_clip: the bound of the norm of an example's gradient.

    Raises:
      ShapeError: the first axes are not of one size.

    Source: M. Abadi et al., "Deep learning with differential privacy", 2016.
    """
    _batch("per_example_global_norm_clip", grads)
    total: Any = 0.0
    for x in trees.leaves(grads):
        total = total + fnp.sum(square_of(fnp.asarray(x)), tuple(range(1, fnp.ndim(x))))
    norms = fnp.sqrt(total)
    factors = fnp.nan_to_num(fnp.minimum(l2_norm_clip / norms, 1.0), nan=1.0)
    clipped = base.each(lambda g: fnp.tensordot(factors, g, axes=1), grads)
    return clipped, fnp.sum(factors < 1.0)


def per_example_layer_norm_clip(
    grads: Tree, global_l2_norm_clip: Any, uniform: bool = True
) -> tuple[Tree, Tree]:
    """As `per_example_global_norm_clip`, with a bound for each array.

    Args:
      grads: with a first axis of examples.
      global_l2_norm_clip: the bound for all arrays together.
      uniform: share it alike; otherwise by the sizes of the arrays.

    Raises:
      ShapeError: the first axes are not of one size.
    """
    _batch("per_example_layer_norm_clip", grads)
    leaves = trees.leaves(grads)
    total = sum(fnp.size(g[0]) for g in leaves)

    def clip(g: Any) -> tuple[Any, Any]:
        share = 1 / len(leaves) if uniform else fnp.size(g[0]) / total
        return per_example_global_norm_clip(g, global_l2_norm_clip * share**0.5)

    clipped, counts = trees.split(clip, 2, grads)
    return clipped, counts


# Values.

#: Which arrays had NaN in the last update.
ZeroNansState = namedtuple("ZeroNansState", "found_nan")


def zero_nans() -> GradientTransformation:
    """NaN in updates becomes 0; the state says where there was any.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.zero_nans()
      >>> tx.update(fnp.array([np.nan, 2.0]), tx.init(fnp.zeros(2)))[0]
      Array([0., 2.], dtype=float32)
    """

    def clean(g: Any, _: Any) -> tuple[Any, Any]:
        lost = fnp.isnan(g)
        return fnp.where(lost, 0, g), fnp.any(lost)

    return base.running(
        "zero_nans", ZeroNansState, clean, found_nan=lambda p: fnp.asarray(False)
    )


def keep_params_nonnegative() -> GradientTransformation:
    """Updates that would lead below 0 lead to 0.

    Example:
      >>> tx, w = ft.optim.keep_params_nonnegative(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.5, -0.1], dtype=float32)
    """
    return base.with_params(
        "keep_params_nonnegative", lambda g, p: fnp.where(p + g < 0, -p, g)
    )


#: The number of steps, and the key of the next noise.
AddNoiseState = namedtuple("AddNoiseState", "count rng_key")


def add_noise(
    eta: Scalar, gamma: Scalar, key: Any = None, *, seed: Any = None
) -> GradientTransformation:
    """Updates with normal noise of variance eta / (1 + t)**gamma.

    Args:
      eta, gamma: see above; t is the number of steps done.
      key: of `ftrace.random`, or a number; 0 by default.
      seed: an older name of it.

    Source: A. Neelakantan et al., "Adding gradient noise improves learning", 2015.
    """
    first = key if key is not None else seed if seed is not None else 0

    def init(params: Tree) -> Any:
        start = random.PRNGKey(first) if isinstance(first, int) else first
        return AddNoiseState(base.zero(), start)

    def update(updates: Tree, state: Any, params: Tree | None = None) -> Any:
        base.check_state("add_noise", state, AddNoiseState)
        count = base.increment(state.count)
        deviation = fnp.sqrt(eta / count.astype("float32") ** gamma)
        rest, now = random.split(state.rng_key)
        noise = trees.random_like(now, updates)
        made = base.each(lambda g, n: g + deviation.astype(g.dtype) * n, updates, noise)
        return made, AddNoiseState(count, rest)

    return GradientTransformation(init, update)


# Steps that are skipped or gathered.


def _where(condition: Any, new: Tree, old: Tree) -> Tree:
    chosen = trees.where(condition, new, old)
    return trees.cast_like(chosen, trees.map(fnp.asarray, old))


#: How often updates were not finite: in a row, the last one, in all.
ApplyIfFiniteState = namedtuple(
    "ApplyIfFiniteState", "notfinite_count last_finite total_notfinite inner_state"
)


def apply_if_finite(
    inner: GradientTransformation, max_consecutive_errors: int
) -> GradientTransformationExtraArgs:
    """Leaves out updates with NaN or infinities, unless too many follow each other.

    Args:
      inner: the optimizer.
      max_consecutive_errors: after so many in a row they are applied all the same.

    Returns:
      A pair (init, update); the state counts what was left out.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.apply_if_finite(optim.sgd(0.1), max_consecutive_errors=5)
      >>> updates, state = tx.update(fnp.array([np.nan]), tx.init(fnp.zeros(1)))
      >>> updates, state.total_notfinite
      (Array([0.], dtype=float32), Array(1, dtype=int32))
    """
    way = with_extra_args_support(inner)

    def init(params: Tree) -> Any:
        finite = fnp.asarray(True)
        return ApplyIfFiniteState(base.zero(), finite, base.zero(), inner.init(params))

    def update(updates: Tree, state: Any, params: Any = None, **extra: Any) -> Any:
        base.check_state("apply_if_finite", state, ApplyIfFiniteState)
        parts = [fnp.all(fnp.isfinite(x)) for x in trees.leaves(updates)]
        finite = fnp.all(fnp.stack(parts)) if parts else fnp.asarray(True)
        in_a_row = fnp.where(finite, 0, base.increment(state.notfinite_count))
        applied = finite | (in_a_row > max_consecutive_errors)
        made, own = way.update(updates, state.inner_state, params, **extra)
        made = base.each(lambda g: fnp.where(applied, g, 0), made)
        total = base.increment(state.total_notfinite)
        total = fnp.where(finite, state.total_notfinite, total)
        own = _where(applied, own, state.inner_state)
        return made, ApplyIfFiniteState(in_a_row, finite, total, own)

    return GradientTransformationExtraArgs(init, update)


#: The state of the transformation, and the number of steps.
ConditionallyTransformState = namedtuple(
    "ConditionallyTransformState", "inner_state step"
)

#: The number of steps, and the state of the transformation.
ConditionallyMaskState = namedtuple("ConditionallyMaskState", "step inner_state")


def _conditionally(name: str, kind: Any, otherwise: Callable[[Any], Any]):
    def conditionally(
        inner: GradientTransformation,
        should_transform_fn: Callable[..., Any],
        forward_extra_args: bool = False,
    ) -> GradientTransformationExtraArgs:
        way = with_extra_args_support(inner)

        def init(params: Tree) -> Any:
            return kind(inner_state=inner.init(params), step=base.zero())

        def update(updates: Tree, state: Any, params: Any = None, **extra: Any) -> Any:
            base.check_state(name, state, kind)
            asked = extra if forward_extra_args else {}
            due = should_transform_fn(state.step, **asked)
            made, own = way.update(updates, state.inner_state, params, **extra)
            made = base.each(
                lambda x, y: fnp.where(due, x, otherwise(y)), made, updates
            )
            own = _where(due, own, state.inner_state)
            return made, kind(inner_state=own, step=base.increment(state.step))

        return GradientTransformationExtraArgs(init, update)

    return conditionally


@member(_conditionally, ConditionallyTransformState, lambda g: g)
def conditionally_transform():
    """Transforms updates in steps that are asked for.

    Args:
      inner: the transformation.
      should_transform_fn: of the number of steps done; says whether to transform.
      forward_extra_args: give it what else `update` is given.
    """


@member(_conditionally, ConditionallyMaskState, fnp.zeros_like)
def conditionally_mask():
    """As `conditionally_transform`; other updates are 0.

    Args:
      inner, should_transform_fn, forward_extra_args: as there.
    """


def skip_not_finite(
    updates: Tree, gradient_step: Any, params: Tree | None
) -> tuple[Any, dict[str, Any]]:
    """Skip updates that are not finite: see `MultiSteps`.

    Args:
      updates: the gradients.
      gradient_step: the number of steps done.
      params: the parameters.

    Returns:
      (whether to skip, what to note of it).
    """
    count = trees.sum(trees.map(lambda x: ~fnp.isfinite(x), updates))
    return count > 0, {"should_skip": count > 0, "num_not_finite": count}


def skip_large_updates(
    updates: Tree, gradient_step: Any, params: Tree | None, max_squared_norm: float
) -> tuple[Any, dict[str, Any]]:
    """Skip updates of a squared norm from `max_squared_norm` on: see `MultiSteps`.

    Args:
      updates: the gradients.
      gradient_step: the number of steps done.
      params: the parameters.
      max_squared_norm: the bound.

    Returns:
      (whether to skip, what to note of it).
    """
    norm = trees.norm(updates, squared=True)
    skip = ~(norm < max_squared_norm)
    return skip, {"should_skip": skip, "norm_squared": norm}


class MultiStepsState(NamedTuple):
    """Steps since the last update, updates done, and the mean gradient since."""

    mini_step: Any
    gradient_step: Any
    inner_opt_state: Tree
    acc_grads: Tree
    skip_state: Tree = ()


class MultiSteps:
    """An optimizer that steps once every k gradients, by their mean or sum.

    Args:
      opt: the optimizer.
      every_k_schedule: k, or a function of the number of steps that opt has done.
      use_grad_mean: the mean of the gradients; their sum otherwise.
      should_skip_update_fn: of gradients, step and parameters; says whether to leave
        them out, and what to note of it.
      accumulator_dtype: of the mean.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.MultiSteps(optim.sgd(1.0), every_k_schedule=2)
      >>> state = tx.init(fnp.zeros(1))
      >>> first, state = tx.update(fnp.array([1.0]), state)
      >>> second, state = tx.update(fnp.array([3.0]), state)
      >>> first, second
      (Array([0.], dtype=float32), Array([-2.], dtype=float32))
    """

    def __init__(
        self,
        opt: GradientTransformation,
        every_k_schedule: int | Callable[[Any], Any],
        use_grad_mean: bool = True,
        should_skip_update_fn: Callable[..., Any] | None = None,
        accumulator_dtype: Any = "float32",
    ) -> None:
        self._opt = with_extra_args_support(opt)
        self._every = every_k_schedule
        self._mean, self._dtype = use_grad_mean, accumulator_dtype
        self._skips = should_skip_update_fn

    @property
    def inner_opt(self) -> GradientTransformation:
        """The optimizer."""
        return self._opt

    def _skip(self, updates: Tree, step: Any, params: Tree) -> tuple[Any, Tree]:
        if self._skips is None:
            return fnp.asarray(False), ()
        skip, note = self._skips(updates, step, params)
        if (fnp.asarray(skip).dtype, fnp.shape(skip)) != ("bool", ()):
            raise ArgumentError(
                f"MultiSteps: should_skip_update_fn must give a bool, got {skip!r:.60}"
            )
        return skip, note

    def init(self, params: Tree) -> MultiStepsState:
        """The state before the first step."""
        zeros, step = trees.zeros_like(params), base.zero()
        note = self._skip(zeros, step, params)[1]
        sums = trees.zeros_like(params, self._dtype)
        return MultiStepsState(base.zero(), step, self._opt.init(params), sums, note)

    def update(
        self, updates: Tree, state: Any, params: Tree | None = None, **extra: Any
    ) -> tuple[Tree, MultiStepsState]:
        """The update after k gradients; zeros until then."""
        base.check_state("MultiSteps", state, MultiStepsState)
        done, step = state.mini_step, state.gradient_step
        every = self._every(step) if callable(self._every) else self._every
        skip, note = self._skip(updates, step, params)

        def gather(g: Any, total: Any) -> Any:
            return total + (g - total) / (done + 1) if self._mean else total + g

        sums = base.each(gather, updates, state.acc_grads)
        grads = base.each(lambda x, g: x.astype(g.dtype), sums, updates)
        made, own = self._opt.update(grads, state.inner_opt_state, params, **extra)
        due = (done == every - 1) & ~skip
        made = base.each(lambda g: fnp.where(due, g, 0), made)
        sums = base.each(lambda x: fnp.where(due, 0, x), sums)
        after = MultiStepsState(
            mini_step=fnp.where(skip, done, base.increment(done) % every),
            gradient_step=fnp.where(due, base.increment(step), step),
            inner_opt_state=_where(due, own, state.inner_opt_state),
            acc_grads=_where(skip, state.acc_grads, sums),
            skip_state=note,
        )
        return made, after

    def has_updated(self, state: Any) -> Any:
        """Was the last update one of the optimizer's?"""
        return (state.mini_step == 0) & (state.gradient_step > 0)

    def gradient_transformation(self) -> GradientTransformationExtraArgs:
        """The pair of `init` and `update`."""
        return GradientTransformationExtraArgs(self.init, self.update)


#: The state of the fast optimizer, and the steps since the last synchronization.
LookaheadState = namedtuple("LookaheadState", "fast_state steps_since_sync")


class LookaheadParams(NamedTuple):
    """Fast and slow parameters."""

    fast: Tree
    slow: Tree

    @classmethod
    def init_synced(cls, params: Tree) -> LookaheadParams:
        """Both the same."""
        return cls(params, params)


def lookahead(
    fast_optimizer: GradientTransformation,
    sync_period: int,
    slow_step_size: Scalar,
    reset_state: bool = False,
) -> GradientTransformation:
    """Slow parameters that follow fast ones every `sync_period` steps.

    Args:
      fast_optimizer: of the fast parameters.
      sync_period: how many steps they run ahead.
      slow_step_size: the part of the way that the slow ones follow.
      reset_state: begin anew then.

    Raises:
      ArgumentError: the period is not positive.

    `update` takes `LookaheadParams`, and gives updates of both.

    Source: M. Zhang et al., "Lookahead optimizer: k steps forward, 1 step back", 2019.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.lookahead(optim.sgd(0.1), sync_period=5, slow_step_size=0.5)
      >>> params = optim.LookaheadParams.init_synced({"w": fnp.zeros(2)})
      >>> updates, state = tx.update({"w": fnp.ones(2)}, tx.init(params), params)
      >>> updates.fast
      {'w': Array([-0.1, -0.1], dtype=float32)}
    """
    if sync_period < 1:
        raise ArgumentError(
            f"lookahead: sync_period must be positive, got {sync_period}"
        )

    def init(params: Tree) -> Any:
        fast = getattr(params, "fast", params)
        return LookaheadState(fast_optimizer.init(fast), base.zero())

    def update(updates: Tree, state: Any, params: Any = None) -> Any:
        base.check_state("lookahead", state, LookaheadState)
        params = base.need_params("lookahead", params)
        made, own = fast_optimizer.update(updates, state.fast_state, params.fast)
        sync = state.steps_since_sync == sync_period - 1
        ahead = trees.map(lambda f, u, s: f + u - s, params.fast, made, params.slow)
        slow = trees.map(lambda d: slow_step_size * sync * d, ahead)
        fast = trees.map(lambda u, d: u - sync * (1 - slow_step_size) * d, made, ahead)
        if reset_state:
            own = _where(sync, fast_optimizer.init(params.fast), own)
        steps = (state.steps_since_sync + 1) % sync_period
        return LookaheadParams(fast, slow), LookaheadState(own, steps)

    return GradientTransformation(init, update)


# Parts of the parameters.

#: The state of each part, by its label.
PartitionState = namedtuple("PartitionState", "inner_states")


def partition(
    transforms: Any, param_labels: Any, *, mask_compatible_extra_args: bool = False
) -> GradientTransformationExtraArgs:
    """Transforms each part of the parameters in its own way.

    Args:
      transforms: label -> transformation.
      param_labels: a tree of labels, a prefix of the parameters' structure, or a
        function that makes one from the parameters.
      mask_compatible_extra_args: what else `update` is given is masked where it has
        the structure of the updates.

    Raises:
      TreeError: a label has no transformation.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.partition({"slow": optim.sgd(0.1), "fast": optim.sgd(1.0)},
      ...                      {"w": "slow", "b": "fast"})
      >>> params = {"w": fnp.array([1.0]), "b": fnp.array([1.0])}
      >>> tx.update(params, tx.init(params), params)[0]
      {'w': Array([-0.1], dtype=float32), 'b': Array([-1.], dtype=float32)}
    """

    def labels_of(params: Tree) -> Tree:
        return param_labels(params) if callable(param_labels) else param_labels

    def mask_of(label: Any, params: Tree) -> Tree:
        return trees.map(lambda x: x == label, labels_of(params))

    ways = {
        label: base.masked(
            way, partial(mask_of, label),
            mask_compatible_extra_args=mask_compatible_extra_args,
        )
        for label, way in transforms.items()
    }  # fmt: skip

    def init(params: Tree) -> Any:
        unknown = {x for x in trees.leaves(labels_of(params)) if x not in ways}
        if unknown:
            raise TreeError(
                "partition: no transformation for the labels "
                f"{sorted(unknown, key=str)}; there are {sorted(ways, key=str)}"
            )
        return PartitionState({label: way.init(params) for label, way in ways.items()})

    def update(updates: Tree, state: Any, params: Any = None, **extra: Any) -> Any:
        base.check_state("partition", state, PartitionState)
        states = dict(state.inner_states)
        for label, way in ways.items():
            updates, states[label] = way.update(updates, states[label], params, **extra)
        return updates, PartitionState(states)

    return GradientTransformationExtraArgs(init, update)


multi_transform = partition


def freeze(mask: Any) -> GradientTransformationExtraArgs:
    """Updates are 0 where the mask is true.

    Args:
      mask: a tree of bools, a prefix of the parameters' structure, or a function that
        makes one from the parameters.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.chain(optim.sgd(1.0), optim.freeze({"w": False, "b": True}))
      >>> params = {"w": fnp.ones(1), "b": fnp.ones(1)}
      >>> tx.update(params, tx.init(params), params)[0]
      {'w': Array([-1.], dtype=float32), 'b': Array([0.], dtype=float32)}
    """
    return base.masked(base.set_to_zero(), mask)


def selective_transform(
    optimizer: GradientTransformation, *, freeze_mask: Any
) -> GradientTransformationExtraArgs:
    """Optimizes where the mask is false; elsewhere updates are 0.

    Args:
      optimizer: of the parameters that vary.
      freeze_mask: a tree of bools, or a function that makes one from the parameters.
    """
    labels = trees.map(lambda m: "freeze" if m else "train", freeze_mask)
    parts = {"train": optimizer, "freeze": base.set_to_zero()}
    return partition(parts, lambda _: labels)


def flatten(inner: GradientTransformation) -> GradientTransformationExtraArgs:
    """Transforms all updates as one vector.

    Args:
      inner: the transformation of a vector.

    Example:
      >>> tx, w = ft.optim.flatten(ft.optim.sgd(0.1)), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.05,  0.01], dtype=float32)
    """
    way = with_extra_args_support(inner)

    def update(updates: Tree, state: Tree, params: Any = None, **extra: Any) -> Any:
        params = None if params is None else ravel_pytree(params)[0]
        vector, build = ravel_pytree(updates)
        made, state = way.update(vector, state, params, **extra)
        return build(made), state

    def init(params: Tree) -> Tree:
        return inner.init(ravel_pytree(params)[0])

    return GradientTransformationExtraArgs(init, update)


# What is measured.

#: What was measured last, by its name.
SnapshotState = namedtuple("SnapshotState", "measurement")


def snapshot(
    measure_name: str, measure: Callable[[Tree], Tree]
) -> GradientTransformation:
    """Leaves the updates; the state has `measure(updates)`, under a name.

    Args:
      measure_name: the name in the state.
      measure: a function of the updates.
    """

    def update(updates: Tree, state: Tree, params: Tree | None = None) -> Any:
        return updates, SnapshotState({measure_name: measure(updates)})

    return GradientTransformation(
        lambda params: SnapshotState({measure_name: measure(params)}), update
    )


#: What was measured last, by name, and the states of the measures.
MonitorState = namedtuple("MonitorState", "measurements measure_states")


def monitor(measures: dict[str, Any]) -> GradientTransformationExtraArgs:
    """Leaves the updates; the state has what several measures make of them.

    Args:
      measures: name -> function of the updates, or transformation of them.
    """
    ways = {
        name: with_extra_args_support(
            base.stateless(lambda g, _, f=f: f(g)) if callable(f) else f
        )
        for name, f in measures.items()
    }

    def init(params: Tree) -> Any:
        return MonitorState({}, tuple([way.init(params) for way in ways.values()]))

    def update(updates: Tree, state: Any, params: Any = None, **extra: Any) -> Any:
        rows = zip(ways.values(), state.measure_states, strict=True)
        found = [way.update(updates, own, params, **extra) for way, own in rows]
        values = {name: made for name, (made, _) in zip(ways, found, strict=True)}
        return updates, MonitorState(values, tuple([own for _, own in found]))

    return GradientTransformationExtraArgs(init, update)


def measure_with_ema(
    measure: Callable[[Tree], Tree],
    decay: Any,
    debias: bool = True,
    accumulator_dtype: Any = None,
) -> GradientTransformationExtraArgs:
    """The running mean of what is measured, for `monitor`; see `ema`.

    Args:
      measure: a function of the updates.
      decay, debias, accumulator_dtype: see `ema`.
    """
    init, update = scaling.ema(decay, debias, accumulator_dtype)
    mean = GradientTransformation(lambda params: init(measure(params)), update)
    return base.chain(base.stateless(lambda updates, _: measure(updates)), mean)


base.check_hyperparameters(__name__)
