"""The graph: immutable, interned nodes.

    Node  = op, aval, src, arg            the same four are the same object
    Graph = inputs, outputs, captured     closed over nothing

Walks go by `toposort`, whose order follows from the graph alone: what a pass makes of a
program does not depend on which programs came before. No walk recurses.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from struct import Struct
from typing import Any, TypeVar, cast

import numpy as np

from ftrace.errors import GraphError, Origin, user_origin
from ftrace.ground.fast_dataclasses import Immutable, dataclass
from ftrace.ground.tables import memo, on_limit
from ftrace.ground.weak_tables import Reference, WeakValues
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.backend import backend

Aval = ShapedArray
T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """What a node does: a primitive, or an operation that exists in kernels only.

    No ABC: of each node it is asked many times what class its operation has.
    """

    name: str
    family: str

    def __call__(self, *src: Node, arg: Any = None) -> Node:
        """The node of this operation over `src`."""
        raise NotImplementedError

    def render(self, node: Node) -> str:
        return self.name if node.arg is None else f"{self.name}[{node.arg}]"

    def __repr__(self) -> str:
        return self.name


class Node(Immutable):
    """One operation on arrays: compared by identity, hashed by identity.

    Attributes:
      op: the operation.
      aval: shape and dtype of the result.
      src: the operands.
      arg: what else the operation needs, of a type that the op knows; static and
        hashable.
      origin: the user's line that made it last. Not part of its identity.
      serial: a number of its own in the process, which names it in tables.
    """

    __slots__ = ("__weakref__", "arg", "aval", "op", "origin", "serial", "src")

    op: Op
    aval: Aval
    src: tuple[Node, ...]
    arg: Any
    origin: Origin | None
    serial: int

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    def __repr__(self) -> str:
        return f"<{self.op.name} #{self.serial} {self.aval!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _only_output, (Graph((), (self,)),)


Nodes = tuple[Node, ...]
#: For each of some nodes whether something holds of it.
Flags = tuple[bool, ...]

#: All nodes that anyone has, by their four parts.
_nodes: WeakValues[Any, Node] = WeakValues()
_references, _dead, _note = _nodes.references, _nodes.dead, _nodes.note
#: Removes the entries of dead nodes.
bury = _nodes.bury
_serials = itertools.count()


class _Provenance(threading.local):
    """What is known of the origin of new nodes, without asking the Python stack.

    Attributes:
      origin: the origin that they take; None asks the stack.
      caller: the line that called the function of ours that is running, where one
        that looks its callers up (`trace/eager/dispatch.py`) is running.
    """

    origin: Origin | None = None
    caller: Origin | None = None


provenance = _Provenance()


def make_node(op: Op, aval: Aval, src: tuple[Node, ...], arg: Any = None) -> Node:
    """The one node with these four parts. Shapes are not checked: call the op."""
    key = (op, aval, src, arg)
    reference = _references.get(key)
    node = reference() if reference is not None else None
    if node is not None:
        # Messages name the line that made it last. What a pass makes may stand in the
        # graph with a line of its own; that of an earlier function says nothing here.
        inherited, known = provenance.origin, node.origin
        if provenance.caller is not None:
            node.origin = provenance.caller
        elif inherited is None:
            node.origin = user_origin()
        elif known is None or known.trace != inherited.trace:
            node.origin = inherited
        return node
    node = object.__new__(Node)
    node.op = op
    node.aval = aval
    node.src = src
    node.arg = arg
    node.origin = provenance.origin or user_origin()
    node.serial = next(_serials)
    reference = Reference(node, _note)
    reference.key = key
    if _references.setdefault(key, reference) is not reference:
        return _nodes.keep(key, node)  # another thread has made it meanwhile
    if _dead:
        bury()
    return node


def origin_now(node: Node) -> Origin | None:
    """The user's line that has just made this node; None where it must be looked up."""
    return node.origin if provenance.origin is None else None


