"""The program of one device: the graph over its parts, with collectives between them.

    y = sum(x · w)              x: (·, model)   w: (model, ·)
        ->  psum(sum(x' · w'), model)

Values are asked for, from the results on, in the spec that their readers need. What is
only a view of something else is made anew for each of them; all else is computed once,
as `propagate` has found, and moved. A sum of parts stays as it is until somebody needs
it: who needs a part of the sum gets it by a psum_scatter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ftrace import dtypes
from ftrace.errors import Origin
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.body import close
from ftrace.trace.control.conditional import Branches
from ftrace.trace.graph import Body, Graph, Node, inherited_origin, with_bodies
from ftrace.trace.primitives import elementwise as p, reduction as r
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.movement import (
    move_axis,
    permute_p,
    reshape,
    reshape_p,
)
from ftrace.trace.primitives.primitive import compound_of, item_p, items
from ftrace.trace.primitives.reduction import Along
from ftrace.trace.primitives.sources import const_like, is_variable, variable
from ftrace.trace.python_limits import without_collection
from ftrace.transforms.partition.propagate import (
    BodyPlan,
    Division,
    Propagation,
    Specs,
    pending_of,
    view_division,
)
from ftrace.transforms.partition.rules import Part, Rule, spec_for
from ftrace.transforms.partition.specs import (
    Move,
    Names,
    Sizes,
    Spec,
    local_bytes,
    local_shape,
    moves,
    received,
)

#: Of variables for the place of a device along the axes of the mesh, and of the local
#: inputs of bodies.
_PLACE_DEPTH, _LOCAL_DEPTH = -16, -17
_PLACE = ShapedArray.of((), dtypes.int32)
#: Views through which a sum may pass before its parts are added up.
_SAME_ELEMENTS = (reshape_p, permute_p)


@dataclass(frozen=True)
class Entry:
    """A collective of a device's program.

    Attributes:
      kind: its name.
      axis: that of the mesh along which it is.
      aval: what the device gives.
      nbytes: what the device receives, each time.
      times: how often, in a loop of known length.
      operation: that which needs it.
      origin: the user's line of that.
    """

    kind: str
    axis: Any
    aval: ShapedArray
    nbytes: int
    times: int
    operation: str
    origin: Origin | None

    def __str__(self) -> str:
        times = f" x {self.times}" if self.times > 1 else ""
        return (
            f"{self.kind} over {self.axis!r} of {self.aval!r} for {self.operation}: "
            f"{self.nbytes} bytes{times}"
        )


class _Value(NamedTuple):
    """A local value: a part, or of a sum along some axes of the mesh one term.

    Attributes:
      node: the value.
      pending: the axes along which terms are still to be combined, by `combine`.
      cause: the operation that made it a term.
    """

    node: Node
    pending: Names = ()
    combine: str = "psum"
    cause: Node | None = None


@dataclass
class Device:
    """The mesh as the program of a device sees it.

    Attributes:
      sizes: of the axes.
      places: for each axis the place of the device along it.
      ledger: the collectives so far.
    """

    sizes: Sizes
    places: Mapping[Any, Node]
    ledger: list[Entry] = field(default_factory=list[Entry])

    @staticmethod
    def of(sizes: Sizes) -> Device:
        names = enumerate(sizes)
        return Device(sizes, {n: variable(_PLACE, _PLACE_DEPTH, i) for i, n in names})

    def number(self, names: Names) -> Node | None:
        """The place along several axes, of which the first counts slowest."""
        found: Node | None = None
        for name in names:
            place = self.places[name]
            if found is not None:
                n = const_like(place, self.sizes[name])
                place = p.add(p.mul(found, n), place)
            found = place
        return found


class _Localizer:
    """One graph, or body, over the parts of its values.

    Args:
      found: the specs.
      inputs: for each variable its local value.
      outputs: values, and the specs in which they are wanted.
      times: how often it runs.
    """

    def __init__(
        self, device: Device, found: Propagation, inputs: Mapping[Node, Node],
        outputs: Sequence[tuple[Node, Spec]], times: int = 1,
    ) -> None:  # fmt: skip
        self.device, self.found, self.times = device, found, times
        self.sizes = device.sizes
        self.reader: Node | None = None
        self.wanted: dict[Node, dict[Spec, None]] = {}
        self.readers: dict[Node, int] = {}
        self.ways: dict[Node, list[Division]] = {}
        for node, spec in outputs:
            self._want(node, spec)
        for node in reversed(found.order):
            if not (is_variable(node) or node.op is item_p):
                self._plan(node)
        self.built = {
            (node, found.own[node]): _Value(local) for node, local in inputs.items()
        }
        self.main = {node: found.own[node] for node in inputs}
        with inherited_origin() as take:
            for node in found.order:
                if node in self.ways:
                    take(node)
                    self.reader = node
                    self._build(node)
            self.reader = None
            self.outputs = [self._get(node, spec).node for node, spec in outputs]

    # Which values are needed, and how.

    def _want(self, node: Node, spec: Spec) -> None:
        self.wanted.setdefault(node, {})[spec] = None
        self.readers[node] = self.readers.get(node, 0) + 1

    def _plan(self, node: Node) -> None:
        found = self.found
        values = found.outputs_of[node]
        if not any(value in self.wanted for value in values):
            return
        if node in found.flows:
            self.ways[node] = [{}]
            for source, spec in zip(node.src, found.flows[node].operands, strict=True):
                self._want(source, spec)
            return
        rule = found.rules[node]
        own = found.divisions[node]
        ways: list[Division] = []
        for want in self.wanted[node] if rule.view else ():
            division = view_division(rule, want, self.sizes)
            if division is not None:
                ways.append(division)
        if not rule.view or len(ways) < len(self.wanted[node]):
            ways.append(own)
        self.ways[node] = ways
        for division in ways:
            for source, axes in zip(node.src, rule.operands, strict=True):
                self._want(source, spec_for(rule, axes, division, self.sizes))

    # The local nodes.

    def _build(self, node: Node) -> None:
        if node in self.found.flows:
            self._build_flow(node)
            return
        rule = self.found.rules[node]
        for division in self.ways[node]:
            made = self._local(node, rule, division)
            values = self.found.outputs_of[node]
            local = made.node
            parts = [local] if compound_of(node) is None else items(local)
            for value, part, axes in zip(values, parts, rule.results, strict=True):
                spec = spec_for(rule, axes, division, self.sizes)
                self.built[value, spec] = made._replace(node=part)
                self.main.setdefault(value, spec)

    def _local(self, node: Node, rule: Rule, division: Division) -> _Value:
        """The operation over its local operands; of a sum its term."""
        made = _Value(node, *pending_of(rule, division), node)
        src: list[Node] = []
        for source, axes in zip(node.src, rule.operands, strict=True):
            want = spec_for(rule, axes, division, self.sizes)
            passes = node.op in _SAME_ELEMENTS and self.readers[source] == 1
            value = self._get(source, want, passes)
            src.append(value.node)
            if value.pending:
                made = value

        def shape(value: Node, number: int) -> Shape:
            spec = spec_for(rule, rule.results[number], division, self.sizes)
            return local_shape(value.shape, spec, self.sizes)

        def first(factors: Sequence[int]) -> Node | None:
            names = [name for f in factors for name in division.get(f, ())]
            number = self.device.number(tuple(names))
            return None if number is None else p.eq(number, const_like(number, 0))

        values = self.found.outputs_of[node]
        part = Part(
            [shape(value, i) for i, value in enumerate(values)],
            lambda factor: self.device.number(division.get(factor, ())), first,
        )  # fmt: skip
        return made._replace(node=rule.local(node, src, part))

    def _get(self, node: Node, want: Spec, as_terms: bool = False) -> _Value:
        """A value in a spec; `as_terms` takes a sum whose parts are not added up."""
        known = self.built.get((node, want))
        if known is not None and (as_terms or not known.pending):
            return known
        have = self.main[node]
        base = self.built[node, have]
        several = [spec for spec in self.wanted[node] if spec != have]
        if base.pending and (len(several) > 1 or have in self.wanted[node]):
            base = self._move(base, node, have, have)  # all are parts of one sum
            self.built[node, have] = base
        made = self._move(base, node, have, want)
        self.built[node, want] = made
        return made

    def _move(self, value: _Value, node: Node, have: Spec, want: Spec) -> _Value:
        local = value.node
        for step in moves(have, want, value.pending, value.combine):
            if step.kind != "slice":
                summed = step.kind.startswith("p")
                cause = value.cause if summed else self.reader
                self._note(step, cause or node, local)
            local = move(self.device, local, step)
        return _Value(local)

    def _note(self, step: Move, cause: Node, local: Node) -> None:
        """An entry, for who reads the value, or for the sum that it is a term of."""
        nbytes = local_bytes(local.aval, ((),) * local.ndim, self.sizes)
        self.device.ledger.append(
            Entry(
                step.kind,
                step.name,
                local.aval,
                received([step], nbytes, self.sizes),
                self.times,
                cause.op.name,
                cause.origin,
            )
        )

    # Loops and branches: their bodies get the places of the device as operands.

    def _build_flow(self, node: Node) -> None:
        flow = self.found.flows[node]
        rows = zip(node.src, flow.operands, strict=True)
        src = [self._get(source, spec).node for source, spec in rows]
        places = list(self.device.places.values())
        arg = node.arg
        length: int | None = getattr(arg, "length", None)
        times = self.times * length if isinstance(length, int) else self.times
        bodies = [self._body(plan, times) for plan in flow.bodies]
        changed = with_bodies(arg, bodies)
        if isinstance(arg, Branches):
            made = node.op(src[0], *places, *src[1:], arg=changed)
        else:
            changed = replace(changed, consts=arg.consts + len(places))
            made = node.op(*places, *src, arg=changed)
        rows = zip(self.found.outputs_of[node], items(made), flow.results, strict=True)
        for value, local, spec in rows:
            self.built[value, spec] = _Value(local)
            self.main[value] = spec

    def _body(self, plan: BodyPlan, times: int) -> Body:
        inputs = local_inputs(plan.body.inputs, plan.inputs, self.sizes)
        rows = zip(plan.body.outputs, plan.outputs, strict=True)
        given = dict(zip(plan.body.inputs, inputs, strict=True))
        made = _Localizer(self.device, plan.found, given, [*rows], times)
        return close([*self.device.places.values(), *inputs], made.outputs)


def local_type(aval: ShapedArray, spec: Spec, sizes: Sizes) -> ShapedArray:
    """The type of a part."""
    return aval.with_shape(local_shape(aval.shape, spec, sizes)) if any(spec) else aval


def local_inputs(
    inputs: Sequence[Node], specs: Specs, sizes: Sizes, depth: int = _LOCAL_DEPTH
) -> list[Node]:
    rows = enumerate(zip(inputs, specs, strict=True))
    return [variable(local_type(n.aval, s, sizes), depth, i) for i, (n, s) in rows]


# Moves.


def _split(x: Node, axis: int, count: int) -> Node:
    """The outer part of an axis as one of its own."""
    size = x.shape[axis] // count
    return reshape(x, (*x.shape[:axis], count, size, *x.shape[axis + 1 :]))


def _joined(rows: Node, axis: int) -> Node:
    """A leading axis as the outer part of another one."""
    x = move_axis(rows, 0, axis)
    merged = x.shape[axis] * x.shape[axis + 1]
    return reshape(x, (*x.shape[:axis], merged, *x.shape[axis + 2 :]))


def move(device: Device, x: Node, step: Move) -> Node:
    """A step from one spec to another, of a local value."""
    count, place = device.sizes[step.name], device.places[step.name]
    op = _COLLECTIVES.get(step.kind)
    if op is None:  # a slice
        return gather(_split(x, step.axis, count), [place], (step.axis,))
    if step.kind == "psum_scatter":
        x = move_axis(_split(x, step.axis, count), step.axis, 0)
    elif step.kind == "all_to_all":
        x = move_axis(_split(x, step.to, count), step.to, 0)
    (made,) = op.results(x, place, arg=Along(step.name, count))
    return _joined(made, step.axis) if step.kind.startswith("all") else made


_COLLECTIVES = {
    op.name: op
    for op in (
        r.psum_p, r.pmax_p, r.pmin_p, r.all_gather_p, r.psum_scatter_p, r.all_to_all_p,
    )
}  # fmt: skip


# The whole.


@dataclass(frozen=True)
class Partitioned:
    """A graph as the program of each device.

    Attributes:
      graph: over the parts of the inputs; its last inputs are the places of the device
        along the axes of the mesh, in their order: int32 scalars.
      in_specs, out_specs: how inputs and outputs are divided.
      ledger: its collectives.
      found: the specs of all values.
    """

    graph: Graph
    in_specs: Specs
    out_specs: Specs
    ledger: tuple[Entry, ...]
    found: Propagation


@without_collection
def localize(
    graph: Graph, found: Propagation, in_specs: Specs, out_specs: Specs
) -> Partitioned:
    """The program of a device, for specs that were found."""
    device = Device.of(found.sizes)
    tokens = graph.effects
    inputs = local_inputs(graph.inputs, in_specs, found.sizes)
    given = dict(zip(graph.inputs, inputs, strict=True))
    given |= {token: token for token in tokens[:1]}
    after = [(token, ()) for token in tokens[1:]]
    wanted = [*zip(graph.outputs, out_specs, strict=True), *after]
    made = _Localizer(device, found, given, wanted)
    count = len(out_specs)
    local = Graph(
        (*inputs, *device.places.values()),
        tuple(made.outputs[:count]), (), (*tokens[:1], *made.outputs[count:]),
    )  # fmt: skip
    return Partitioned(local, in_specs, out_specs, tuple(device.ledger), found)
