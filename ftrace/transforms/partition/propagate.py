"""Shardings flow along the factors of operations, forwards and backwards.

    x: (data, ·)   w: (·, model)
    x @ w          i k, k j -> i j      i by data, j by model: (data, model)

A spec only grows: an axis that nothing divides yet takes what an operation that makes
or reads the value knows, also one that does not divide evenly: it is computed in the
windows that its readers need (`windows.py`). Inputs and constraints are closed. What is
done element by element goes first, so that moments and gradients lie as their weights
do (as Shardy does it), and products, which have a choice, come to that. Where
two factors of an operation want one axis of the mesh, that choice is taken for which
each device receives the fewest bytes, then that which divides more, then the first.

A loop carries what it gives back: its carry has the spec with which it begins. Where it
lies nowhere before, as zeros do, it has that with which the body leaves it. What else a
loop or branch gives is divided in its body already, where those who read it need it so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import Stack
from ftrace.trace.control.conditional import Branches, While
from ftrace.trace.control.scan import Scan
from ftrace.trace.graph import Body, Node, making_nodes_of, toposort
from ftrace.trace.primitives import primitive as prim
from ftrace.trace.primitives.elementwise import constraint_p
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.python_limits import without_collection
from ftrace.transforms.partition import rules, specs as sp
from ftrace.transforms.partition.windows import Window, edges, even

Division = dict[int, sp.Names]
Specs = tuple[sp.Spec, ...]
#: The families of operations of which constants are made.
FREE = (*prim.ELEMENTWISE, "source", "movement")
#: Of so many choices of an operation each is weighed; of more the first ones.
_CHOICES = 64
#: Through so many operations edges are computed again, where that moves less.
_DEPTH = 4
#: No axes of a mesh.
NOTHING = frozenset[Any]()
#: Sweeps, forwards and backwards, after which specs stay as they are.
_SWEEPS = 8


@dataclass(frozen=True)
class Flow:
    """How a loop or branch is divided.

    Attributes:
      operands, results: their specs.
      bodies: those of its bodies.
    """

    operands: Specs
    results: Specs
    bodies: tuple[BodyPlan, ...]


@dataclass(frozen=True)
class BodyPlan:
    """How the body of a loop or branch is divided, and with which specs it ends."""

    body: Body
    found: Propagation
    inputs: Specs
    outputs: Specs


def replicated_spec(node: Node) -> sp.Spec:
    return ((),) * len(node.aval.shape)


def outputs_of(node: Node) -> list[Node]:
    """The values that an operation gives."""
    if not isinstance(node.op, prim.Compound):
        return [node]
    with making_nodes_of(node.origin):  # they are there: theirs stay
        return prim.items(node)


class Propagation:
    """The specs of the values of a graph.

    Args:
      outputs: the graph.
      given: specs of inputs; one that is not named may be divided in any way.
      sizes: of the axes of the mesh.
      wanted: specs in which values are read elsewhere.

    Attributes:
      order: the operations and variables, sources first.
      rules, divisions: of operations, how the factors are divided.
      flows: of loops and branches.
      own: the specs with which values are computed, those that divide evenly.
    """

    @without_collection
    def __init__(
        self, outputs: Sequence[Node], given: Mapping[Node, sp.Spec], sizes: sp.Sizes,
        wanted: Iterable[tuple[Node, sp.Spec]] = (),
    ) -> None:  # fmt: skip
        self.sizes = sizes
        self.order = toposort(outputs)
        self._operations = [n for n in self.order if not self._is_value(n)]
        self.outputs_of = {n: outputs_of(n) for n in self._operations}
        values = [v for n in self.order for v in self.outputs_of.get(n, [n])]
        self.specs = {value: replicated_spec(value) for value in values} | {**given}
        self._closed: dict[Node, tuple[bool, ...]] = {
            node: (True,) * len(spec) for node, spec in given.items()
        }
        self.rules = {
            n: rules.rule_of(n) for n in self._operations if n.op.family != "control"
        }
        self._constants: set[Node] = set()
        for node in self._operations:
            if node.op.family in FREE and self._constants.issuperset(node.src):
                # What is made of nothing is as each of its readers wants it.
                self._constants.add(node)
                self.rules[node] = replace(self.rules[node], view=True)
        self.flows: dict[Node, Flow] = {}
        self._known_flows: dict[Any, Flow] = {}
        self._close_constraints()
        self._readers: dict[Node, list[Node]] = {}
        for node in self._operations:
            for source in node.src:
                self._readers.setdefault(source, []).append(node)
        # Operations that are to be looked at, in either direction.
        self._ahead, self._back = {*self._operations}, {*self._operations}
        self._chosen: dict[Node, tuple[Specs, Division]] = {}
        self._reduced_next = self._find_reductions()
        for value, spec in wanted:
            if spec:  # of a stack nothing is said
                self._refine(value, spec)
        self._sweep([node for node in self._operations if self._passes(node)])
        self._ahead, self._back = {*self._operations}, {*self._operations}
        self._sweep(self._operations)
        self.divisions = {n: self._choose(n) for n in self.rules}
        self.own = {n: spec for n, spec in self.specs.items() if is_variable(n)}
        for node in self._operations:
            rows = zip(self.outputs_of[node], self._results(node), strict=True)
            self.own |= {v: sp.even_spec(v.shape, spec, sizes) for v, spec in rows}

    @staticmethod
    def _is_value(node: Node) -> bool:
        return node.op is prim.item_p or is_variable(node)

    def _close_constraints(self) -> None:
        for node in self._operations:
            if node.op is constraint_p:
                entries: tuple[sp.Names | None, ...] = node.arg.spec
                self.specs[node] = tuple([names or () for names in entries])
                self._closed[node] = tuple([names is not None for names in entries])

    def _find_reductions(self) -> dict[Node, Node]:
        """The reduction that alone reads a value, if one does."""
        found: dict[Node, Node] = {}
        for node in reversed(self._operations):
            reading = self._readers.get(node, [])
            if len(reading) == 1 and prim.compound_of(node) is None:
                (reader,) = reading
                if reader.op.family == "reduction":
                    found[node] = reader
                elif reader.op.family == "cast" and reader in found:
                    found[node] = found[reader]
        return found

    # Sweeps, over the operations of which a value has changed.

    def _passes(self, node: Node) -> bool:
        """Is an operation done element by element, and no product that is added up?"""
        return node.op.family in prim.ELEMENTWISE and node not in self._reduced_next

    def _sweep(self, operations: Sequence[Node]) -> None:
        for _ in range(_SWEEPS):
            if not (self._ahead or self._back):
                return
            for node in operations:
                if node in self._ahead and self._is_touched(node):
                    rows = zip(self.outputs_of[node], self._results(node), strict=True)
                    for value, spec in rows:
                        self._refine(value, spec)
            self._ahead.clear()
            for node in reversed(operations):
                if node in self._back and node in self.rules and self._is_touched(node):
                    rule, division = self.rules[node], self._choose(node)
                    for source, axes in zip(node.src, rule.operands, strict=True):
                        spec = rules.spec_for(rule, axes, division, self.sizes)
                        self._refine(source, spec)
            self._back.clear()

    def _is_touched(self, node: Node) -> bool:
        if node not in self.rules:
            return True  # a body may have constraints
        values = (*node.src, *self.outputs_of[node])
        return any(any(self.specs[value]) for value in values)

    def _results(self, node: Node) -> Specs:
        if node not in self.rules:
            return self._flow(node).results
        rule, division = self.rules[node], self._choose(node)
        found = [
            rules.spec_for(rule, axes, division, self.sizes) for axes in rule.results
        ]
        if rule.again and node.src:
            found = [
                self._split_again(node, rule, value, spec)
                for value, spec in zip(self.outputs_of[node], found, strict=True)
            ]
        return tuple(found)

    def _split_again(
        self, node: Node, rule: rules.Rule, value: Node, spec: sp.Spec
    ) -> sp.Spec:
        """Axes that had to be whole divided as they were: a device keeps its part."""
        merged = list(spec)
        given = self.specs[node.src[0]]
        for axis in rule.again & {*range(min(len(spec), len(given)))}:
            names = given[axis]
            if sp.divides(names, value.shape[axis], self.sizes):
                used = {*sp.names_of(tuple(merged))}
                merged[axis] = merged[axis] if used & {*names} else names
        return tuple(merged)

    def _refine(self, value: Node, spec: sp.Spec) -> None:
        if value in self._constants:
            return
        old = self.specs[value]
        rows = zip(spec, value.shape, strict=True)
        few = [() if s and 2 * n <= sp.shards(s, self.sizes) else s for s, n in rows]
        spec = tuple(few)
        free = value.arg.free if value.op is constraint_p else NOTHING
        merged = grow(old, spec, self._closed.get(value, ()), free)
        if merged != old:
            self.specs[value] = merged
            maker = value.src[0] if value.op is prim.item_p else value
            near = {maker, *self._readers.get(value, ())}
            self._ahead |= near
            self._back |= near

    # Choices.

    def _choose(self, node: Node) -> Division:
        """How the factors of an operation are divided, as far as is known."""
        rule = self.rules[node]
        if node.op is constraint_p:
            return self._constrain(node, rule)
        values = (*node.src, *self.outputs_of[node])
        specs = tuple([self.specs[value] for value in values])
        known = self._chosen.get(node)
        if known is not None and known[0] == specs:
            return known[1]
        candidates = self._candidates(node, rule)
        single = {f: found[0] for f, found in candidates.items() if len(found) == 1}
        used = [name for names in single.values() for name in names]
        decided = len(single) == len(candidates) and not rule.optional & {*single}
        if decided and len({*used}) == len(used):
            chosen = rules.feasible(rule, single, self.sizes)
            self._chosen[node] = specs, chosen
            return chosen
        best: tuple[int, int] | None = None
        chosen: Division = {}
        for option in divisions_of(candidates):
            division = rules.feasible(rule, option, self.sizes)
            price = self._price(node, rule, division)
            if best is None or price < best:
                best, chosen = price, division
        return chosen

    def _constrain(self, node: Node, rule: rules.Rule) -> Division:
        """As the constraint says; where it says nothing, as the operand is."""
        given, (axes,) = self.specs[node.src[0]], rule.results
        spec = grow(self.specs[node], given, self._closed[node], node.arg.free)
        return rules.divide(rule, axes, spec, self.sizes)

    def _candidates(self, node: Node, rule: rules.Rule) -> dict[int, list[sp.Names]]:
        found: dict[int, list[sp.Names]] = {}
        values = (*node.src, *self.outputs_of[node])
        for value, axes in zip(values, (*rule.operands, *rule.results), strict=True):
            own = rules.divide(rule, axes, self.specs[value], self.sizes)
            for factor, names in own.items():
                known = found.setdefault(factor, [])
                if not any(sp.is_prefix(names, other) for other in known):
                    known[:] = [x for x in known if not sp.is_prefix(x, names)] + [
                        names
                    ]
        return found

    def _price(
        self, node: Node, rule: rules.Rule, division: Division
    ) -> tuple[int, int]:
        """(bytes that each device receives, elements that it computes)."""
        sizes, total, size = self.sizes, 0, 0
        way = rules.Way(division)
        for source, want in rules.wants_of(node, rule, way, sizes):
            total += self._fetch(source, want)
        for value, axes in zip(self.outputs_of[node], rule.results, strict=True):
            have = rules.spec_for(rule, axes, division, sizes)
            pending, combine = pending_of(rule, division)
            want = self._choose_spec(value, have)
            total += self._moving(value, have, want, pending, combine)
            size += sp.local_bytes(value.aval, have, sizes)
            for factor in rule.totals & division.keys():
                n = sp.shards(division[factor], sizes)
                total += (
                    (n - 1) * size // sp.local_shape(value.shape, have, sizes)[factor]
                )
            reader = self._reduced_next.get(value)
            if reader is not None:
                rest = tuple([() if d in reader.arg else s for d, s in enumerate(have)])
                gone = sp.names_of(tuple([have[d] for d in reader.arg]))
                total += self._moving(reader, rest, rest, tuple(gone), "psum")
        return total, size

    def _moving(
        self, value: Node, have: sp.Spec, want: sp.Spec, pending: sp.Names = (),
        combine: str = "psum",
    ) -> int:  # fmt: skip
        steps = sp.moves(have, want, pending, combine)
        nbytes = sp.local_bytes(value.aval, have, self.sizes)
        return sp.bytes_received(steps, nbytes, self.sizes)

    def _choose_spec(self, value: Node, have: sp.Spec) -> sp.Spec:
        """What is wanted of a result; where nothing is known, what there is."""
        known = self.specs[value]
        closed = self._closed.get(value, (False,) * len(known))
        used = {*sp.names_of(known)}
        rows = zip(have, known, closed, strict=True)
        return tuple([x if no or x or {*has} & used else has for has, x, no in rows])

    def _fetch(self, value: Node, want: rules.Want, depth: int = _DEPTH) -> int:
        """Bytes for an operand as wanted: of what it is a view of, if it is one."""
        while (rule := self.rules.get(value)) is not None and rule.view:
            way = rules.way_for(rule, want, self.sizes)
            if way is None:
                break
            if value in self._constants:
                return 0
            ((value, want),) = rules.wants_of(value, rule, way, self.sizes)
        have, sizes = self.specs[value], self.sizes
        flat, exchanged = in_parts(value, have, want, sizes)
        if exchanged and not self.exchanges(value, want, depth):
            return self._fetch_again(value, want, depth)
        return self._fetch_edges(value, have, flat, exchanged)

    def exchanges(self, value: Node, want: rules.Want, depth: int = _DEPTH) -> bool:
        """Are the edges of a value exchanged? Else they are computed again."""
        have = self.specs[value]
        flat, exchanged = in_parts(value, have, want, self.sizes)
        if not depth or self.again(value, want) is None:
            return True
        edges = self._fetch_edges(value, have, flat, exchanged)
        return edges <= self._fetch_again(value, want, depth)

    def again(self, value: Node, want: rules.Want) -> rules.Way | None:
        """How a value that is no view is computed in windows, if it can be."""
        rule = self.rules.get(value)
        if rule is None or rule.totals or len(rule.results) != 1:
            return None
        axes, own = rule.results[0], self._choose(value)
        names, windows = dict[int, sp.Names](), dict[int, Window]()
        for axis, window in want.windows:
            factor = axes[axis][0] if len(axes[axis]) == 1 else -1
            names[factor], windows[factor] = want.spec[axis], window
        if any(f not in rule.loose or own.get(f) != names[f] for f in windows):
            return None
        n = {f: value.shape[d] for d, factors in enumerate(axes) for f in factors}
        firm = {
            f: own[f] for f in own if f not in n or sp.divides(own[f], n[f], self.sizes)
        }
        return rules.Way({**firm, **names}, windows)

    def _fetch_again(self, value: Node, want: rules.Want, depth: int) -> int:
        """Bytes more for the operands of a value that is computed in windows."""
        rule, way = self.rules[value], self.again(value, want)
        assert way is not None
        total = 0
        for sign, known in ((1, way), (-1, rules.Way(way.division))):
            for source, more in rules.wants_of(value, rule, known, self.sizes):
                total += sign * self._fetch(source, more, depth - 1)
        return total

    def _fetch_edges(
        self, value: Node, have: sp.Spec, flat: sp.Spec, exchanged: Mapping[int, int]
    ) -> int:
        sizes = self.sizes
        total = self._moving(value, have, flat)
        slab = sp.local_bytes(value.aval, flat, sizes)
        for axis, places in exchanged.items():
            total += places * slab // sp.local_shape(value.shape, flat, sizes)[axis]
        return total

    # Loops and branches.

    def _divide_evenly(self, value: Node) -> sp.Spec:
        return sp.even_spec(value.shape, self.specs[value], self.sizes)

    def _flow(self, node: Node) -> Flow:
        specs = tuple([self._divide_evenly(source) for source in node.src])
        wanted = tuple([self._divide_evenly(value) for value in self.outputs_of[node]])
        key = node, specs, wanted
        if key not in self._known_flows:
            fixed = [self._is_known(source) for source in node.src]
            self._known_flows[key] = _flow_of(node, specs, fixed, wanted, self.sizes)
        self.flows[node] = self._known_flows[key]
        return self.flows[node]

    def _is_known(self, value: Node) -> bool:
        """Does a value lie anywhere before it is asked for? Zeros do not."""
        while (rule := self.rules.get(value)) is not None and rule.view:
            if value in self._constants:
                return False
            (value,) = value.src
        return True


def divisions_of(candidates: Mapping[int, Sequence[sp.Names]]) -> list[Division]:
    """The divisions in which each axis of the mesh divides one factor."""
    rows: list[tuple[int, list[sp.Names]]] = []
    for factor, found in candidates.items():
        prefixes = [names[:n] for names in found for n in range(len(names), 0, -1)]
        rows.append((factor, [*dict.fromkeys(prefixes), ()]))

    def extend(division: Division, used: frozenset[str]) -> Iterator[Division]:
        """What is divided twice is left at once: most of the products are that."""
        if len(division) == len(rows):
            yield {factor: names for factor, names in division.items() if names}
            return
        factor, options = rows[len(division)]
        for names in options:
            if not used & {*names}:
                yield from extend({**division, factor: names}, used | {*names})

    return list(islice(extend({}, frozenset()), _CHOICES))


def pending_of(
    rule: rules.Rule, division: Mapping[int, sp.Names]
) -> tuple[sp.Names, str]:
    """The axes of the mesh along which parts of results are still to be combined."""
    names = [name for f in rule.reduced for name in division.get(f, ())]
    kinds = [op.name for op in rule.reduced.values()]
    return tuple(names), kinds[0] if kinds else "psum"


def in_parts(
    value: Node, have: sp.Spec, want: rules.Want, sizes: sp.Sizes
) -> tuple[sp.Spec, dict[int, int]]:
    """The spec from which a value comes into windows.

    Returns:
      It, and for each axis that has a window of parts, so many places are received.
    """
    flat, exchanged = list(want.spec), dict[int, int]()
    for axis, window in want.windows:
        names, n = want.spec[axis], value.shape[axis]
        if not names:
            given = _count_received(value, axis, have[axis], window, sizes)
            if given and not {*have[axis]} & {*sp.names_of(want.spec)}:
                flat[axis], exchanged[axis] = have[axis], given
            continue
        count = sp.shards(names, sizes)
        found = edges(window, n, count, len(names)) if have[axis] else None
        if found is not None:
            exchanged[axis] = found.received
        elif have[axis] == names and not sp.divides(names, n, sizes):
            exchanged[axis] = window.size - even(n, count).size
        else:
            flat[axis] = ()
    return tuple(flat), exchanged


def _count_received(
    value: Node, axis: int, names: sp.Names, window: Window, sizes: sp.Sizes
) -> int:
    """Of a window that all want: places received in a sum; 0 where it is no sum.

    It is, if it moves less than a gather, of numbers.
    """
    n, rest = value.shape[axis], [sizes[name] for name in names]
    places = sum([-(-2 * window.size * (m - 1) // m) for m in rest])
    fits = sp.divides(names, n, sizes) and dtypes.kind(value.dtype) in "iufc"
    return places if fits and places < n - n // sp.shards(names, sizes) else 0


# Bodies.


def grow(
    old: sp.Spec, by: sp.Spec, closed: Sequence[bool] = (),
    free: frozenset[Any] = NOTHING,
) -> sp.Spec:  # fmt: skip
    """A spec divided further, as another one is, where nothing is in the way.

    Args:
      closed: for each axis, whether it stays as it is; `()` is of none.
      free: axes of the mesh that may divide also these.
    """
    merged = list(old)
    for axis, names in enumerate(by):
        more = names[len(old[axis]) :]
        if closed and closed[axis]:
            more = tuple(takewhile(free.__contains__, more))
        if not more or not sp.is_prefix(old[axis], names):
            continue
        if not {*more} & {*sp.names_of(tuple(merged))}:
            merged[axis] = (*old[axis], *more)
    return tuple(merged)


def meet(first: sp.Spec, second: sp.Spec) -> sp.Spec:
    """What two specs have in common."""
    found: list[sp.Names] = []
    for one, other in zip(first, second, strict=True):
        n = 0
        while n < min(len(one), len(other)) and one[n] == other[n]:
            n += 1
        found.append(one[:n])
    return tuple(found)


def _plan(
    body: Body, inputs: Sequence[sp.Spec | None], wanted: Specs, sizes: sp.Sizes
) -> tuple[Propagation, Specs]:
    """The specs in a body, and those that its outputs can leave it with.

    Args:
      wanted: of its last outputs; `()` says nothing.
    """
    rows = zip(body.inputs, inputs, strict=True)
    given = {node: spec for node, spec in rows if spec is not None}
    first = len(body.outputs) - len(wanted)
    ends = [*zip(body.outputs[first:], wanted, strict=True)]
    found = Propagation((*body.inputs, *body.outputs), given, sizes, ends)
    own = [found.own[node] for node in body.outputs]
    own[first:] = [grow(found.own[node], spec) for node, spec in ends]
    return found, tuple(own)


def _flow_of(
    node: Node, specs: Specs, fixed: Sequence[bool], wanted: Specs, sizes: sp.Sizes
) -> Flow:
    """How a loop or branch is divided.

    Args:
      specs, fixed: of its operands, and whether they lie anywhere yet.
      wanted: of its results, by those who read them.
    """
    if isinstance(node.arg, Branches):
        return _flow_of_branches(node, specs, wanted, sizes)
    return _flow_of_loop(node, specs, fixed, wanted, sizes)


def _flow_of_branches(node: Node, specs: Specs, wanted: Specs, sizes: sp.Sizes) -> Flow:
    bodies: tuple[Body, ...] = node.arg.bodies
    plans = [_plan(body, specs[1:], wanted, sizes) for body in bodies]
    results = plans[0][1]
    for _, outputs in plans[1:]:
        results = tuple(map(meet, results, outputs))
    made = [
        BodyPlan(body, found, specs[1:], results)
        for body, (found, _) in zip(bodies, plans, strict=True)
    ]
    return Flow(((), *specs[1:]), results, tuple(made))


def _flow_of_loop(
    node: Node, specs: Specs, fixed: Sequence[bool], wanted: Specs, sizes: sp.Sizes
) -> Flow:
    arg: Scan | While = node.arg
    body, first = arg.body, arg.consts + arg.carry
    consts = specs[: arg.consts]
    elements = [
        _inside(source, spec) or replicated_spec(name)
        for name, source, spec in zip(
            body.inputs[first:], node.src[first:], specs[first:], strict=True
        )
    ]
    stays = fixed[arg.consts : first]
    begins = zip(specs[arg.consts : first], stays, strict=True)
    carry: list[sp.Spec | None] = [spec if known else None for spec, known in begins]
    kept = tuple([spec or () for spec in carry])
    results = outputs_of(node)[arg.carry :]
    ends = tuple(map(_inside, results, wanted[arg.carry :]))
    while True:
        found, outputs = _plan(body, [*consts, *carry, *elements], kept + ends, sizes)
        after = [
            out if before is None else before if known else meet(before, out)
            for before, out, known in zip(
                carry, outputs[: arg.carry], stays, strict=True
            )
        ]
        if after == carry:
            break
        carry = [*after]
    around = tuple(after)
    rows = zip(body.outputs[arg.carry :], results, outputs[arg.carry :], strict=True)
    pushed = [
        replicated_spec(name) if isinstance(value.aval, Stack) else spec
        for name, value, spec in rows
    ]
    inputs = (*consts, *around, *elements)
    plans = [BodyPlan(body, found, inputs, (*around, *pushed))]
    if isinstance(arg, While):
        test, _ = _plan(arg.cond, [*consts, *around], (), sizes)
        plans.insert(0, BodyPlan(arg.cond, test, inputs, ((),)))
    stacked = map(_around, results, pushed)
    lined = map(_around, node.src[first:], elements)
    return Flow((*consts, *around, *lined), (*around, *stacked), tuple(plans))


def _inside(value: Node, spec: sp.Spec) -> sp.Spec:
    """That of what an iteration has of a value; of one of a stack nothing is said."""
    return () if isinstance(value.aval, Stack) else spec[1:]


def _around(value: Node, spec: sp.Spec) -> sp.Spec:
    """`_inside` back: iterations are not divided."""
    return () if isinstance(value.aval, Stack) else ((), *spec)