def lines_in(outputs: Iterable[Node]) -> frozenset[tuple[int, int]]:
    """The user's lines that made what the outputs need, as a key of what has lines.

    None of them outside of jit, where lines may be those of an earlier function.
    """
    origins = [node.origin for node in nodes_of(outputs)]
    return frozenset([(id(o.code), o.offset) for o in origins if o and o.trace])


class making_nodes_of:  # reads as a statement: `with making_nodes_of(origin)`
    """A block in which new nodes take this origin."""

    __slots__ = ("inner", "outer")

    def __init__(self, origin: Origin | None) -> None:
        self.inner = origin

    def __enter__(self) -> None:
        self.outer = provenance.origin
        provenance.origin = self.inner

    def __exit__(self, *_: object) -> None:
        provenance.origin = self.outer


class inherited_origin:  # reads as a statement: `with inherited_origin() as take`
    """A block in which `take(node)` sets the origin of the nodes made after it."""

    __slots__ = ("outer",)

    def __enter__(self) -> Callable[[Node], None]:
        self.outer = provenance.origin
        return _take_origin

    def __exit__(self, *_: object) -> None:
        provenance.origin = self.outer


def _take_origin(node: Node) -> None:
    provenance.origin = node.origin


def take_derivative(node: Node, place: Origin | None) -> None:
    """The same in such a block, of a step of the derivative taken at a place."""
    origin = node.origin
    provenance.origin = origin and origin.derivative(place or origin)


def take_backward(node: Node) -> None:
    """The same in such a block, of what is done backwards for a node."""
    provenance.origin = node.origin and node.origin.backward


# Walks.


def toposort(outputs: Iterable[Node], known: Iterable[Node] = ()) -> list[Node]:
    """All nodes that the outputs need, sources first: depth first, left first.

    The graph alone decides the order. What is made in it, a sum of cotangents or the
    text of a kernel, does not depend on what else is alive in the process, as serial
    numbers do.

    Args:
      outputs: in an order of their own: no set.
      known: nodes that are left out, with what only they need.
    """
    done: dict[Node, None] = dict.fromkeys(known)
    left_out = len(done)
    node: Node | None = None
    rest = iter(outputs)  # the sources of the node that are left
    user: Any = None  # the node that led here, what is left of it, and its user
    while True:
        for source in rest:
            if source not in done:
                user = node, rest, user
                node, rest = source, iter(source.src)
                break
        else:
            if node is None:
                return list(done)[left_out:]
            done[node] = None
            node, rest, user = user


def nodes_of(outputs: Iterable[Node]) -> set[Node]:
    """The nodes of `toposort(outputs)`, where no order is needed."""
    seen: dict[Node, None] = {}
    pending = list(outputs)
    for node in pending:  # which grows meanwhile
        if node not in seen:
            seen[node] = None
            pending += node.src
    return set(seen)


def views_over(node: Node) -> Iterator[Node]:
    """A value, and what it is a view of, as far as elements are only moved."""
    yield node
    while node.op.family == "movement":
        node = node.src[0]
        yield node


def bits_below(order: Iterable[Node], own: Mapping[Node, int]) -> dict[Node, int]:
    """For each node its own bits, and those of the nodes that it is made of.

    Args:
      order: the nodes, sources first.
    """
    found: dict[Node, int] = {}
    for node in order:
        bits = own.get(node, 0)
        for source in node.src:
            bits |= found[source]
        found[node] = bits
    return found


