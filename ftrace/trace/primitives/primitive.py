"""One record per primitive: everything the system knows about an operation.

    name       what the graph prints
    family     unary, binary, select, cast, reduction, movement, source, indexing
    infer      (arg, *avals) -> aval               shape and dtype rule; raises
    numpy      (aval, arg, *arrays) -> array       the meaning
    jvp        (node, tangents) -> tangent | None  derivative; None is zero
    transpose  (node, cotangent, i) -> cotangent of operand i, for a linear one
    batch      (node, src, batched) -> node        one more leading axis
    direct     (aval, arg) -> (function, more)     the meaning as one call of NumPy,
                                                   function(*arrays, *more), if it is

A record that lacks a rule is refused when it is made. Rules build nodes by calling
primitives on nodes. Operations with several results, and those that are steps of a
program by themselves, have a record of their own kind: `Compound`. The one that no
family has stands here, the barrier, which does nothing to its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from importlib import import_module
from typing import Any, TypedDict

from ftrace import dtypes
from ftrace.errors import DerivativeError, PrimitiveError
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.trace.avals import Bundle, ShapedArray
from ftrace.trace.graph import Flags, Node, Nodes, Op, make_node, making_nodes_of
from ftrace.trace.primitives.ranges import Range

Array = Any  # of NumPy, whose stubs leave too much unknown
Infer = Callable[..., ShapedArray]
Meaning = Callable[..., Any]
Direct = Callable[[ShapedArray, Any], tuple[Callable[..., Any], tuple[Any, ...]] | None]
Jvp = Callable[[Node, Sequence[Node | None]], Node | None]
Transpose = Callable[[Node, Node, int], Node | None]
Batch = Callable[[Node, Nodes, Flags], Node]
#: The results for all lanes together, and which of them have lanes.
Batched = tuple[list[Node], list[bool]]

#: Families of operations of which an element depends on the same element of operands.
ELEMENTWISE = ("unary", "binary", "compare", "select", "cast")
#: All primitives by name, in the order in which they were made.
PRIMITIVES: dict[str, Primitive] = {}


class _Record(Op):
    """What all records can do."""

    show: Callable[[Any], str]
    moves: bool

    def widens(self, kinds: Sequence[Any]) -> bool:
        """Is it done in wide dtypes for operands of these, some of few bits?"""
        few = not dtypes.FEW_BITS.isdisjoint(kinds)
        return few and self.family not in MOVING and not self.moves

    def render(self, node: Node) -> str:
        if node.arg is None:
            return self.name
        return f"{self.name}[{self.show(node.arg)}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return find_record, (self.name,)


#: The families that move numbers of few bits as they are. All others, but for those
#: whose records say the same, are done in a wide dtype, and each result is rounded.
MOVING = {
    "barrier", "call", "cast", "collective", "control", "identity", "item", "movement",
    "select", "source",
}  # fmt: skip


def _widen(x: Node) -> Node:
    return _recast(x, x.aval.with_dtype(dtypes.widen(x.dtype)))


def _recast(x: Node, aval: ShapedArray) -> Node:
    """The node in the dtype of a type."""
    if x.dtype == aval.dtype:
        return x
    return PRIMITIVES["cast"](x, arg=(aval.dtype, aval.weak_type))


@dataclass(frozen=True, eq=False, repr=False)
class Primitive(_Record):
    """The record. Call it on nodes: `add(x, y)`, `reshape(x, arg=(2, 3))`.

    Attributes:
      zero_at_zero: f(0) = 0, so that padding with zeros may move through it.
      linear: it is in all operands together, or in those of these positions; else in
        any one of them, if there is a transpose.
      no_derivative: why it has neither jvp nor transpose.
      dtypes: kinds of dtype it takes ("biufc"), for the table in the docs.
      show: renders `arg` for people.
      cost: operations for one element, where it is elementwise.
      called: the code of a kernel may call a function for it, with scalar operands.
      slow: how long it takes NumPy, in halves of an addition of float32: 2 is as long.
      exact: all devices compute the same bits, of floats too; of integers they do of
        all that is elementwise.
      keeps_nan: a float is NaN wherever an operand is.
      range: where a float is, a little more than that; it is then NaN for NaN alone. Or
        that and this as a function of where the operands are.
      zero_for: operands for which alone it is zero: "zero", or "finite" ones; "" if
        that is not known.
      jumps: a last bit of an operand may decide on much of the result.
      reads_width: what it gives depends on how many bits an operand has.
      moves: it does nothing with numbers: see `MOVING`.
      takes_numbers: it is done in the same way whether an operand is a constant or not.
    """

    infer: Infer
    numpy: Meaning
    batch: Batch
    jvp: Jvp | None = None
    transpose: Transpose | None = None
    linear: bool | tuple[int, ...] = False
    zero_at_zero: bool = False
    no_derivative: str = ""
    dtypes: str = "biufc"
    doc: str = ""
    direct: Direct | None = None
    show: Callable[[Any], str] = field(default=lambda arg: f"{arg}")
    cost: int = 1
    called: bool = False
    slow: int = 2
    exact: bool = False
    keeps_nan: bool = False
    range: tuple[float, float] | Range | None = None
    zero_for: str = ""
    jumps: bool = False
    reads_width: bool = False
    moves: bool = False
    takes_numbers: bool = False

    def __post_init__(self) -> None:
        missing = [
            rule for rule in ("infer", "numpy", "batch") if getattr(self, rule) is None
        ]
        if self.linear and self.transpose is None:
            missing.append("transpose (it is linear)")
        if not self.linear and self.jvp is None and not self.no_derivative:
            missing.append("jvp (or no_derivative, saying why)")
        if missing:
            raise PrimitiveError(
                f"the record of primitive {self.name!r} lacks {', '.join(missing)}"
            )
        if self.name in PRIMITIVES:
            raise PrimitiveError(f"there is a primitive named {self.name!r} already")
        PRIMITIVES[self.name] = self

    def __call__(self, *src: Node, arg: Any = None) -> Node:
        """The node of this primitive over `src`; raises where shapes do not fit."""
        avals = [node.aval for node in src]
        aval = self.infer(arg, *avals)
        for x in avals:  # asked here, as each node is made here
            if x.dtype in dtypes.FEW_BITS and self.widens((x.dtype,)):
                return _recast(self(*map(_widen, src), arg=arg), aval)
        return make_node(self, aval, src, arg)

    def is_linear(self, flags: Flags) -> bool:
        """Is it linear in these operands together?"""
        chosen = [i for i, flag in enumerate(flags) if flag]
        if isinstance(self.linear, tuple):
            return {*chosen} <= {*self.linear}
        return self.linear or len(chosen) == 1


class CompiledFrom(NamedTuple):
    """From when on an operation outside of traces is compiled, and not left to NumPy.

    What rounds is compiled at its first call, as last bits must not depend on how often
    a call came.

    Attributes:
      elements: at least so many in the first operand; one has as many axes as `core`
        of the record says.
      calls: after so many calls with operands of the same types.
    """

    elements: int
    calls: int = 0


Results = Sequence[Node | None]

#: All compound primitives by name, in the order in which they were made.
COMPOUNDS: dict[str, Compound] = {}


@dataclass(frozen=True, eq=False, repr=False)
class Compound(_Record):
    """The record of an operation that is a step of a program by itself.

    Loops, branches, calls, and what the host computes. Its operands and results are
    stored; it may have several results, which `results` gives one by one. The node
    itself has a `Bundle` of their types.

        infer      (arg, *avals) -> (aval, …)            one per result
        numpy      (avals, arg, *arrays) -> (array, …)   the meaning
        jvp        (node, tangents) -> (tangent | None, …)   one per result
        transpose  (node, cotangents, linear) -> (cotangent | None, …)
                   cotangents: one per result, None is zero; linear: which operands are
                   asked for; returned: one per operand, None is zero
        batch      (node, src, batched, size) -> ([node, …], [batched, …])

    Attributes:
      no_derivative: why it has no jvp.
      pure: equal calls may be done once, and unused ones not at all.
      dtypes: kinds of dtype it takes, for the table in the docs.
      slow, moves: as of `Primitive`.
      calls_back: it calls a user's function, which may keep what it is given.
      compiled_from: where it has kernels that pay outside of traces.
      core: how many last axes of the first operand are one element, a matrix; 0 where
        the argument says which, of operations along an axis and of Fourier transforms.
    """

    infer: Callable[..., tuple[ShapedArray, ...]]
    numpy: Callable[..., Sequence[Any]]
    batch: Callable[[Node, Nodes, Flags, int], Batched]
    jvp: Callable[[Node, Results], Results] | None = None
    transpose: Callable[[Node, Results, Flags], Results] | None = None
    no_derivative: str = ""
    pure: bool = True
    dtypes: str = "biufc"
    doc: str = ""
    show: Callable[[Any], str] = field(default=lambda arg: f"{arg}")
    slow: int = 2
    moves: bool = False
    calls_back: bool = False
    compiled_from: CompiledFrom | None = None
    core: int = 2

    def __post_init__(self) -> None:
        if self.jvp is None and self.transpose is None and not self.no_derivative:
            raise PrimitiveError(
                f"the record of primitive {self.name!r} lacks jvp (or no_derivative, "
                "saying why)"
            )
        if self.name in COMPOUNDS or self.name in PRIMITIVES:
            raise PrimitiveError(f"there is a primitive named {self.name!r} already")
        COMPOUNDS[self.name] = self

    def __call__(self, *src: Node, arg: Any = None) -> Node:
        """The node with all results; `results` takes it apart."""
        avals = self.infer(arg, *[node.aval for node in src])
        return make_node(self, Bundle.of_items(tuple(avals)), src, arg)

    def results(self, *src: Node, arg: Any = None) -> list[Node]:
        """The results of this primitive over `src`."""
        if self.widens([node.aval.dtype for node in src]):
            avals = self.infer(arg, *[node.aval for node in src])
            found = self.results(*map(_widen, src), arg=arg)
            return list(map(_recast, found, avals))
        return items(self(*src, arg=arg))


@dataclass(frozen=True, eq=False, repr=False)
class _Item(Op):
    """One result of a compound; `arg` is its number."""

    def __call__(self, *src: Node, arg: Any = None) -> Node:
        (bundle,) = src
        number: int = arg
        return make_node(self, bundle.aval.items[number], src, number)


item_p = _Item("item", "item")


def items(bundle: Node) -> list[Node]:
    """The results of a compound's node, of the line that it is of."""
    with making_nodes_of(bundle.origin):
        results = [item_p(bundle, arg=i) for i in range(len(bundle.aval.items))]
    for result in results:  # passes ask for what is there, and have no line
        result.origin = bundle.origin
    return results


