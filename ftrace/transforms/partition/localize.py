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
from dataclasses import replace
from typing import Any

from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.body import close
from ftrace.trace.control.conditional import Branches
from ftrace.trace.control.scan import iterations_of
from ftrace.trace.graph import Body, Graph, Node, inherited_origin, with_bodies
from ftrace.trace.primitives import elementwise as p, movement as mv, sources
from ftrace.trace.primitives.broadcast import broadcast_leading, reduce_sum_p
from ftrace.trace.primitives.primitive import compound_of, item_p, items
from ftrace.trace.python_limits import without_collection
from ftrace.transforms.partition import propagate, rules, specs as sp, windows as win
from ftrace.transforms.partition.collectives import Cause, Collective, MeshView

#: Of the local inputs of bodies.
#: Through what a sum may pass before its parts are added up: views, and sums again.
_VIEWS = (mv.reshape_p, mv.permute_p, mv.shrink_p)
_SUMS = (reduce_sum_p, p.add)


class _Value(NamedTuple):
    """A local value: a part, or of a sum along some axes of the mesh one term.

    Attributes:
      node: the value.
      clean: what it has beyond the array are zeros.
      pending: the axes along which terms are still to be combined, by `combine`.
      cause: the operation that made it a term.
    """

    node: Node
    pending: sp.Names = ()
    combine: str = "psum"
    cause: Node | None = None
    clean: bool = False


