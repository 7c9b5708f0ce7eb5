"""Arrays over a mesh of several processes, and programs that run on them.

    mesh x: 4 over processes 0 0 1 1        P("x")   (8, 6)  ->  (4, 6) in each process

Each process has the parts of its own devices, as one array. A program on such arrays is
traced for the whole ones; what runs in a process takes its own parts:

    f(x)  ->  f(whole(x'))        shard(whole(x')) -> x'

and what is a whole of parts at the end stays in parts. `shard_map` begins with `shard`
and ends with `whole`, so that nothing is moved between two of them. A program that has
none of it is divided by rules (`partition/`), for each of the process's devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from math import prod
from typing import Any, NoReturn

import numpy

from ftrace.backends.base import Device
from ftrace.errors import ShardingError, UnaddressableError
from ftrace.ground import process_groups, processes
from ftrace.ground.tables import memo
from ftrace.trace.arrays.array import Array, given_sharding
from ftrace.trace.arrays.buffer import Buffer, allocate_aligned, copy_aligned
from ftrace.trace.batching import batch_nodes, first_of, lane_numbers, place_axis
from ftrace.trace.bind import bind_compound
from ftrace.trace.body import depends_on
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.graph import Graph, Node, has_any, nodes_of, substitute, toposort
from ftrace.trace.graph_map import convert
from ftrace.trace.primitives.exchange import Ranks, Spread, of_ranks, shard_p, whole_p
from ftrace.trace.primitives.movement import permute, reshape
from ftrace.trace.primitives.primitive import items
from ftrace.trace.primitives.sources import scope_and_position, variable
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer, stack
from ftrace.transforms.meshes import Mesh, PartitionSpec, names_by_axis
from ftrace.transforms.partition import partition
from ftrace.transforms.partition.localize import Partitioned
from ftrace.transforms.partition.loops import shard_loops, shard_of_whole, whole_of
from ftrace.transforms.partition.specs import brief, merge_by, split_by
from ftrace.transforms.shardings import (
    Index,
    NamedSharding,
    Placed,
    shards_of,
    with_sharding,
)
from ftrace.transforms.structs import mesh_sharding

np: Any = numpy  # whose stubs leave too much unknown


@memo(64)
def split(mesh: Mesh) -> dict[Any, tuple[Ranks | None, int]]:
    """For each axis of a mesh the processes along it, and how many devices each has.

    Raises:
      ShardingError: the devices of a process are not a block of the mesh.
    """
    indices = [device.process_index for device in mesh.devices.flat]
    owners: Any = np.array(indices).reshape(mesh.devices.shape)
    grid, found = owners, dict[Any, tuple[Ranks | None, int]]()
    counts: list[int] = []
    for axis in range(owners.ndim):
        rows = np.moveaxis(grid, axis, 0)
        changes = (rows[1:] != rows[:-1]).any(tuple(range(1, rows.ndim)))
        counts.append(1 + int(changes.sum()))
        grid = grid.take(np.flatnonzero(np.append(True, changes)), axis)
    lanes = [n // count for n, count in zip(owners.shape, counts, strict=True)]
    again = np.kron(grid, np.ones(lanes, int))
    if not same_size(again.shape, owners.shape) or (again != owners).any() or (
        len(np.unique(grid)) < grid.size
    ):  # fmt: skip
        raise ShardingError(
            f"the devices of a process must be a block of the mesh; {mesh} has those "
            f"of the processes {owners.tolist()}; ft.make_mesh(sizes, names) takes "
            "devices in their order"
        )
    for axis, name in enumerate(mesh.axis_names):
        lines = np.moveaxis(grid, axis, -1).reshape(-1, counts[axis])
        groups = tuple([tuple(line) for line in lines.tolist()])
        found[name] = Ranks(name, groups) if counts[axis] > 1 else None, lanes[axis]
    return found


def spread_of(sharding: NamedSharding, ndim: int) -> Spread:
    """How an array of so many axes is divided between processes."""
    known, spec = split(sharding.mesh), tuple(sharding.spec)
    rows = names_by_axis(spec, ndim)
    factors = tuple([tuple([known[name] for name in names]) for names in rows])
    return Spread(sharding.mesh, (*spec, *[None] * (ndim - len(spec))), factors)


def _sharding(spread: Spread) -> NamedSharding:
    return NamedSharding(spread.mesh, PartitionSpec(*brief(spread.spec)))


def lift(value: Any) -> Tracer:
    """A value in the trace that is made, of which it is a constant if it is known."""
    scope = stack.scopes[-1]
    return scope.wrap(scope.lift(value))


def local_shard(x: Any, sharding: NamedSharding) -> Any:
    """What this process has of a traced array."""
    return bind_compound(shard_p, x, arg=spread_of(sharding, x.ndim))[0]


def join(x: Any, sharding: NamedSharding) -> Any:
    """A traced array, of what each process has of it."""
    return bind_compound(whole_p, x, arg=spread_of(sharding, x.ndim))[0]


# Arrays.


class Spanning(Placed):
    """An array of which this process has some parts.

    Attributes:
      local: these, as one array.
    """

    __slots__ = ("local",)

    local: Array

    @property
    def local_sharding(self) -> NamedSharding:
        sharding: Any = self.given_sharding
        return NamedSharding(sharding.mesh.local_mesh, sharding.spec)

    @property
    def memory(self) -> Any:
        return PROCESSES

    @property
    def buffer(self) -> Buffer:
        self._refuse()

    def numpy(self) -> Any:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnaddressableError(
            f"Fetching value for an array of shape {self.shape} that spans "
            "non-addressable (non process local) devices is not possible: process "
            f"{processes.index()} has a part of it, x.addressable_shards. "
            "multihost_utils.process_allgather(x, tiled=True) gives the whole of it to "
            "all processes"
        )

    def whole(self) -> Any:
        """All of it, in NumPy's memory: all processes must ask."""
        sharding: Any = self.given_sharding
        return spread_of(sharding, self.ndim).whole(self.local.numpy())

    def shard_on(self, device: Device) -> Array | None:
        """The part of a device; None of one of another process."""
        own = with_sharding(self.local, self.local_sharding)
        parts = [s.data for s in shards_of(own) if s.device is device]
        return parts[0] if parts else None

    def delete(self) -> None:
        self.local.delete()

    def is_deleted(self) -> bool:
        return self.local.is_deleted()

    def __deepcopy__(self, memo: Any) -> Array:
        sharding: Any = self.given_sharding
        return spanning(self.local.__deepcopy__(memo), sharding, self.shape)

    def __repr__(self) -> str:
        return f"Array(shape={self.shape}, dtype={self.dtype})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        self._refuse()


