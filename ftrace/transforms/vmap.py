"""vmap: a function of single examples becomes a function of batches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ftrace import dtypes, errors
from ftrace.trace import flatten_arguments as flat
from ftrace.trace.avals import ShapedArray
from ftrace.trace.batching import batch_nodes, first_of, lane_numbers, place_axis
from ftrace.trace.flatten_arguments import name_of
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives import elementwise as p, exchange
from ftrace.trace.primitives.exchange import lanes as current_lanes
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.sources import scope_and_position, variable
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref, lend, with_parameters
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import Axis, Value, aval_of, bind_axes, is_value
from ftrace.transforms.jit.compiled_graph import apply_graph
from ftrace.transforms.jit.eager_programs import apply_derived
from ftrace.transforms.tangents import holds_numbers, with_float0


class _Shared:
    """Of `out_axes`: a result that is the same in all lanes, be that known or not."""


SHARED = _Shared()


def vmap(
    fun: Callable[flat.P, flat.R],
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[flat.P, flat.R]:
    """`fun`, mapped over an axis of its arguments.

    The operations of `fun` get one more axis; nothing is run in a loop. Transforms
    nest: `vmap(grad(loss), in_axes=(None, 0))` gives a gradient per example.

    Args:
      fun: a function of arrays without that axis.
      in_axes: which axis of each positional argument is mapped: an int, None for an
        argument that all examples share, which may be any object, or a tuple with one
        such entry (or a pytree of them) per argument. Keyword arguments are mapped over
        axis 0.
      out_axes: where the axis is put in each result; None for one that is the same
        for all examples.
      axis_name: what collectives in `fun` call the axis: `lax.psum(x, axis_name)`.
      axis_size: the size of the axis, where no argument is mapped.
      spmd_axis_name: an axis of a mesh, or a tuple of them, along which the new axis
        is divided where `fun` says how values are divided: by `shard_map` or
        `with_sharding_constraint`.

    Returns:
      A function of arguments that have the axis. Its results have it too.

    Raises:
      BatchSizeError: the mapped axes differ in size, or there is none.
      TreeError: in_axes or out_axes do not fit the arguments or results.
      AxisError: an argument or a result has no such axis.
      ValueRangeError: out_axes is None for a result that differs between examples;
        spmd_axis_name is no axis of the mesh, or divides the values already.
      ShapeError: spmd_axis_name does not divide the size of the axis.

    Example:
      >>> ft.vmap(fnp.dot)(fnp.eye(2), fnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array([1., 4.], dtype=float32)
      >>> ft.vmap(lambda x, y: x + y, in_axes=(0, None), out_axes=1)(
      ...     fnp.array([1, 2, 3]), fnp.array([10, 20]))
      Array([[11, 12, 13],
             [21, 22, 23]], dtype=int32)
      >>> ft.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(fnp.array([1.0, 3.0]))
      Array([0.25, 0.75], dtype=float32)
    """
    one: Any = spmd_axis_name
    several: Sequence[Any] = one if type(one) in (tuple, list) else (one,)
    names = tuple([name for name in several if name is not None])
    return over_lanes(
        "vmap", fun, in_axes, out_axes, axis_name, axis_size, spmd_names=names
    )


_TUPLE: type[Any] = tuple
_LIST: type[Any] = list


def over_lanes(
    what: str, fun: Callable[..., Any], in_axes: Any, out_axes: Any,
    axis_name: Any = None, axis_size: int | None = None,
    ranks: exchange.Ranks | None = None, spmd_names: tuple[Any, ...] = (),
) -> Callable[..., Any]:  # fmt: skip
    """`vmap`, of an axis along which several processes have lanes.

    Args:
      what: the transform that the user has called, one of `IN_LANES`.
      fun, in_axes, axis_name, axis_size: as those of `vmap`.
      out_axes: likewise, or `SHARED`.
      ranks: the processes; None is one.
      spmd_names: the axes of `spmd_axis_name`.
    """
    tree.check_callable(fun, what)
    if isinstance(in_axes, _LIST):
        in_axes = tuple(in_axes)
    check_axes(what, "in_axes", in_axes)
    check_axes(what, "out_axes", out_axes)
    processes = 1 if ranks is None else ranks.size

    @flat.wraps(fun, what)
    def vmap_f(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, _TUPLE) and len(in_axes) != len(args):
            raise errors.TreeError(
                f"{what}: in_axes has {len(in_axes)} entries, but {name_of(fun)} was "
                f"called with {len(args)} positional arguments"
            )
        leaves, treedef = tree.flatten((args, kwargs))
        axes = axes_of_leaves(what, in_axes, args, len(leaves))
        if any(type(x) is Ref for x in leaves):
            return _map_refs(fun, leaves, axes, treedef, out_axes, axis_name, axis_size)
        rows = enumerate(zip(axes, leaves, strict=True))
        kept = {i: x for i, (a, x) in rows if a is None and _is_choice(x)}
        if not all(is_value(x) or i in kept for i, x in enumerate(leaves)):
            flat.flatten_values((args, kwargs), f"{what}: the argument ")
        values = [x for i, x in enumerate(leaves) if i not in kept]
        axes = [a for i, a in enumerate(axes) if i not in kept]
        axes = [normal_axis(what, a, x) for a, x in zip(axes, values, strict=True)]
        size = _batch_size(what, fun, axes, values, axis_size)

        output = flat.Output.of_leaves(fun, treedef, what, keywords=True)
        named = None if axis_name is None else (axis_name, size * processes)
        graph = _trace_lane(what, output, values, axes, kept, named)
        count = output.count
        places = [out_axes] * count
        if out_axes not in (None, SHARED) and type(out_axes) is not int:
            whole = output.build([0] * count)
            places = tree.broadcast_prefix(out_axes, whole, f"{what}: out_axes")

        def batch() -> Graph:
            avals = [aval_of(x) for x in values]
            with exchange.of_ranks(ranks), _divided_along(spmd_names):
                return _batch(what, graph, avals, axes, size, places, fun)

        kind = (what, size, tuple(axes), tuple(places), ranks, spmd_names)
        if all(place in (None, SHARED) or type(place) is int for place in places):
            results = apply_derived(kind, graph, batch, values)
        else:
            results = apply_graph(batch(), values)
        types = map(partial(_mapped_type, size), graph.outputs, places)
        return output.build(with_float0(results, count, types))

    return vmap_f


def _trace_lane(
    what: str, output: flat.Output, values: Sequence[Value],
    axes: Sequence[int | None], kept: dict[int, Any], named: tuple[Any, int] | None,
) -> Graph:  # fmt: skip
    """What one lane does.

    Args:
      kept: the leaves that are no values, by their places.
      named: the name and the size of the axis; its index is the last input.
    """

    def example(*values: Value) -> list[Value]:
        inner = list(values)
        bound = [] if named is None else [Axis(*named, inner.pop())]
        for place, leaf in kept.items():
            inner.insert(place, leaf)
        with bind_axes(*bound):
            return output(*inner)

    avals = [aval_of(x) for x in values]
    single = [
        a if axis is None else a.with_shape(a.shape[:axis] + a.shape[axis + 1 :])
        for a, axis in zip(avals, axes, strict=True)
    ]
    shared = [x if a is None else None for x, a in zip(values, axes, strict=True)]
    meant = values
    if named is not None:
        single, shared, meant = [*single, INDEX], [*shared, None], [*values, 0]
    return trace(what, example, single, known=shared, meant=meant)


@contextmanager
def _divided_along(names: tuple[Any, ...]) -> Generator[None]:
    """A block in which lanes are divided along axes of a mesh."""
    before, p.division.names = p.division.names, names
    try:
        yield
    finally:
        p.division.names = before


def _is_choice(leaf: Any) -> bool:
    """Is it no array and no number? An int of Python's chooses, too, as a string.

    So does any number of Python's where the function is traced once for many calls.
    """
    scope = current_scope()
    once = scope is not None and not scope.recalls
    kinds = (bool, int, float, complex) if once else (bool, int)
    return type(leaf) in kinds or not is_value(leaf)


def _map_refs(
    fun: Callable[..., Any],
    leaves: Sequence[Any],
    axes: Sequence[Any],
    treedef: tree.TreeDef,
    out_axes: Any,
    *named: Any,
) -> Any:
    """A call of `vmap(fun)` with references: what they hold is mapped as they are."""
    places = [i for i, x in enumerate(leaves) if type(x) is Ref]
    others = [i for i in range(len(leaves)) if i not in places]
    ours = [axes[i] for i in places]

    def call(args: Any, kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    written: set[int] = set()
    whole = with_parameters(call, places, treedef, written)
    run = vmap(whole, (ours, [axes[i] for i in others]), (out_axes, ours), *named)
    refs = [leaves[i] for i in places]
    return lend(refs, run, [leaves[i] for i in others], written)


#: The type of the number of an instance, which names its axis for collectives.
INDEX = ShapedArray.of((), dtypes.int32)


def _batch(
    what: str,
    graph: Graph,
    avals: Sequence[ShapedArray],
    axes: Sequence[int | None],
    size: int,
    places: Sequence[Any],
    fun: Any,
) -> Graph:
    """A graph of single examples as one of batches.

    Args:
      avals: the types of the arguments, with the axis that is mapped.
      axes: which one that is.
      size: its size.
      places: where the results have it.
    """
    inputs: list[Node] = []
    leaves: dict[Node, Node] = {}
    arguments, captured = graph.inputs[: len(avals)], graph.inputs[len(avals) :]
    if len(captured) > len(graph.captured):
        index, *captured = captured
        leaves[index] = lane_numbers(size)
    for node, aval, axis in zip(arguments, avals, axes, strict=True):
        if axis is None:
            inputs.append(node)
            continue
        depth, index = scope_and_position(node)
        inputs.append(variable(aval, depth, index))
        leaves[node] = move_axis(inputs[-1], axis, 0)
    tokens = graph.effects[1:]
    found = batch_nodes((*graph.outputs, *tokens), leaves, size)
    batched = found[: len(graph.outputs)]
    effects = (*graph.effects[:1], *(node for node, _ in found[len(batched) :]))
    results = [
        _put_axis(what, node, has, place, size, fun)
        for (node, has), place in zip(batched, places, strict=True)
        if holds_numbers(node.aval)
    ]
    return Graph((*inputs, *captured), tuple(results), graph.captured, effects)


def _mapped_type(size: int, node: Node, place: Any) -> ShapedArray:
    """The type of a batch of results, as far as float0 needs it."""
    aval = node.aval
    if place in (None, SHARED) or holds_numbers(aval):
        return aval
    shape = list(aval.shape)
    shape.insert(place % (aval.ndim + 1), size)
    return aval.with_shape(tuple(shape))


def check_axes(what: str, name: str, axes: Any) -> None:
    if name == "in_axes" and not isinstance(axes, (int, _TUPLE, _LIST, type(None))):
        raise errors.ArgumentError(
            f"{what}: in_axes must be an int, None or a tuple with an entry per "
            f"argument, got {axes!r}"
        )
    for axis in (axes,) if flat.is_int(axes) else tree.leaves(axes):
        if (
            axis is not None
            and axis is not SHARED
            and (isinstance(axis, bool) or not flat.is_int(axis))
        ):
            raise errors.ArgumentError(
                f"{what}: {name} must hold ints or None, got {axis!r}"
            )


def axes_of_leaves(what: str, in_axes: Any, args: Any, count: int) -> list[Any]:
    """The axis of each leaf of a call: 0 of what is given by name."""
    axes = tree.broadcast_prefix(in_axes, args, f"{what}: in_axes")
    return [*axes, *[0] * (count - len(axes))]


def normal_axis(what: str, axis: Any, value: Value) -> int | None:
    if axis is None:
        return None
    aval, number = aval_of(value), operator.index(axis)
    if not -aval.ndim <= number < aval.ndim:
        raise errors.AxisError(
            f"{what}: the argument of type {aval!r} has no axis {number} to map over; "
            "use None in in_axes for an argument that all examples share"
        )
    return number % aval.ndim


def _batch_size(
    what: str, fun: Any, axes: Sequence[int | None], values: Sequence[Value],
    axis_size: int | None,
) -> int:  # fmt: skip
    sizes: dict[int, ShapedArray | None] = {
        aval_of(x).shape[axis]: aval_of(x)
        for axis, x in zip(axes, values, strict=True)
        if axis is not None
    }
    if axis_size is not None:
        sizes.setdefault(axis_size, None)
    if not sizes:
        raise errors.BatchSizeError(
            f"{what} of {name_of(fun)}: no argument is mapped; give in_axes an int for "
            "one of them, or pass axis_size"
        )
    if len(sizes) > 1:
        listed = ", ".join(
            f"{n} (axis_size)" if a is None else f"{n} of {a!r}"
            for n, a in sizes.items()
        )
        raise errors.BatchSizeError(
            f"{what} of {name_of(fun)}: {what} got inconsistent sizes for array axes "
            f"to be mapped: {listed}"
        )
    return next(iter(sizes))


def _put_axis(
    what: str, node: Node, batched: bool, place: Any, size: int, fun: Any
) -> Node:
    if place is SHARED:
        node = first_of(node) if batched else node
        ranks = current_lanes.ranks if batched else None
        return node if ranks is None else exchange.communicate(node, "first", ranks)
    if place is None:
        if batched:
            raise errors.ValueRangeError(
                f"{what} of {name_of(fun)}: out_axes is None for a result that depends "
                "on a mapped argument; give it an axis"
            )
        return node
    ndim = node.ndim if batched else node.ndim + 1
    if not -ndim <= place < ndim:
        raise errors.AxisError(
            f"{what}: out_axes {place} does not fit a result of {ndim} axes"
        )
    return place_axis(node, batched, place % ndim, size)