def walk(roots: Iterable[T], below: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """The roots, and what `below` leads to from each, once: the last found comes first.

    What it leads to is asked for when the next one is.
    """
    pending = list(roots)
    seen = set(pending)
    while pending:
        found = pending.pop()
        yield found
        fresh = [x for x in dict.fromkeys(below(found)) if x not in seen]
        seen.update(fresh)
        pending += fresh


#: What `operations_of` found, by the serial numbers of outputs: pass after pass asks
#: for the same, which takes a tenth of the time of long gradients.
_counted: dict[tuple[int, ...], Mapping[Op, int]] = {}
_MOST_COUNTED = 64
on_limit(_counted.clear)  # it holds operations, those of users, too


def operations_of(outputs: Iterable[Node]) -> Mapping[Op, int]:
    """How often each operation stands among the nodes of `toposort(outputs)`."""
    outputs = tuple(outputs)
    serials = tuple([node.serial for node in outputs])
    found = _counted.get(serials)
    if found is None:
        found = Counter([node.op for node in nodes_of(outputs)])
        if len(_counted) >= _MOST_COUNTED:
            _counted.clear()
        _counted[serials] = found
    return found


def has_any(outputs: Iterable[Node], ops: Iterable[Op]) -> bool:
    """Does one of these operations stand among the nodes of `toposort(outputs)`?"""
    return not operations_of(outputs).keys().isdisjoint(ops)


def dependents(outputs: Iterable[Node], leaves: Iterable[Node]) -> list[Node]:
    """The nodes of `toposort(outputs)` that use one of the leaves, or are one."""
    found = set(leaves)
    ordered: list[Node] = []
    for node in toposort(outputs):
        if node in found or not found.isdisjoint(node.src):
            found.add(node)
            ordered.append(node)
    return ordered


def substitute(outputs: Sequence[Node], mapping: Mapping[Node, Node]) -> list[Node]:
    """The outputs with every node of `mapping` replaced by its value, all at once.

    A replacement has the shape and dtype of what it replaces.
    """
    replaced: dict[Node, Node] = dict(mapping)
    with inherited_origin() as take:
        for node in toposort(outputs):
            if node in replaced or replaced.keys().isdisjoint(node.src):
                continue
            take(node)
            replaced[node] = rebuild(node, tuple(replaced.get(s, s) for s in node.src))
    return [replaced.get(node, node) for node in outputs]


def rebuild(node: Node, src: tuple[Node, ...]) -> Node:
    """`node` over other sources of the same shapes and dtypes."""
    if src == node.src:
        return node
    if [s.aval for s in src] == [s.aval for s in node.src]:
        return make_node(node.op, node.aval, src, node.arg)
    return node.op(*src, arg=node.arg)


# Constants: keyed by dtype and bits, so that -0.0 and every NaN are themselves.


#: Numbers up to this one are packed without NumPy: each of the dtypes can hold them,
#: and a double on the way rounds none of the integers.
_PACKED_BELOW = 2**31
_PACK: dict[Any, Callable[..., bytes]] = {
    np.dtype(name): Struct(f"={letter}").pack
    for name, letter in (("float32", "f"), ("float64", "d"))
}


def constant_bits(value: Any, dtype: np.dtype[Any]) -> bytes:
    """The bytes of a scalar in a dtype."""
    kind = value.__class__
    if (kind is float or kind is int) and -_PACKED_BELOW < value < _PACKED_BELOW:
        pack = _PACK.get(dtype)
        if pack is not None:
            return pack(value)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(value).astype(dtype).tobytes()


def constant_value(node: Node) -> Any:
    """The NumPy scalar of a constant node."""
    bits = node.arg
    if not isinstance(bits, bytes):
        raise GraphError(f"{node!r} is not a constant")
    return np.frombuffer(bits, node.dtype)[0]


@dataclass(frozen=True, repr=False)
class Body:
    """A closed graph that is the argument of a node: the body of a loop, a branch.

    Its variables are named by their position alone (`trace.body.close`), so that equal
    bodies are equal objects wherever they were traced.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs))

    def __str__(self) -> str:
        return render_graph(Graph(self.inputs, self.outputs))

    __repr__ = __str__


def bodies_of(arg: Any) -> tuple[Body, ...]:
    """The bodies that an operation holds in its argument, in the order of its fields.

    Those that rules hold are none of them: see `bodies_in`.
    """
    found: list[Body] = []
    for name in field_names(arg.__class__):
        value: Any = getattr(arg, name)
        if type(value) is tuple:
            found += [x for x in cast(tuple[Any, ...], value) if isinstance(x, Body)]
        elif isinstance(value, Body):
            found.append(value)
    return tuple(found)


@memo(512)
def field_names(kind: type[Any]) -> tuple[str, ...]:
    """The names of the fields of a data class; none, of others."""
    return tuple([f.name for f in fields(kind)]) if is_dataclass(kind) else ()


#: Families of the operations that may have bodies in their argument.
HOLDERS = frozenset(("control", "call", "loop"))


def graphs_within(outputs: Sequence[Node]) -> Iterator[tuple[Node, ...]]:
    """The outputs, and those of bodies that operations hold, at any depth."""

    def bodies(outputs: tuple[Node, ...]) -> list[tuple[Node, ...]]:
        if HOLDERS.isdisjoint([op.family for op in operations_of(outputs)]):
            return []
        holders = [node for node in toposort(outputs) if node.op.family in HOLDERS]
        return [body.outputs for node in holders for body in bodies_of(node.arg)]

    return walk([tuple(outputs)], bodies)


def arguments_in(graph: Graph) -> Iterator[Any]:
    """What the operations of a graph, and of bodies within it, have as arguments.

    In all processes they come in the same order.
    """
    for outputs in graphs_within((*graph.outputs, *graph.effects)):
        for node in toposort(outputs):
            yield node.arg


def with_bodies(arg: Any, bodies: Sequence[Body]) -> Any:
    """The argument with other bodies in the places of its own."""
    rest, changed = iter(bodies), dict[str, Any]()
    for name in field_names(arg.__class__):
        value: Any = getattr(arg, name)
        if isinstance(value, Body):
            changed[name] = next(rest)
        elif type(value) is tuple:
            values = cast(tuple[Any, ...], value)
            kept = [next(rest) if isinstance(x, Body) else x for x in values]
            changed[name] = tuple(kept)
    return replace(arg, **changed)


def rebuild_with(node: Node, src: tuple[Node, ...], bodies: Sequence[Body]) -> Node:
    """`node` over other sources, with other bodies in the places of its own."""
    if tuple(bodies) == bodies_of(node.arg):
        return rebuild(node, src)
    return node.op(*src, arg=with_bodies(node.arg, bodies))


@dataclass(frozen=True, eq=False)
class Graph(Immutable):
    """A function of arrays: `outputs` in terms of `inputs`.

    Attributes:
      inputs: leaf nodes: the arguments, then one per captured array.
      outputs: what is computed.
      captured: concrete arrays that the function closed over: the values of the
        last inputs.
      effects: the token before its effects and the token after them; empty if it has
        none. Tokens put what the world notices in order (`trace/effects.py`).
      level: the values and tangents of rules that ran while it was traced, or None.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    captured: tuple[Any, ...] = ()
    effects: tuple[Node, ...] = ()
    level: Any = None

    @property
    def ends(self) -> tuple[Node, ...]:
        """The outputs, and the token after its effects if it has any."""
        return *self.outputs, *self.effects[1:]

    def with_ends(self, ends: Sequence[Node]) -> Graph:
        """The graph with others."""
        count = len(ends) - len(self.effects[1:])
        effects = (*self.effects[:1], *ends[count:])
        return replace(self, outputs=tuple(ends[:count]), effects=effects)

    @property
    def nodes(self) -> list[Node]:
        """All nodes, sources first, unused inputs too."""
        return toposort((*self.inputs, *self.outputs, *self.effects))

    def __str__(self) -> str:
        return render_graph(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks: what one call made is a line, which unfolds."""
        return backend().html_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Its nodes in order, without recursion: who reads them makes them anew."""
        nodes = self.nodes
        number = {node: i for i, node in enumerate(nodes)}
        rows = [
            (n.op, n.aval, tuple([number[s] for s in n.src]), n.arg, n.origin)
            for n in nodes
        ]
        ends = [
            tuple([number[node] for node in part])
            for part in (self.inputs, self.outputs, self.effects)
        ]
        return _unpickle, (rows, ends, self.captured, self.level)


def _unpickle(
    rows: Sequence[tuple[Op, Aval, tuple[int, ...], Any, Origin | None]],
    ends: Sequence[tuple[int, ...]],
    captured: tuple[Any, ...],
    level: Any,
) -> Graph:
    nodes: list[Node] = []
    for op, aval, src, arg, origin in rows:
        with making_nodes_of(origin):
            nodes.append(make_node(op, aval, tuple([nodes[i] for i in src]), arg))
    inputs, outputs, effects = [tuple([nodes[i] for i in end]) for end in ends]
    return Graph(inputs, outputs, captured, effects, level)


def _only_output(graph: Graph) -> Node:
    return graph.outputs[0]


def _type_of(node: Node) -> str:
    return repr(node.aval)


def render_graph(
    graph: Graph,
    source_lines: bool = True,
    type_of: Callable[[Node], str] = _type_of,
) -> str:
    """The graph as text: a line per node, with its type and the user's line.

    The bodies of loops, branches and calls stand below their node.
    """
    names = names_of(graph)
    given = [*graph.inputs, *graph.effects[:1]]
    lines: list[str] = []
    for node in names:
        if node in given or _is_written_out(node):
            continue
        lines.append("  " + line_of(node, names, source_lines, type_of))
        for body in bodies_in(node.arg):
            part = Graph(body.inputs, body.outputs)
            inner = render_graph(part, source_lines, type_of)
            lines += [
                "    " + line for line in inner.replace("graph", "body", 1).splitlines()
            ]
    heading = " ".join(f"{names[n]}:{type_of(n)}" for n in given)
    result = ", ".join(_operand(n, names, type_of) for n in graph.ends)
    return "\n".join([f"graph ({heading}):", *lines, f"  return {result}"])


def names_of(graph: Graph) -> dict[Node, str]:
    """The names by which texts call the nodes of a graph, sources first."""
    letters = variable_names()
    given = (*graph.inputs, *graph.effects[:1])
    names = {node: next(letters) for node in given}
    for node in toposort(graph.ends):
        if node not in names:
            names[node] = "" if _is_written_out(node) else next(letters)
    return names


def line_of(
    node: Node,
    names: Mapping[Node, str],
    source_lines: bool = True,
    type_of: Callable[[Node], str] = _type_of,
) -> str:
    """A node as a line of text, with its type and the user's line."""
    constant = node.op.name == "const"
    call = f"const[{constant_value(node)}]" if constant else node.op.render(node)
    text = f"{names[node]}:{type_of(node)} = {call}"
    operands = " ".join(_operand(s, names, type_of) for s in node.src)
    text = f"{text} {operands}" if operands else text
    return with_line(text, node.origin if source_lines else None)


def with_line(text: str, origin: Origin | None) -> str:
    """A line of text, and behind it the user's."""
    return text if origin is None else f"{text:<56} # {origin}"


def _operand(
    node: Node, names: Mapping[Node, str], type_of: Callable[[Node], str]
) -> str:
    return names[node] or f"{constant_value(node)}:{type_of(node)}"


def _is_written_out(node: Node) -> bool:
    """Is it a number, which stands where it is used?"""
    return node.op.name == "const" and node.aval.shape == ()


def bodies_in(arg: Any) -> Iterator[Body]:
    """The bodies that the argument of a node is made of."""
    if isinstance(arg, Body):
        yield arg
    elif isinstance(arg, tuple):
        for part in cast(tuple[Any, ...], arg):
            yield from bodies_in(part)
    else:
        for name in field_names(arg.__class__):
            yield from bodies_in(getattr(arg, name))


def variable_names() -> Iterator[str]:
    """a, b, …, z, aa, ab and so on."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    for length in itertools.count(1):
        for letters in itertools.product(alphabet, repeat=length):
            yield "".join(letters)


def is_constant(node: Node) -> bool:
    return isinstance(node.arg, bytes) and node.op.name == "const"