def spanning(local: Array, sharding: NamedSharding, shape: Sequence[int]) -> Array:
    """The array of which this process has that; all of it where all have it alike."""
    if sharding.is_fully_replicated:
        return with_sharding(local, sharding)
    Array.any_placed = True
    made = Spanning(tuple(shape), local.dtype, local.weak_type)
    made.given_sharding, made.local = sharding, local
    return made


def of_process(local: Array, sharding: NamedSharding) -> Array:
    """The array of which this process has that.

    Raises:
      ShapeError: it cannot be divided between the process's devices.
    """
    shape = shape_of_all(sharding, local.shape)
    sharding.shard_shape(shape)
    return spanning(local, sharding, shape)


def own_shard(value: Any) -> Any:
    """Of an array over processes what this one has, over its own devices."""
    if type(value) is not Spanning:
        return value
    return with_sharding(value.local, value.local_sharding)


def put(value: Any, sharding: NamedSharding) -> Array:
    """An array that all processes have, or have parts of, divided so.

    Raises:
      ProcessError: the processes have different arrays.
      ShapeError: it cannot be divided so.
    """
    if given_sharding(value) == sharding:
        return value
    known = value.whole() if type(value) is Spanning else asarray(value).numpy()
    sharding.shard_shape(known.shape)
    if type(value) is not Spanning:
        members = sorted({d.process_index for d in sharding.device_set})

        def text() -> str:
            total = sha256(np.ascontiguousarray(known).reshape(-1).view(np.uint8))
            return f"{known.dtype}{list(known.shape)}\nelements {total.hexdigest()}"

        process_groups.group(members).agree("device_put of an array", text)
    return cut(known, sharding)


def cut(known: Any, sharding: NamedSharding) -> Array:
    """Of an array in NumPy's memory, which all processes have alike, their parts."""
    own = copy_aligned(spread_of(sharding, known.ndim).shard(known))
    return spanning(Array.of(own), sharding, known.shape)


def boxes(sharding: NamedSharding, shape: Sequence[int]) -> list[tuple[Index, Index]]:
    """Where the parts of this process's devices are: in the array, and in its own."""
    own = NamedSharding(sharding.mesh.local_mesh, sharding.spec)
    within = own.devices_indices_map(shape_of_process(sharding, shape))
    found = sharding.addressable_devices_indices_map(shape)
    rows = [(index, within[device]) for device, index in found.items()]
    return [*{repr(row): row for row in rows}.values()]


