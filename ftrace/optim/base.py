"""What an optimizer is: a pair of pure functions from gradients to updates.

    optimizer = chain(clip_by_global_norm(1.0), adam(1e-3))
    state = optimizer.init(params)
    updates, state = optimizer.update(grads, state, params)
    params = apply_updates(params, updates)

The interface is that of optax: transformations of gradients that chain.
"""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedNamedTuple=false

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from types import FunctionType
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ArgumentError, TreeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.optim.tree import each, split
from ftrace.trace.arrays.array import Array
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import aval_of, is_value

__all__ = [
    "EmptyState", "GradientTransformation", "GradientTransformationExtraArgs",
    "MaskOrFn", "MaskedNode", "MaskedState", "OptState", "Params", "ScalarOrSchedule",
    "Schedule", "ShouldSkipUpdateFunction", "TransformInitFn",
    "TransformUpdateExtraArgsFn", "TransformUpdateFn", "Updates", "apply_updates",
    "chain", "identity", "incremental_update", "init_empty_state", "masked",
    "named_chain", "periodic_update", "safe_increment", "safe_int32_increment",
    "set_to_zero", "stateless", "stateless_with_tree_map", "with_extra_args_support",
]  # fmt: skip


Tree = Any  # of arrays: parameters, gradients, updates, states
Params = Updates = OptState = Tree
MaskOrFn = Any  # a tree of bools, a function that makes one, or None
ShouldSkipUpdateFunction = Callable[..., Any]  # see MultiSteps
Schedule = Callable[[Any], Any]  # from the number of steps done to a value
Scalar = Any  # a number, or an array without axes
ScalarOrSchedule = Any  # a Scalar or a Schedule


def check_hyperparameters(module: str) -> None:
    """Public functions of a module refuse what is no number where types say `Scalar`.

    A `Schedule`, or None, is right where they say so.
    """
    space = vars(sys.modules[module])
    for name in space["__all__"]:
        if isinstance(make := space[name], FunctionType):
            types = make.__annotations__.items()
            scalars = {n: text for n, text in types if text[:2] == "Sc"}
            space[name] = _check(make, scalars) if scalars else make


def _check(make: FunctionType, types: dict[str, str]) -> Callable[..., Any]:
    names = list(signature(make).parameters)

    @wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in types:
                check_scalar(make.__name__, name, value, types[name])
        return make(*args, **kwargs)

    return call


def check_scalar(function: str, name: str, value: Any, kind: str = "Scalar") -> None:
    """Raises where an argument is none of what its annotation names.

    Raises:
      ArgumentError: it is another.
    """
    good = {
        "a number": "Scalar" in kind and is_value(value) and not aval_of(value).shape,
        "a schedule, of the number of steps": "Schedule" in kind and callable(value),
        "None": "None" in kind and value is None,
    }
    if not any(good.values()):
        words = ("Scalar", "Schedule", "None")
        right = [text for word, text in zip(words, good, strict=True) if word in kind]
        right = " or ".join(right)
        raise ArgumentError(f"{function}: {name} must be {right}; got {value!r:.60}")


def check_state(name: str, state: Any, kind: Any) -> None:
    """Raises where `update` is not given what `init` returned: a state of this kind.

    Raises:
      TreeError: it is something else.
    """
    if getattr(state, "_fields", None) != kind._fields:
        raise TreeError(
            f"{name}: update takes the state that init(params) of this optimizer, or "
            f"its last update, returned; got {state!r:.60}"
        )


TransformInitFn = Callable[[Tree], Tree]
#: `update(updates, state, params=None) -> (updates, state)`.
TransformUpdateFn = Callable[..., tuple[Tree, Tree]]
TransformUpdateExtraArgsFn = TransformUpdateFn


class GradientTransformation(NamedTuple):
    """Two pure functions.

    Attributes:
      init: `init(params) -> state`.
      update: `update(updates, state, params=None) -> (updates, state)`; `updates` are
        the gradients, or what the transformation before this one made of them.
    """

    init: TransformInitFn
    update: TransformUpdateFn


class GradientTransformationExtraArgs(GradientTransformation):
    """Its `update` takes more by keyword: `update(updates, state, params, **extra)`."""


