"""Arithmetic of trees of arrays: `optim.tree.add(x, y)`, as optax.tree has it."""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import ftrace.numpy as fnp
from ftrace import random
from ftrace.dtypes import extended
from ftrace.errors import ArgumentError, DtypeError, TreeError, ValueRangeError, one_of
from ftrace.trace.arrays.array import Array
from ftrace.trace.eager.function_objects import member
from ftrace.trace.pytree import tree as pytree
from ftrace.tree_util import register_static

Tree = Any

map = pytree.map
leaves = pytree.leaves
structure = pytree.structure


def each(function: Callable[..., Any], first: Tree, *rest: Tree) -> Tree:
    """`map` over arrays; None in the first tree, for no update, stays None."""

    def apply(*values: Any) -> Any:
        if values[0] is None:
            return None
        arrays = [x if type(x) in (Array, list) else fnp.asarray(x) for x in values]
        return function(*arrays)

    return pytree.map_with_none("tree.map", apply, first, *rest)


def split(function: Callable[..., tuple[Any, ...]], count: int, *trees: Tree) -> Any:
    """As many trees as `function` of the leaves of some gives results."""
    rows: list[tuple[Any, ...]] = []

    def note(*values: Any) -> int:
        rows.append(function(*values))
        return len(rows) - 1

    places = each(note, *trees)
    return [map(lambda i, k=k: rows[i][k], places) for k in range(count)]


def _elementwise(name: str, function: Callable[..., Any]):
    def of_trees(tree_x: Tree, tree_y: Tree) -> Tree:
        return map(function, tree_x, tree_y)

    return of_trees


@member(_elementwise, operator.sub)
def sub():
    """x - y, leaf by leaf."""


@member(_elementwise, operator.mul)
def mul():
    """x * y, leaf by leaf."""


@member(_elementwise, operator.truediv)
def div():
    """x / y, leaf by leaf."""


def add(tree_x: Tree, tree_y: Tree, *other_trees: Tree) -> Tree:
    """The sum of two or more trees."""
    return map(lambda *xs: reduce(operator.add, xs), tree_x, tree_y, *other_trees)


def scale(scalar: Any, tree: Tree) -> Tree:
    """A number times a tree."""
    return map(lambda x: scalar * x, tree)


def add_scale(tree_x: Tree, scalar: Any, tree_y: Tree) -> Tree:
    """x + scalar · y."""
    scalar = fnp.asarray(scalar)
    return each(lambda x, y: x + scalar * y, tree_x, tree_y)


def sum(tree: Tree, associative_reduction: bool = False) -> Any:
    """The sum of all elements."""
    sums: list[Any] = [fnp.sum(x) for x in leaves(tree)]
    return reduce(operator.add, sums, 0)


def vdot(tree_x: Tree, tree_y: Tree) -> Any:
    """The sum of the products of all elements, those of x conjugated."""
    return sum(map(fnp.vdot, tree_x, tree_y))


def max(tree: Tree) -> Any:
    """The greatest element; -inf where there is none."""
    found = [fnp.max(x) for x in leaves(tree) if fnp.size(x)]
    return reduce(fnp.maximum, found, -float("inf"))


def min(tree: Tree) -> Any:
    """The least element; inf where there is none."""
    found = [fnp.min(x) for x in leaves(tree) if fnp.size(x)]
    return reduce(fnp.minimum, found, float("inf"))


def norm(tree: Tree, ord: Any = None, squared: bool = False) -> Any:
    """The norm of all elements together.

    Args:
      tree: of arrays.
      ord: 1, 2 (the default) or infinity.
      squared: give its square.

    Raises:
      ValueRangeError: it is another order.
    """
    if ord in (None, 2):
        total = fnp.asarray(sum(map(lambda x: fnp.real(fnp.conj(x) * x), tree)))
        return total if squared else fnp.sqrt(total)
    sizes = map(fnp.abs, tree)
    if ord == 1:
        found = fnp.asarray(sum(sizes))
    elif ord in ("inf", "infinity", float("inf")):
        found = fnp.asarray(max(sizes))
    else:
        raise ValueRangeError(f"tree.norm: ord must be 1, 2 or inf, got {ord!r}")
    return found**2 if squared else found


def size(tree: Tree) -> int:
    """The number of all elements."""
    return reduce(operator.add, [fnp.size(x) for x in leaves(tree)], 0)


def conj(tree: Tree) -> Tree:
    """The conjugates."""
    return map(fnp.conj, tree)


def real(tree: Tree) -> Tree:
    """The real parts."""
    return map(fnp.real, tree)


def batch_shape(tree: Tree, shape: tuple[int, ...] = ()) -> Tree:
    """Each leaf repeated along new first axes."""
    return map(lambda x: fnp.broadcast_to(x, (*shape, *fnp.shape(x))), tree)