def of_indices(
    sharding: NamedSharding, shape: Sequence[int], dtype: Any, part: Callable[..., Any]
) -> Array:
    """The array of which `part(index)` is what a device of this process has."""
    size = shape_of_process(sharding, shape)
    memory = allocate_aligned(prod(size) * np.dtype(dtype).itemsize)
    own = memory.view(dtype).reshape(size)
    for index, within in boxes(sharding, shape):
        own[within] = part(index)
    return spanning(Array.of(own), sharding, shape)


def shape_of_process(sharding: NamedSharding, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of what each process has of an array."""
    return spread_of(sharding, len(shape)).of_process(shape)


def shape_of_all(sharding: NamedSharding, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the array of which each process has that."""
    return spread_of(sharding, len(shape)).of_all(shape)


# Programs.


class _Processes:
    """Where arrays over several processes are: as a device, what programs run on."""

    name = "the devices of several processes"
    host = False

    def run(
        self, graph: Graph, arrays: Sequence[Array],
        run_here: Callable[[Graph, Sequence[Array]], list[Array]],
    ) -> list[Array]:  # fmt: skip
        """The outputs of a graph for concrete arguments: captured ones are added.

        Args:
          run_here: runs what this process does, on what it has.
        """
        graph = ready_graph(graph, lambda constraint: constraint)
        own: list[Any] = [*arrays, *graph.captured]
        local, shardings, gathered = _program(graph, tuple(map(_over_several, own)))
        for i in gathered:
            own[i] = Array.of(own[i].whole())
        own = [*map(_local_part, own), *local.captured]
        results = run_here(local, own)
        rows = zip(results, shardings, strict=True)
        return [spanning(x, s, shape_of_all(s, x.shape)) for x, s in rows]

    def program(
        self, graph: Graph, given: Sequence[Any]
    ) -> tuple[Graph, list[NamedSharding]]:
        """What this process runs, and how the results lie.

        Args:
          given: of the inputs that are not captured the shardings, or None.
        """
        graph = ready_graph(graph, lambda constraint: constraint)
        given = *given, *map(_over_several, graph.captured)
        local, shardings, _ = _program(graph, given)
        return local, shardings

    def cut(self, value: Any, sharding: NamedSharding) -> Any:
        """An argument over the mesh; one that was put nowhere is alike everywhere."""
        known = type(value) is Spanning or type(value) is Placed
        if known or sharding.is_fully_replicated:
            return value
        return cut(asarray(value).numpy(), sharding)


def _program(
    graph: Graph, given: tuple[Any, ...]
) -> tuple[Graph, list[NamedSharding], list[int]]:
    """Likewise, and which inputs are gathered: the mesh does not divide them so."""
    key = signature("processes", graph.inputs, graph.outputs, graph.effects, given)
    known = calls.get(key)
    if known is None:
        mesh = partition.mesh_of(graph, given)
        rows = zip(given, graph.inputs, strict=True)
        over = [partition.over_mesh(s, mesh, node.ndim) for s, node in rows]
        kept = dict(zip(graph.inputs, given, strict=True))
        rows = enumerate(zip(given, over, strict=True))
        gathered = [i for i, (one, other) in rows if one is not None and other is None]
        kept.update(dict.fromkeys([graph.inputs[i] for i in gathered]))
        local, spreads = localize_graph(graph, over)
        first, *_ = partition.meshes_of(graph, given)
        rows = zip(map(_sharding, spreads), graph.outputs, strict=True)
        shardings = [
            kept.get(node) or partition.in_words_of_users(s, node, first)
            for s, node in rows
        ]
        known = calls.put(key, (ready_graph(local), shardings, gathered))
    return known


def _over_several(x: Any) -> Any:
    """How an array is divided between processes; None of one of this process."""
    sharding = mesh_sharding(x)
    here = sharding is None or sharding.is_fully_addressable
    return None if here else sharding


def _local_part(x: Any) -> Array:
    """What this process has of an array, which is on no mesh then."""
    if type(x) is Spanning:
        return x.local
    return x.bare if type(x) is Placed else x


PROCESSES = _Processes()


def device_over(mesh: Mesh, placed: Array | None) -> Any:
    """What runs a program that names a mesh over processes.

    Args:
      placed: an argument that was put somewhere.

    Raises:
      ShardingError: that is elsewhere.
    """
    if placed is not None and placed.devices() != {*mesh.devices.flat}:
        names = ", ".join(sorted(device.name for device in placed.devices()))
        raise ShardingError(
            "Received incompatible devices for jitted computation: an argument of "
            f"shape {placed.shape} is on {names}, and the program is over {mesh}; move "
            "it with ftrace.device_put"
        )
    return PROCESSES


def localize_graph(graph: Graph, given: Sequence[Any]) -> tuple[Graph, list[Spread]]:
    """What a process runs, and how each of the results is divided."""
    mesh: Any = partition.mesh_of(graph, given)
    ends = shard_loops(graph.ends)
    graph = replace(graph.with_ends(ends), captured=(), level=None)
    if not has_any((*graph.outputs, *graph.effects), (shard_p, whole_p)):
        return _divide_by_rules(graph, mesh, given)
    # `shard_map` has said what each device does.
    return _divide_around(graph, mesh, given) or _of_wholes(graph, mesh, given)


def _divide_around(
    graph: Graph, mesh: Mesh, given: Sequence[Any]
) -> tuple[Graph, list[Spread]] | None:
    """What is around each `shard_map` divided by rules, as it wants it and leaves it.

        g(whole(f(shard(x))))  ->  g(w), x       w: an input, divided as the whole is

    Both are put together again, once each device has its program of the latter. What
    `f` reads of all devices is wanted whole. None where a part or whole stands in a
    loop, or meshes differ.
    """
    ordered = toposort(graph.outputs)
    wholes = {items(node)[0]: node for node in ordered if node.op is whole_p}
    parts = {items(node)[0]: node for node in ordered if node.op is shard_p}
    meshes = [node.arg.mesh for node in (*parts.values(), *wholes.values())]
    meshes += [sharding.mesh for sharding in given if sharding is not None]
    if graph.effects or any(other != mesh for other in meshes):
        return None
    everywhere = NamedSharding(mesh, PartitionSpec())
    read = {node: (node, everywhere) for node in (*graph.inputs, *wholes)}
    read |= {n: (made.src[0], _sharding(made.arg)) for n, made in parts.items()}
    names, ends = _variables(read, "part"), _variables(wholes, "whole")
    own_parts = {node: names[node] for node in parts}
    around = [*graph.outputs, *[node.src[0] for node in parts.values()]]
    cuts = {**ends, **own_parts}
    around = substitute(around, cuts)
    count, late = len(graph.outputs), depends_on(around, [*own_parts.values()])
    alike = [node in late for node in around]  # what `shard_map` gives without a whole
    own = [n for n, flag in zip(graph.outputs, alike, strict=False) if flag]
    inner = substitute([*[n.src[0] for n in wholes.values()], *own], names)
    reached = nodes_of(inner)
    read = {node: way for node, way in read.items() if names[node] in reached}
    sources = substitute([source for source, _ in read.values()], cuts)
    rows = zip(around[:count], alike, strict=False)
    outputs = [*[node for node, flag in rows if not flag], *sources]
    if has_any((*outputs, *inner), (shard_p, whole_p)) or any(alike[count:]):
        return None
    first, n = len(graph.inputs), len(outputs) - len(sources)
    local, spreads = _divide_by_rules(
        Graph((*graph.inputs, *ends.values()), tuple(outputs)), mesh,
        [*given, *[_sharding(node.arg) for node in wholes.values()]],
        [*[None] * n, *[sharding for _, sharding in read.values()]],
    )  # fmt: skip
    inner = ready_graph(Graph(tuple(names.values()), tuple(inner))).outputs
    rows = zip(wholes.values(), local.inputs[first:], inner, strict=False)
    steps = {node: (end, x) for node, end, x in rows}
    rows = zip(read, local.outputs[n:], strict=True)
    steps |= {node: (names[node], x) for node, x in rows}
    known: dict[Node, Node] = {}
    for node in ordered:
        if node in steps:
            stand, x = steps[node]
            (known[stand],) = substitute([x], known)
    divided = zip(substitute(local.outputs[:n], known), spreads, strict=False)
    rest = [(x, _alike(mesh, x)) for x in substitute(inner[len(wholes) :], known)]
    ways = {True: iter(rest), False: divided}
    found = [next(ways[flag]) for flag in alike[:count]]
    return Graph(local.inputs[:first], tuple([x for x, _ in found])), [
        s for _, s in found
    ]


def _alike(mesh: Mesh, node: Node) -> Spread:
    """Of what all devices have."""
    return Spread(mesh, (None,) * node.ndim, ((),) * node.ndim)


def _variables(nodes: Iterable[Node], depth: str) -> dict[Node, Node]:
    return {node: variable(node.aval, depth, i) for i, node in enumerate(nodes)}


def _of_wholes(
    graph: Graph, mesh: Mesh, given: Sequence[Any]
) -> tuple[Graph, list[Spread]]:
    """What is around each `shard_map` done for whole arrays, in all processes."""
    graph = ready_graph(graph)
    inputs: list[Node] = []
    mapping: dict[Node, Node] = {}
    for node, sharding in zip(graph.inputs, given, strict=True):
        if sharding is None or sharding.is_fully_replicated:
            inputs.append(node)
            continue
        spread = spread_of(sharding, node.ndim)
        aval = node.aval.with_shape(spread.of_process(node.shape))
        inputs.append(variable(aval, *scope_and_position(node)))
        (mapping[node],) = whole_p.results(inputs[-1], arg=spread)
    found = substitute(graph.ends, mapping)
    found = convert(found, {shard_p: shard_of_whole})
    outputs: list[Node] = []
    spreads: list[Spread] = []
    for node in found[: len(graph.outputs)]:
        known = whole_of(node)
        outputs.append(known.src[0] if known else node)
        spreads.append(known.arg if known else _alike(mesh, node))
    effects = (*graph.effects[:1], *found[len(outputs) :])
    return Graph(tuple(inputs), tuple(outputs), (), effects), spreads


def _divide_by_rules(
    graph: Graph, mesh: Mesh, given: Sequence[Any],
    wanted: Sequence[Any] | None = None,
) -> tuple[Graph, list[Spread]]:  # fmt: skip
    """The program of each device, for those of this process: each is a lane."""
    made = partition.partition(graph, mesh, given, wanted)
    spreads = [_spread_over(mesh, spec) for spec in made.out_specs]
    return _in_lanes(made, split(mesh)), spreads


def program_of_device(made: Partitioned) -> Graph:
    """The program of one device, as if each were a process of its own.

    It takes and gives parts, and can be run here: whatever it waits for comes at once,
    and is what the device has itself.
    """
    own = processes.index()
    return _in_lanes(
        made,
        {
            name: (Ranks(name, ((own,) * n,)) if n > 1 else None, 1)
            for name, n in made.found.sizes.items()
        },
    )


def _in_lanes(made: Partitioned, axes: dict[Any, tuple[Ranks | None, int]]) -> Graph:
    """The program of the devices of a process, each a lane: see `split`."""
    sizes = {name: lanes for name, (_, lanes) in axes.items()}
    inputs: list[Node] = []
    leaves: dict[Any, dict[Node, Node]] = {name: {} for name in axes}
    ends: dict[Node, Node] = {}
    rows = zip(made.graph.inputs, made.in_specs, strict=False)  # then places
    for i, (node, spec) in enumerate(rows):
        parts = [prod([sizes[name] for name in names]) for names in spec]
        shape = [n * count for n, count in zip(node.shape, parts, strict=True)]
        inputs.append(variable(node.aval.with_shape(tuple(shape)), "own", i))
        now = node
        for name in reversed(axes):
            if any(name in part for part in spec):
                wide = now.aval.with_shape((sizes[name], *now.shape))
                leaves[name][now] = variable(wide, "own_late", len(ends) + 1)
                now = leaves[name][now]
                ends[now] = inputs[-1]
        ends[now] = _cut(inputs[-1], spec, sizes)
    outputs: Sequence[Node] = made.graph.ends
    specs = [*made.out_specs, *[()] * (len(outputs) - len(made.out_specs))]
    places = made.graph.inputs[len(inputs) :]
    for name, place in reversed([*zip(axes, places, strict=True)]):
        ranks, lanes = axes[name]
        with of_ranks(ranks):
            known = {place: lane_numbers(lanes), **leaves[name]}
            found = batch_nodes(outputs, known, lanes)
            outputs = [
                place_axis(node, has, 0, lanes)
                if any(name in part for part in spec)
                else first_of(node) if has else node
                for (node, has), spec in zip(found, specs, strict=True)
            ]  # fmt: skip
    outputs = substitute(outputs, ends)
    rows = zip(outputs, specs, strict=True)
    outputs = [_join(node, spec, sizes) for node, spec in rows]
    results = outputs[: len(made.out_specs)]
    effects = (*made.graph.effects[:1], *outputs[len(results) :])
    return Graph(tuple(inputs), tuple(results), (), effects)


def _spread_over(mesh: Mesh, spec: Any) -> Spread:
    return spread_of(NamedSharding(mesh, PartitionSpec(*spec)), len(spec))


def _cut(x: Node, spec: Any, sizes: Any) -> Node:
    """What a process has, with each axis of the mesh that the spec names in front."""
    shape, order = split_by(x.shape, spec, sizes)
    return permute(reshape(x, shape), order)


def _join(x: Node, spec: Any, sizes: Any) -> Node:
    """`_cut` back."""
    order, shape = merge_by(x.shape, spec, sizes)
    return reshape(permute(x, order), shape)