def with_extra_args_support(
    tx: GradientTransformation,
) -> GradientTransformationExtraArgs:
    """The transformation, whose `update` takes and ignores what others ask for.

    Args:
      tx: a pair (init, update).
    """
    if isinstance(tx, GradientTransformationExtraArgs):
        return tx

    def update(updates: Tree, state: Tree, params: Any = None, **_: Any) -> Any:
        return tx.update(updates, state, params)

    return GradientTransformationExtraArgs(tx.init, update)


def need_params(name: str, params: Tree | None) -> Tree:
    """The parameters, which an update needs.

    Raises:
      ArgumentError: they were not given.
    """
    if params is None:
        raise ArgumentError(
            f"{name} needs the parameters: call update(grads, state, params)"
        )
    return params


class EmptyState(NamedTuple):
    """The state of a transformation that has none."""


def init_empty(params: Tree) -> EmptyState:
    """The `init` of transformations without state.

    Args:
      params: a tree of arrays.
    """
    return EmptyState()


init_empty_state = init_empty


def of_each(function: Callable[[Any], Any]) -> GradientTransformation:
    """Applies `function` to each array of the updates."""
    return stateless(lambda updates, _: each(function, updates))


def with_params(name: str, function: Callable[..., Any]) -> GradientTransformation:
    """Applies `function` to each array of the updates and its parameter."""
    return stateless(lambda u, params: each(function, u, need_params(name, params)))


def running(
    name: str, kind: Any, rule: Callable[..., Any], values: str | None = None,
    counts: bool = True, params: str = "", **begin: Any,
) -> GradientTransformation:  # fmt: skip
    """Of values that run along with each parameter.

    Args:
      name: of the transformation.
      kind: of the state, whose fields are trees of them, and `count`.
      rule: (update, *values) -> (update, *values). If there is a field for the number
        of steps, a function of it that returns that one.
      values: the names of the fields, if not all of them are there.
      counts: the number of steps is counted; otherwise `rule` is given None.
      params: "given" has the rule take the parameter, too, where there is one; "needed"
        where there must be.
      begin: for a value what it is at first, by default 0, and its dtype; None is that
        of the parameter. Or a function of the parameter.
    """
    counter = next((n for n in ("count", "t") if n in kind._fields), "")
    own = [n for n in kind._fields if n != counter]
    fields = own if values is None else values.split()
    counts = counts and bool(counter)

    def first(field: str, param: Any) -> Any:
        made = begin.get(field, (0, None))
        if callable(made):
            return made(fnp.asarray(param))
        return fnp.full_like(param, made[0], dtype=made[1])

    def init(params: Tree) -> Tree:
        count = {counter: zero()} if counts else {}
        trees = {n: tree.map(partial(first, n), params) for n in fields}
        return kind(**count, **trees)

    def update(updates: Tree, state: Tree, given: Tree | None = None) -> Any:
        check_state(name, state, kind)
        known = [need_params(name, given)] if params == "needed" else [given]
        known = known if params and given is not None else []
        count = {counter: increment(getattr(state, counter))} if counts else {}
        function = rule(count.get(counter)) if counter else rule
        trees = [getattr(state, field) for field in fields]
        made, *values = split(function, 1 + len(fields), updates, *trees, *known)
        return made, kind(**count, **dict(zip(fields, values, strict=True)))

    return GradientTransformation(init, update)


def identity() -> GradientTransformation:
    """Leaves the updates as they are; it has no state.

    Example:
      >>> tx, w = ft.optim.identity(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.5, -0.1], dtype=float32)
    """
    return of_each(lambda update: update)


def set_to_zero() -> GradientTransformation:
    """Updates of zeros: what is transformed so stays as it is.

    Example:
      >>> tx, w = ft.optim.set_to_zero(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([0., 0.], dtype=float32)
    """
    return of_each(fnp.zeros_like)


def stateless(f: Callable[[Tree, Tree | None], Tree]) -> GradientTransformation:
    """The transformation `f(updates, params)` of trees, without a state.

    Args:
      f: (updates, params) -> updates, of trees; the parameters may be None.

    Example:
      >>> tx, w = ft.optim.stateless(lambda g, w: -0.1 * g), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.05,  0.01], dtype=float32)
    """

    def update(updates: Tree, state: Tree, params: Tree | None = None) -> Any:
        return f(updates, params), state

    return GradientTransformation(init_empty, update)