def find_record(name: str) -> Op:
    """The record of a name, for who reads it: its file may not be loaded yet."""
    for load in (lambda: None, _load_all):
        load()
        found = PRIMITIVES.get(name) or COMPOUNDS.get(name)
        if found is not None:
            return found
    raise PrimitiveError(
        f"there is no primitive named {name!r}; import the module that makes it"
    )


def _load_all() -> None:
    package = __name__.split(".primitives")[0]
    walk: Any = import_module("pkgutil").walk_packages
    for module in walk(import_module(package).__path__, f"{package}."):
        import_module(module.name)


def compound_of(node: Node) -> Compound | None:
    """The compound whose results the node bundles; None for any other node."""
    return node.op if isinstance(node.op, Compound) else None


def primitive_of(node: Node) -> Primitive:
    """The primitive of a node of a graph; kernels have operations that are none."""
    assert isinstance(node.op, Primitive)
    return node.op


def record_of(node: Node) -> Primitive | Compound:
    """The record of a node of a graph, but for items."""
    assert isinstance(node.op, (Primitive, Compound))
    return node.op


def not_linear(name: str, node: Node) -> DerivativeError:
    """What is raised where a function to be transposed is not linear."""
    return DerivativeError(
        "linear_transpose: the function is not linear in its argument: it uses "
        f"{name} of it",
        node.origin,
    )