def full_like(tree: Tree, fill_value: Any, dtype: Any = None) -> Tree:
    """A tree like it, full of one value."""
    return map(lambda x: fnp.full_like(x, fill_value, dtype=dtype), tree)


def zeros_like(tree: Tree, dtype: Any = None) -> Tree:
    """A tree like it, of zeros."""
    return full_like(tree, 0, dtype)


def ones_like(tree: Tree, dtype: Any = None) -> Tree:
    """A tree like it, of ones."""
    return full_like(tree, 1, dtype)


def clip(tree: Tree, min_value: Any = None, max_value: Any = None) -> Tree:
    """Every element moved into an interval."""
    return map(lambda x: fnp.clip(x, min_value, max_value), tree)


def where(condition: Any, tree_x: Tree, tree_y: Tree) -> Tree:
    """One tree or the other."""
    return map(lambda x, y: fnp.where(condition, x, y), tree_x, tree_y)


def allclose(
    a: Tree, b: Tree, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> Any:
    """Are all elements equal up to a tolerance?"""
    near = map(lambda x, y: fnp.allclose(x, y, rtol, atol, equal_nan), a, b)
    return reduce(operator.and_, leaves(near), True)


def cast(tree: Tree, dtype: Any) -> Tree:
    """A tree in another dtype; None leaves it."""
    return tree if dtype is None else map(lambda x: x.astype(dtype), tree)


def cast_like(tree: Tree, other_tree: Tree) -> Tree:
    """A tree in the dtypes of another."""
    return map(
        lambda x, y: x.astype(y.dtype) if hasattr(y, "dtype") else x, tree, other_tree
    )


def dtype(tree: Tree, mixed_dtype_handler: str | None = None) -> Any:
    """The dtype of the leaves.

    Args:
      tree: of arrays.
      mixed_dtype_handler: "promote", "highest" or "lowest", where they differ.

    Raises:
      DtypeError: they differ, and nothing says what to do.
      ValueRangeError: there is no such handler.
    """
    ways = None, "promote", "highest", "lowest"
    one_of("tree.dtype: mixed_dtype_handler", mixed_dtype_handler, ways)
    found = list(dict.fromkeys(fnp.asarray(x).dtype for x in leaves(tree)))
    if not found:
        return fnp.asarray([]).dtype
    if mixed_dtype_handler is None:
        if len(found) > 1:
            raise DtypeError(f"tree.dtype: the leaves have several dtypes: {found}")
        return found[0]
    if mixed_dtype_handler == "promote":
        return reduce(fnp.promote_types, found)

    highest = mixed_dtype_handler == "highest"

    def choose(x: Any, y: Any) -> Any:
        both = fnp.promote_types(x, y)
        if both not in (x, y):
            raise DtypeError(f"tree.dtype: neither {x} nor {y} contains the other")
        return both if highest else (y if both == x else x)

    return reduce(choose, found)


def update_moment(updates: Tree, moments: Tree, decay: Any, order: Any) -> Tree:
    """Running means of powers.

    Args:
      updates, moments: trees of one structure.
      decay: the weight of the past.
      order: the power.

    Example:
      >>> ft.optim.update_moment(fnp.array([2.0]), fnp.array([1.0]), 0.5, 2)
      Array([2.5], dtype=float32)
    """
    return each(lambda g, t: (1 - decay) * g**order + decay * t, updates, moments)


def update_moment_per_elem_norm(
    updates: Tree, moments: Tree, decay: Any, order: Any
) -> Tree:
    """Running means of powers of absolute values.

    Args:
      updates, moments: trees of one structure.
      decay: the weight of the past.
      order: the power.

    Example:
      >>> g, m = fnp.array([2.0]), fnp.array([1.0])
      >>> ft.optim.update_moment_per_elem_norm(g, m, 0.5, 2)
      Array([2.5], dtype=float32)
    """

    def mean(g: Any, t: Any) -> Any:
        power = g**order if fnp.isrealobj(g) else fnp.abs(g) ** order
        return (1 - decay) * power + decay * t

    return each(mean, updates, moments)


def update_infinity_moment(updates: Tree, moments: Tree, decay: Any, eps: Any) -> Tree:
    """Running maxima of absolute values.

    Args:
      updates, moments: trees of one structure.
      decay: the factor of the past.
      eps: the least value.

    Example:
      >>> ft.optim.update_infinity_moment(fnp.array([2.0]), fnp.array([1.0]), 0.5, 0.0)
      Array([2.], dtype=float32)
    """
    return each(lambda g, t: fnp.maximum(fnp.abs(g) + eps, decay * t), updates, moments)


def bias_correction(moment: Tree, decay: Any, count: Any) -> Tree:
    """Running means as if they had begun at the first value.

    Args:
      moment: a tree of means.
      decay: the weight of the past.
      count: how many values there were.

    Example:
      >>> ft.optim.bias_correction(fnp.array([0.1]), 0.9, 1)
      Array([0.99999976], dtype=float32)
    """
    weight = fnp.asarray(1 - decay ** fnp.asarray(count).astype(float))
    return map(lambda t: t / weight.astype(t.dtype), moment)


def split_key_like(rng_key: Any, target_tree: Tree) -> Tree:
    """A key for each leaf."""
    shape = structure(target_tree)
    return pytree.unflatten(shape, list(random.split(rng_key, shape.num_leaves)))


def random_like(
    rng_key: Any, target_tree: Tree, sampler: Any = random.normal, dtype: Any = None
) -> Tree:
    """Random numbers in the shapes of a tree: `sampler(key, shape, dtype)`."""
    keys = split_key_like(rng_key, target_tree)
    return map(
        lambda key, x: sampler(key, fnp.shape(x), dtype or fnp.asarray(x).dtype),
        keys, target_tree,
    )  # fmt: skip


def unwrap_random_key_data(input_tree: Tree) -> Tree:
    """A tree whose keys are arrays of integers."""

    def data(x: Any) -> Any:
        typed = fnp.issubdtype(getattr(x, "dtype", float), extended)
        return random.key_data(x) if typed else x

    return map(data, input_tree)


# Parts of states by name.


@register_static
class _Placeholder:
    """Stands for the parameters, wherever a state has a tree like them."""


def map_params(
    initable: Any, f: Callable[..., Any], state: Tree, /, *rest: Tree,
    transform_non_params: Callable[..., Any] | None = None, is_leaf: Any = None,
) -> Tree:  # fmt: skip
    """The state, with `f` applied to what has the structure of the parameters.

    Args:
      initable: the transformation, or its `init`.
      f: of a leaf of the state, and of those of the trees in `rest`.
      state: that `init` or `update` returned.
      rest: trees of the structure of the parameters.
      transform_non_params: of the other leaves of the state; it leaves them by default.
      is_leaf: as that of `tree.map`, within the parameters.
    """
    marked = getattr(initable, "init", initable)(_Placeholder())

    def apply(mark: Any, value: Any) -> Any:
        if isinstance(mark, _Placeholder):
            return map(f, value, *rest, is_leaf=is_leaf)
        return transform_non_params(value) if transform_non_params else value

    return map(apply, marked, state, is_leaf=lambda x: isinstance(x, _Placeholder))


def _items(node: Any) -> tuple[Any, Any, Callable[[list[Any]], Any]]:
    """The names of what is in a container, that, and what makes it anew."""
    names = getattr(node, "_fields", None)
    if isinstance(node, dict):
        made: Any = type(node)
        return node.keys(), node.values(), lambda xs: made(zip(node, xs, strict=True))
    if names is not None:
        return names, node, lambda xs: type(node)(*xs)
    if isinstance(node, (list, tuple)):
        return range(len(node)), node, type(node)
    return (), (), lambda _: node


def get_all_with_path(tree: Tree, key: str, filtering: Any = None) -> list[Any]:
    """[(path, value)] of all fields and items of a name; paths are tuples of names."""
    found: list[Any] = []

    def visit(node: Any, path: tuple[Any, ...]) -> None:
        names, values, _ = _items(node)
        for name, value in zip(names, values, strict=True):
            here = (*path, name)
            if name == key and (filtering is None or filtering(here, value)):
                found.append((here, value))
            visit(value, here)

    visit(tree, ())
    return found


def get(tree: Tree, key: str, default: Any = None, filtering: Any = None) -> Any:
    """The field or item of a name in a state; `default` where there is none.

    Raises:
      TreeError: there are several.
    """
    found = get_all_with_path(tree, key, filtering)
    if len(found) > 1:
        raise TreeError(
            f"tree.get: several values are called {key!r}: at "
            f"{', '.join(str(path) for path, _ in found)}; choose one by filtering="
        )
    return found[0][1] if found else default


def set(tree: Tree, filtering: Any = None, /, **kwargs: Any) -> Tree:
    """The state with other values in the fields and items of some names.

    Raises:
      ArgumentError: nothing is called so.
    """
    for key in kwargs:
        if not get_all_with_path(tree, key, filtering):
            raise ArgumentError(f"tree.set: nothing is called {key!r}")

    def visit(node: Any, path: tuple[Any, ...]) -> Any:
        def at(name: Any, value: Any) -> Any:
            here = (*path, name)
            if name in kwargs and (filtering is None or filtering(here, value)):
                return kwargs[name]
            return visit(value, here)

        names, values, build = _items(node)
        return build([at(n, x) for n, x in zip(names, values, strict=True)])

    return visit(tree, ())