class _Localizer:
    """One graph, or body, over the parts of its values.

    Args:
      found: the specs.
      inputs: for each variable its local value.
      outputs: values, and the specs in which they are wanted.
      times: how often it runs.
    """

    def __init__(
        self, device: MeshView,
        found: propagate.Propagation, inputs: Mapping[Node, Node],
        outputs: Sequence[tuple[Node, sp.Spec]], times: int = 1,
    ) -> None:  # fmt: skip
        self.device, self.found, self.times = device, found, times
        self.sizes = device.sizes
        self.reader: Node | None = None
        self.wanted: dict[Node, dict[rules.Want, None]] = {}
        self.readers: dict[Node, int] = {}
        self.ways: dict[Node, list[rules.Way]] = {}
        self.hulls: dict[tuple[Node, rules.Want], rules.Want] = {}
        for node, spec in outputs:
            self._want(node, rules.Want(spec))
        for node in reversed(found.order):
            self._plan(node)
        rows = inputs.items()
        self.main: dict[tuple[Node, Any], rules.Want] = {}
        self.built: dict[tuple[Node, rules.Want], _Value] = {}
        for node, local in rows:
            self._keep(node, rules.Want(found.own[node]), _Value(local))
        with inherited_origin() as take:
            for node in found.order:
                if node in self.ways:
                    take(node)
                    self.reader = node
                    self._build(node)
            self.reader = None
            self.outputs = [
                self._get(node, rules.Want(spec)).node for node, spec in outputs
            ]

    # Which values are needed, and how.

    def _want(self, node: Node, want: rules.Want) -> None:
        self.wanted.setdefault(node, {})[want] = None
        self.readers[node] = self.readers.get(node, 0) + 1

    def _plan(self, node: Node) -> None:
        found = self.found
        if sources.is_variable(node) or node.op is item_p:
            self._cover(node)
            return
        values = found.outputs_of[node]
        if not any(value in self.wanted for value in values):
            return
        if node in found.flows:
            self.ways[node] = [rules.Way({})]
            for source, spec in zip(node.src, found.flows[node].operands, strict=True):
                self._want(source, rules.Want(spec))
            return
        rule = found.rules[node]
        self.ways[node] = self._ways(node, rule)
        for way in self.ways[node]:
            for source, want in rules.wants_of(node, rule, way, self.sizes):
                self._want(source, want)

    def _ways(self, node: Node, rule: rules.Rule) -> list[rules.Way]:
        """In how many ways a node is computed, so that it is there as it is wanted."""
        own, sizes = self.found.divisions[node], self.sizes
        values = zip(self.found.outputs_of[node], rule.results, strict=True)
        loose = {
            factors[0]
            for value, axes in values
            for n, factors in zip(value.shape, axes, strict=True)
            if factors
            and factors[0] in own
            and not sp.divides(own[factors[0]], n, sizes)
        }
        firm = {f: names for f, names in own.items() if f not in loose}
        if node not in self.wanted:
            return [rules.Way(firm)]
        hulls = self._hulls(node)
        wanted = [w for w in self.wanted[node] if not w.windows] + hulls
        if rule.view:
            ways = [rules.way_for(rule, want, sizes) for want in wanted]
            made = [way for way in ways if way is not None]
            if len(made) == len(ways):
                return made
            self._cover(node)
            return [*made, rules.Way(firm)]
        ways = [self.found.again(node, want) for want in hulls]
        made = [way for way in ways if way is not None and loose >= {*way.windows}]
        if len(hulls) < len(wanted) or len(made) < len(hulls):
            made = self._overlap(node, hulls)
        if made:
            return made
        self._cover(node)
        return [rules.Way(firm)]

    def _overlap(self, node: Node, hulls: Sequence[rules.Want]) -> list[rules.Way]:
        """How a value is computed in windows, of which even parts are wanted, too.

        It is, if it costs less to compute edges than to exchange them.
        """
        plain = [w for w in self.wanted[node] if not w.windows]
        if not hulls or any(self.found.exchanges(node, want) for want in hulls):
            return []
        if plain:
            joined = self._join(node, hulls[0])
            own = rules.Want(self.found.own[node])
            if len(hulls) > 1 or joined is None or any(w != own for w in plain):
                return []
            self.hulls |= {(node, w): joined for w in (*self.wanted[node], joined)}
            self.hulls[node, hulls[0]] = joined
            hulls = [joined]
        ways = [self.found.again(node, want) for want in hulls]
        return [way for way in ways if way is not None]

    def _join(self, node: Node, want: rules.Want) -> rules.Want | None:
        """Windows with which even parts are wanted, too."""
        own, rows = self.found.own[node], list[tuple[int, win.Window]]()
        for axis, window in want.windows:
            part = win.even(node.shape[axis], sp.shards(own[axis], self.sizes))
            if part.step != window.step:
                return None
            rows.append((axis, win.hull([part, window])))
        return rules.Want(own, tuple(rows))

    def _hulls(self, node: Node) -> list[rules.Want]:
        """The windows in which a value is wanted, joined where one has the others."""
        groups: dict[Any, list[rules.Want]] = {}
        for want in self.wanted.get(node, ()):
            if want.windows:
                steps = tuple([(axis, w.step) for axis, w in want.windows])
                groups.setdefault((want.spec, steps), []).append(want)
        found: list[rules.Want] = []
        for (spec, _), wants in groups.items():
            axes = [axis for axis, _ in wants[0].windows]
            rows = {want: tuple([w for _, w in want.windows]) for want in wants}
            for wide in win.join_near(rows.values()):
                made = rules.Want(spec, tuple(zip(axes, wide, strict=True)))
                found.append(made)
                inside = [want for want, row in rows.items() if win.has(wide, row)]
                self.hulls |= {(node, want): made for want in (*inside, made)}
        return found

    def _cover(self, node: Node) -> None:
        """From which specs windows come, of a value that is not computed in them."""
        for want in self._hulls(node):
            spec, _ = propagate.in_parts(node, self.found.own[node], want, self.sizes)
            self.wanted[node][rules.Want(spec)] = None

    # The local nodes.

    def _build(self, node: Node) -> None:
        if node in self.found.flows:
            self._build_flow(node)
            return
        rule = self.found.rules[node]
        for way in self.ways[node]:
            made = self._local(node, rule, way)
            values = self.found.outputs_of[node]
            local = made.node
            parts = [local] if compound_of(local) is None else items(local)
            for value, part, axes in zip(values, parts, rule.results, strict=True):
                have = rules.want_of(
                    rule, axes, value.shape, way, self.sizes, into=False
                )
                self._keep(value, have, made._replace(node=part))

    def _local(self, node: Node, rule: rules.Rule, way: rules.Way) -> _Value:
        """The operation over its local operands; of a sum its term."""
        division = way.division
        made = _Value(node, *propagate.pending_of(rule, division), node)
        src: list[Node] = []
        wants = rules.wants_of(node, rule, way, self.sizes)
        terms, own = self._takes_terms(node, wants), made.pending
        for (source, want), axes in zip(wants, rule.operands, strict=True):
            value = self._get(source, want, terms)
            read = {f for f in (*rule.slides, *rule.reduced) if f in division}
            beyond = [(d, w) for d, w in want.windows if axes[d][0] in read]
            shown = rules.Want(want.spec, tuple(beyond))
            src.append(self._fill(value, source, shown, rule))
            if value.pending:
                made = value._replace(pending=(*own, *value.pending))
        return made._replace(
            node=rule.local(node, src, self._shard(node, rule, way)), clean=False
        )

    def _takes_terms(
        self, node: Node, wants: Sequence[tuple[Node, rules.Want]]
    ) -> bool:
        """Is an operation done on terms of sums as on the sums? All must be such."""
        if any(self.readers[source] > 1 for source, _ in wants):
            return False
        if node.op in _VIEWS:
            return True
        known = [self.built.get(key) for key in wants]
        terms = {(value.pending, value.combine) for value in known if value}
        one = None not in known and len(terms) == 1
        plain = not any(want.windows for _, want in wants)
        return node.op in _SUMS and one and plain and {c for _, c in terms} == {"psum"}

    def _fill(
        self, value: _Value, source: Node, want: rules.Want, rule: rules.Rule
    ) -> Node:
        """An operand, of which what is beyond the array counts for nothing."""
        local = value.node
        if rule.fill is None or not want.windows:
            return local
        nothing = rule.fill(local)
        if value.clean and nothing is sources.zeros_like(local):
            return local
        for axis, window in want.windows:
            names, n = want.spec[axis], source.shape[axis]
            low, high = window.starts(sp.shards(names, self.sizes))
            if low < 0 or high + window.size > n:
                begin = self.device.begin(names, window)
                local = win.mask(local, axis, begin, n, nothing)
        return local

    def _shard(self, node: Node, rule: rules.Rule, way: rules.Way) -> rules.Part:
        """What the operation is told of the device."""
        sizes, device, division = self.sizes, self.device, way.division

        def shape(value: Node, axes: rules.Axes) -> Shape:
            want = rules.want_of(rule, axes, value.shape, way, sizes, into=False)
            found, windows = sp.local_shape(value.shape, want.spec, sizes), want.windows
            known = {axis: window.size for axis, window in windows}
            return tuple([known.get(d, n) for d, n in enumerate(found)])

        def windows(factor: int) -> tuple[win.Window, win.Window] | None:
            return rules.windows_of(rule, factor, way, sizes)

        def begin(factor: int) -> Node | None:
            names, window = division.get(factor, ()), way.windows.get(factor)
            if not names and window is None:
                return None
            window = window or win.even(rule.sizes[factor], sp.shards(names, sizes))
            return device.begin(names, window)

        def first(factors: Sequence[int]) -> Node | None:
            names = [name for f in factors for name in division.get(f, ())]
            number = device.number(tuple(names))
            return (
                None if number is None else p.eq(number, sources.const_like(number, 0))
            )

        def before(factor: int, x: Node, fill: Node, reverse: bool) -> Node:
            names = division[factor]
            rows = device.gather(x, names, Cause(node, self.times))
            number, places = device.number(names), win.iota_along(rows, 0)
            assert number is not None
            number = broadcast_leading(number, rows.shape)
            earlier = p.gt(places, number) if reverse else p.lt(places, number)
            return p.select(earlier, rows, broadcast_leading(fill, rows.shape))

        rows = zip(self.found.outputs_of[node], rule.results, strict=True)
        return rules.Part([shape(*row) for row in rows], begin, windows, first, before)

    def _keep(self, node: Node, have: rules.Want, value: _Value) -> None:
        self.built[node, have] = value
        self.main.setdefault((node, have.windows), have)

    def _get(self, node: Node, want: rules.Want, as_terms: bool = False) -> _Value:
        """A value as wanted; `as_terms` takes a sum whose parts are not added up."""
        known = self.built.get((node, want))
        if known is not None and (as_terms or not known.pending):
            return known
        have = self.main.get((node, want.windows))
        if have is None:
            made = self._window(node, want)
            if not as_terms:
                made = self._move(made, node, want.spec, want.spec)
        else:
            base = self.built[node, have]
            several = [
                w for w in self.wanted[node] if w != have and w.windows == have.windows
            ]
            if base.pending and (len(several) > 1 or have in self.wanted[node]):
                base = self._move(base, node, have.spec, have.spec)
                self.built[node, have] = base  # all are parts of one sum
            made = self._move(base, node, have.spec, want.spec)
        self.built[node, want] = made
        return made

    def _window(self, node: Node, want: rules.Want) -> _Value:
        """The windows of a value, which are cut from wider ones, or edges exchanged."""
        wide = self.hulls[node, want]
        if wide != want:
            made = self._get(node, wide)
            local = made.node
            given = dict(want.windows)
            for axis, have in wide.windows:
                count = sp.shards(wide.spec[axis], self.sizes)
                window = given.get(axis) or win.even(node.shape[axis], count)
                local = win.cut(local, axis, have, window)
            made = made._replace(node=local)
            return self._move(made, node, wide.spec, want.spec)
        flat, _ = propagate.in_parts(node, self.found.own[node], want, self.sizes)
        divided = any(want.spec[axis] for axis, _ in want.windows)
        if not divided and rules.Want(want.spec) in self.wanted[node]:
            flat = want.spec  # all have it, for others who read it
        local, terms = self._get(node, rules.Want(flat)).node, list[Any]()
        reader = self.reader or node
        for axis, window in want.windows:
            names, number = want.spec[axis], self.device.number(want.spec[axis])
            if flat[axis] and number is None:
                local = self.device.give(local, axis, flat[axis], window)
                terms += flat[axis]
            elif flat[axis]:
                cause = Cause(reader, self.times)
                local = self.device.exchange(local, axis, names, window, cause)
            else:
                count = sp.shards(names, self.sizes)
                local = win.window_of(local, axis, number, window, count)
        return _Value(local, tuple(terms), "psum", reader, clean=True)

    def _move(self, value: _Value, node: Node, have: sp.Spec, want: sp.Spec) -> _Value:
        local = value.node
        for step in sp.moves(have, want, value.pending, value.combine):
            summed = value.cause if step.kind.startswith("p") else self.reader
            local = self.device.move(local, step, Cause(summed or node, self.times))
        return value._replace(node=local, pending=(), cause=None)

    # Loops and branches: their bodies get the places of the device as operands.

    def _build_flow(self, node: Node) -> None:
        flow = self.found.flows[node]
        rows = zip(node.src, flow.operands, strict=True)
        src = [self._get(source, rules.Want(spec)).node for source, spec in rows]
        places = list(self.device.ranks.values())
        arg = node.arg
        times = self.times * iterations_of(arg)
        bodies = [self._body(plan, times) for plan in flow.bodies]
        changed = with_bodies(arg, bodies)
        if isinstance(arg, Branches):
            made = node.op(src[0], *places, *src[1:], arg=changed)
        else:
            changed = replace(changed, consts=arg.consts + len(places))
            made = node.op(*places, *src, arg=changed)
        rows = zip(self.found.outputs_of[node], items(made), flow.results, strict=True)
        for value, local, spec in rows:
            self._keep(value, rules.Want(spec), _Value(local))

    def _body(self, plan: propagate.BodyPlan, times: int) -> Body:
        inputs = local_inputs(plan.body.inputs, plan.inputs, self.sizes)
        rows = zip(plan.body.outputs, plan.outputs, strict=True)
        given = dict(zip(plan.body.inputs, inputs, strict=True))
        made = _Localizer(self.device, plan.found, given, [*rows], times)
        return close([*self.device.ranks.values(), *inputs], made.outputs)