class PrimitiveFields(TypedDict, total=False):
    """What the constructors of families pass on to the record as it is."""

    jvp: Jvp
    transpose: Transpose
    linear: bool | tuple[int, ...]
    zero_at_zero: bool
    no_derivative: str
    direct: Direct
    doc: str
    cost: int
    called: bool
    slow: int
    exact: bool
    keeps_nan: bool
    range: tuple[float, float] | Range
    zero_for: str
    jumps: bool
    reads_width: bool
    takes_numbers: bool


# Barriers.
#
#     barrier_p(*operands, arg) -> *operands
#
# What needs one of the results is not computed before every operand has been, and is
# not merged with what needs the operands themselves. It costs nothing: the results are
# the memory of the operands. `lax.optimization_barrier` is this; `checkpoint` puts it
# around what it computes again, so that the second pass cannot become the first one.
#
# Where `arg` is `IN_LOOPS` it stands in the bodies of loops only, and vanishes
# elsewhere: what does not depend on the iteration before it would be computed for all
# at once.


IN_LOOPS = "in loops"
Where = str | None


def _infer(arg: Where, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return avals


def _value(avals: Sequence[ShapedArray], arg: Where, *operands: Any) -> Sequence[Any]:
    return operands


def _through(node: Node, values: Results) -> Results:
    """Of what is known, tangents or cotangents: a barrier of their own."""
    known = barrier([v for v in values if v is not None], node.arg)
    rest = iter(known)
    return [None if v is None else next(rest) for v in values]


barrier_p = Compound(
    "barrier", "barrier", _infer, _value,
    lambda node, src, batched, size: (barrier(src, node.arg), list(batched)),
    jvp=_through, transpose=lambda node, cotangents, linear: _through(node, cotangents),
    doc="its operands, once all of them exist",
)  # fmt: skip


def barrier(nodes: Sequence[Node], where: Where = None) -> list[Node]:
    """The nodes, none of which exists before all of them do."""
    return barrier_p.results(*nodes, arg=where) if nodes else []
