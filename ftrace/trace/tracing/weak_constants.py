"""Numbers of Python's in traces: 64 bits until they meet a type.

    jit(lambda x, y: x * (1 - y))(x, 0.1)    y, and so 1 - y, is a float32, and weak
        beside a float32                     (1 - y) as it is
        beside a float64                     1 - y' of the argument y' at 64 bits

What a weak scalar was computed from is a graph: it is computed once more, of the wider
numbers. Where these come from is for who knows the variables to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives.elementwise import batch_elementwise, cast, cast_p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.sources import const, const_p, is_variable

#: The dtypes in which weak scalars give up bits, and those with all of them.
WIDE = {
    dtypes.int32: dtypes.int64,
    dtypes.float32: dtypes.float64,
    dtypes.complex64: dtypes.complex128,
}
NARROW = {wide: narrow for narrow, wide in WIDE.items()}
#: Beside these, bits of a weak scalar count.
COUNTING = frozenset((dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128))
_COMPUTING = frozenset(
    ("unary", "binary", "select", "cast", "identity", "movement", "reduction")
)


def _widened_aval(arg: object, x: ShapedArray, exact: ShapedArray) -> ShapedArray:
    return exact


def _widened_value(aval: ShapedArray, arg: object, x: object, exact: object) -> object:
    return exact


def _widened_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    return None if tangents[0] is None else cast(tangents[0], node.dtype)


#: A variable and what it was before it was rounded: that moves as the variable does.
widened = Primitive(
    "widened", "identity", _widened_aval, _widened_value, batch_elementwise,
    jvp=_widened_tangent, dtypes="fc",
    doc="the second operand: the number with all its bits of which x is the rounding",
)  # fmt: skip


def is_narrow(aval: ShapedArray) -> bool:
    """Is it a weak type of what may have had more bits?"""
    return aval.weak_type and aval.dtype in WIDE


def is_exact(aval: ShapedArray) -> bool:
    """Is it the type of a weak scalar with all its bits?"""
    return aval.weak_type and not aval.shape and aval.dtype in COUNTING


def default_bits(aval: ShapedArray) -> ShapedArray:
    """The type without the bits that numbers of Python's have beyond it."""
    if not aval.weak_type or aval.dtype not in COUNTING:
        return aval
    return aval.with_dtype(dtypes.default_dtype(dtypes.kind(aval.dtype)), True)


def counts_bits(aval: ShapedArray, dtype: object) -> bool:
    """Does a conversion to a dtype want more bits than a weak type has?"""
    return aval.weak_type and dtype in COUNTING and is_narrow(aval)


def with_all_bits(
    node: Node, leaf: Callable[[Node], Node | None], known: dict[Node, Node | None]
) -> Node | None:
    """A weak scalar at 64 bits; None where no more of them are known.

    Args:
      leaf: tells this of a variable.
      known: what was found before; it is added to.
    """
    pending = [node]
    while pending:
        last = pending[-1]
        missing = [s for s in _operands(last) if s not in known]
        if missing and last not in known:
            pending += missing
            continue
        pending.pop()
        if last not in known:
            known[last] = _widen(last, leaf, known)
    return known[node]


def _operands(node: Node) -> list[Node]:
    """What a weak scalar was computed from, as far as that are weak scalars."""
    op = node.op
    if op.family not in _COMPUTING or (isinstance(op, Primitive) and op.reads_width):
        return []
    return [s for s in node.src if is_narrow(s.aval)]


def _widen(
    node: Node, leaf: Callable[[Node], Node | None], known: dict[Node, Node | None]
) -> Node | None:
    if is_variable(node):
        return leaf(node)
    if node.op is const_p:
        return const(constant_value(node), WIDE[node.dtype], node.shape, True)
    if node.op is cast_p and node.src[0].aval.weak_type:
        source = node.src[0]
        if source.dtype == WIDE[node.dtype]:
            return source
    operands = _operands(node)
    # Of constants alone there is nothing to gain.
    if not any(s.op is not const_p and known[s] is not None for s in operands):
        return None
    if node.op is cast_p:
        (found,) = (known[s] for s in operands)
        assert found is not None
        return cast(found, WIDE[node.dtype], True)
    sources = [
        (known[s] or cast(s, WIDE[s.dtype], True)) if is_narrow(s.aval) else s
        for s in node.src
    ]
    return node.op(*sources, arg=node.arg)