def local_type(aval: ShapedArray, spec: sp.Spec, sizes: sp.Sizes) -> ShapedArray:
    """The type of a part."""
    return (
        aval.with_shape(sp.local_shape(aval.shape, spec, sizes)) if any(spec) else aval
    )


def local_inputs(
    inputs: Sequence[Node], specs: propagate.Specs, sizes: sp.Sizes
) -> list[Node]:
    rows = zip(inputs, specs, strict=True)
    avals = [local_type(node.aval, spec, sizes) for node, spec in rows]
    return [sources.variable(a, "local", i) for i, a in enumerate(avals)]


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
    in_specs: propagate.Specs
    out_specs: propagate.Specs
    ledger: tuple[Collective, ...]
    found: propagate.Propagation


@without_collection
def localize(
    graph: Graph,
    found: propagate.Propagation,
    in_specs: propagate.Specs,
    out_specs: propagate.Specs,
) -> Partitioned:
    """The program of a device, for specs that were found."""
    device = MeshView.of(found.sizes)
    tokens = graph.effects
    inputs = local_inputs(graph.inputs, in_specs, found.sizes)
    given = dict(zip(graph.inputs, inputs, strict=True))
    given |= {token: token for token in tokens[:1]}
    after = [(token, ()) for token in tokens[1:]]
    wanted = [*zip(graph.outputs, out_specs, strict=True), *after]
    made = _Localizer(device, found, given, wanted)
    count = len(out_specs)
    local = Graph(
        (*inputs, *device.ranks.values()),
        tuple(made.outputs[:count]), (), (*tokens[:1], *made.outputs[count:]),
    )  # fmt: skip
    return Partitioned(local, in_specs, out_specs, tuple(device.ledger), found)