def stateless_with_tree_map(f: Callable[[Any, Any], Any]) -> GradientTransformation:
    """The transformation `f(update, param)` of each array, without a state.

    Args:
      f: (update, param) -> update, of arrays; the parameter may be None.

    Example:
      >>> tx = ft.optim.stateless_with_tree_map(lambda g, w: -0.1 * g)
      >>> w = fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.05,  0.01], dtype=float32)
    """

    def apply(updates: Tree, params: Tree | None) -> Tree:
        if params is None:
            return each(lambda g: f(g, None), updates)
        return each(f, updates, params)

    return stateless(apply)


def chain(*transformations: GradientTransformation) -> GradientTransformationExtraArgs:
    """Applies transformations one after the other; the state is a tuple of theirs.

    Args:
      transformations: pairs (init, update), such as optimizers and the functions
        `scale_by_…`, `clip_…`. What else `update` is given goes to those that take
        more.

    Returns:
      A pair (init, update).

    Raises:
      ArgumentError: an argument is no pair of functions.
      TreeError: `update` is called with the state of another optimizer.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.chain(optim.clip(1.0), optim.sgd(0.1))
      >>> params = fnp.zeros(2)
      >>> tx.update(fnp.array([5.0, -0.5]), tx.init(params), params)[0]
      Array([-0.1 ,  0.05], dtype=float32)
    """
    for transformation in transformations:
        if not (isinstance(transformation, tuple) and len(transformation) == 2):
            raise ArgumentError(
                "chain takes pairs (init, update), such as sgd(0.1), got "
                f"{transformation!r:.60}"
            )

    def init(params: Tree) -> tuple[Tree, ...]:
        return tuple([t.init(params) for t in transformations])

    ways = [with_extra_args_support(t).update for t in transformations]

    def update(updates: Tree, state: Tree, params: Any = None, **extra: Any) -> Any:
        parts = len(state) if type(state) in (tuple, list) else "no"
        if parts != len(transformations):
            raise TreeError(
                f"chain: the state has {parts} parts, the chain "
                f"{len(transformations)}; make it with init(params) of this optimizer"
            )
        states: list[Tree] = []
        for way, own in zip(ways, state, strict=True):
            updates, own = way(updates, own, params, **extra)
            states.append(own)
        return updates, tuple(states)

    return GradientTransformationExtraArgs(init, update)


def named_chain(*transforms: tuple[str, Any]) -> GradientTransformationExtraArgs:
    """A chain of pairs (name, transformation); the state is a dict of theirs.

    Args:
      transforms: pairs (name, transformation).

    Raises:
      ArgumentError: two have the same name.

    Example:
      >>> clip, sgd = ft.optim.clip(1.0), ft.optim.sgd(0.1)
      >>> tx = ft.optim.named_chain(("clip", clip), ("sgd", sgd))
      >>> sorted(tx.init(fnp.ones(2)))
      ['clip', 'sgd']
    """
    names = [name for name, _ in transforms]
    if len(set(names)) < len(names):
        raise ArgumentError(f"named_chain: names must differ, got {names}")
    parts = chain(*[t for _, t in transforms])

    def init(params: Tree) -> dict[str, Tree]:
        return dict(zip(names, parts.init(params), strict=True))

    def update(updates: Tree, state: Tree, params: Any = None, **extra: Any) -> Any:
        states = tuple([state[name] for name in names])
        updates, states = parts.update(updates, states, params, **extra)
        return updates, dict(zip(names, states, strict=True))

    return GradientTransformationExtraArgs(init, update)


def incremental_update(new_tensors: Tree, old_tensors: Tree, step_size: Scalar) -> Tree:
    """A part of the way from old to new: step_size·new + (1 - step_size)·old.

    Args:
      new_tensors, old_tensors: trees of one structure.
      step_size: the part.

    Returns:
      A tree: a running mean of parameters, if the old ones are what was returned last.

    Example:
      >>> from ftrace import optim
      >>> optim.incremental_update(fnp.array([10.0]), fnp.array([0.0]), 0.25)
      Array([2.5], dtype=float32)
    """
    return each(
        lambda new, old: step_size * new + (1.0 - step_size) * old,
        new_tensors, old_tensors,
    )  # fmt: skip


def periodic_update(
    new_tensors: Tree, old_tensors: Tree, steps: Any, update_period: int
) -> Tree:
    """The new ones at each multiple of a number of steps, else the old ones.

    Args:
      new_tensors, old_tensors: trees of one structure.
      steps: how many have been done: an integer scalar.
      update_period: the number.

    Example:
      >>> from ftrace import optim
      >>> new, old = fnp.array([1.0]), fnp.array([0.0])
      >>> optim.periodic_update(new, old, 6, 3), optim.periodic_update(new, old, 7, 3)
      (Array([1.], dtype=float32), Array([0.], dtype=float32))
    """
    due = fnp.mod(steps, update_period) == 0
    return each(lambda x, y: fnp.where(due, x, y), new_tensors, old_tensors)


def apply_updates(params: Tree, updates: Tree) -> Tree:
    """The parameters plus the updates, each in its own dtype.

    Args:
      params: a tree of arrays; None stays None.
      updates: a tree of the same structure; None leaves a parameter as it is.

    Returns:
      A tree of the structure and dtypes of `params`.

    Raises:
      TreeError: the two differ in structure.

    Example:
      >>> from ftrace import optim
      >>> params, updates = {"w": fnp.array([1.0, 2.0])}, {"w": fnp.array([-0.5, 0.5])}
      >>> optim.apply_updates(params, updates)
      {'w': Array([0.5, 2.5], dtype=float32)}
    """

    def add(param: Any, update: Any) -> Any:
        if param is None or update is None:
            return param
        if type(param) is not Array:
            param = fnp.asarray(param)
        return (param + update).astype(param.dtype)

    return tree.map_with_none("apply_updates", add, params, updates)


def zero() -> Any:
    """A count of no steps."""
    return fnp.zeros((), dtypes.int32)


def increment(count: Any) -> Any:
    """The count plus one; it stays at the greatest number of its dtype."""
    return fnp.minimum(count, dtypes.limits(fnp.asarray(count).dtype)[1] - 1) + 1


safe_increment = safe_int32_increment = increment


# Masks.

#: The state of a transformation of a part of the parameters.
MaskedState = namedtuple("MaskedState", "inner_state")


class MaskedNode(NamedTuple):
    """Stands for what a mask leaves out; it has no leaves."""


def masked(
    inner: GradientTransformation,
    mask: Any,
    *,
    mask_compatible_extra_args: bool = False,
) -> GradientTransformationExtraArgs:
    """Applies a transformation where a mask is true; elsewhere updates stay.

    Args:
      inner: the transformation.
      mask: a tree of bools, a prefix of the parameters' structure, or a function that
        makes one from the parameters.
      mask_compatible_extra_args: what else `update` is given is masked where it has
        the structure of the updates.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.masked(optim.scale(10.0), {"w": True, "b": False})
      >>> params = {"w": fnp.array([1.0]), "b": fnp.array([1.0])}
      >>> tx.update(params, tx.init(params))[0]
      {'w': Array([10.], dtype=float32), 'b': Array([1.], dtype=float32)}
    """

    def mask_of(params: Tree) -> Tree:
        return mask(params) if _is_function(mask) else mask

    def init(params: Tree) -> MaskedState:
        return MaskedState(inner.init(_mask_part(mask_of(params), params)))

    way = with_extra_args_support(inner).update

    def update(updates: Tree, state: Tree, params: Any = None, **extra: Any) -> Any:
        check_state("masked", state, MaskedState)
        flags = mask_of(updates)
        part = None if params is None else _mask_part(flags, params)
        chosen = _mask_part(flags, updates)
        if mask_compatible_extra_args:
            whole = tree.structure(updates)
            extra = {
                name: _mask_part(flags, x) if tree.structure(x) == whole else x
                for name, x in extra.items()
            }
        made, own = way(chosen, state.inner_state, part, **extra)
        whole = tree.map(lambda flag, x, y: x if flag else y, flags, made, updates)
        return whole, MaskedState(own)

    return GradientTransformationExtraArgs(init, update)


def _is_function(mask: Any) -> bool:
    """Modules can be called too: what holds nothing but bools is a mask itself."""
    flags = tree.leaves(mask) if callable(mask) else []
    kinds = {getattr(x, "dtype", type(x)) for x in flags}
    return callable(mask) and not (flags and kinds <= {bool, dtypes.bool_})


def _mask_part(flags: Tree, values: Tree) -> Tree:
    return tree.map(lambda flag, x: x if flag else MaskedNode(), flags, values)
