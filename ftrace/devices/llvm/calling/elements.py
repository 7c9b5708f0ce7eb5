"""Operations on elements whose bits are fixed: what each does to a few of them.

By IEEE 754 they are, by two's complement, or by our own meaning of a primitive. Each is
a row: its name and the dtype of its operands, and an expression of LLVM. As a loop over
memory it is found in `element_loops.py`.

What an operation means is said in `trace/primitives/meanings.py` and beside it; which
NaN comes out of several is left open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.devices.llvm.calling.lanes import INFINITY, WIDTHS, Lanes
from ftrace.records import NamedTuple

_FLOATS = {"float32": "float", "float64": "double"}
_SIGNED = {"int32": "i32", "int64": "i64"}
_UNSIGNED = {"uint8": "i8", "uint32": "i32", "uint64": "i64"}
#: Dtypes, and the types of LLVM of their elements in memory.
KINDS = {"bool": "i8", **_FLOATS, **_SIGNED, **_UNSIGNED}

#: Comparisons of floats.
_COMPARED = {
    "eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
}  # fmt: skip

#: The value for some lanes, of the values of one, two or three operands.
One = Callable[[Lanes, str], str]
Two = Callable[[Lanes, str, str], str]
Three = Callable[[Lanes, str, str, str], str]
Make = One | Two | Three


class Code(NamedTuple):
    """An operation.

    Attributes:
      operands, result: types of LLVM.
      make: the value for some lanes, of the values of the operands.
      side_by_side: does a processor do several elements at once?
    """

    operands: Sequence[str]
    result: str
    make: Make
    side_by_side: bool = True


def _two(code: str, kind: str) -> Two:
    return lambda e, x, y: e.op(code, kind, x, y)


def _function(name: str, kind: str) -> One:
    return lambda e, x: e.call(name, kind, (kind, x))


def _itself(e: Lanes, x: str) -> str:
    return x


def _negative(kind: str) -> One:
    return lambda e, x: e.let(f"fneg {e.of(kind)} {x}")


def _with_constant(code: str, kind: str, constant: int, first: bool = False) -> One:
    """Of the operand and a constant, which is the first or the second."""

    def make(e: Lanes, x: str) -> str:
        same = e.all(kind, constant)
        return e.op(code, kind, same, x) if first else e.op(code, kind, x, same)

    return make


def _compare(code: str, kind: str) -> Two:
    def make(e: Lanes, x: str, y: str) -> str:
        return e.cast("zext", "i1", "i8", e.op(code, kind, x, y))

    return make


def _greater_float(kind: str, least: bool) -> Two:
    """NaN wins; of two zeros +0 is the greater."""

    def make(e: Lanes, x: str, y: str) -> str:
        whole = "i32" if kind == "float" else "i64"
        bits = [e.cast("bitcast", kind, whole, v) for v in (x, y)]
        # Equal numbers have equal bits, but for the sign of zero.
        code = "or" if least else "and"
        tie = e.cast("bitcast", whole, kind, e.op(code, whole, *bits))
        first = e.op("fcmp olt" if least else "fcmp ogt", kind, x, y)
        found = e.select(kind, first, x, y)
        found = e.select(kind, e.op("fcmp oeq", kind, x, y), tie, found)
        return e.select(kind, e.op("fcmp uno", kind, x, x), x, found)

    return make


def _greater(code: str, kind: str) -> Two:
    return lambda e, x, y: e.select(kind, e.op(f"icmp {code}", kind, x, y), x, y)


def _shift(code: str, kind: str) -> Two:
    """By less than the width; by anything else there is 0 left, or the sign."""
    bits = WIDTHS[kind] * 8

    def make(e: Lanes, x: str, n: str) -> str:
        inside = e.op("icmp ult", kind, n, e.all(kind, bits))
        if code == "ashr":
            n = e.select(kind, inside, n, e.all(kind, bits - 1))
            return e.op(code, kind, x, n)
        n = e.op("and", kind, n, e.all(kind, bits - 1))
        return e.select(kind, inside, e.op(code, kind, x, n), e.all(kind, 0))

    return make


def _divide(kind: str, signed: bool, rest: bool) -> Two:
    """Truncated; x/0 is -1 with the rest x, and the least integer by -1 is itself."""
    least = -(1 << (WIDTHS[kind] * 8 - 1))

    def make(e: Lanes, x: str, y: str) -> str:
        none = e.op("icmp eq", kind, y, e.all(kind, 0))
        unsafe = none
        if signed:
            low = e.op("icmp eq", kind, x, e.all(kind, least))
            negative = e.op("icmp eq", kind, y, e.all(kind, -1))
            unsafe = e.op("or", "i1", none, e.op("and", "i1", low, negative))
        safe = e.select(kind, unsafe, e.all(kind, 1), y)
        code = ("s" if signed else "u") + ("rem" if rest else "div")
        found = e.op(code, kind, x, safe)
        return e.select(kind, none, x if rest else e.all(kind, -1), found)

    return make


def _half_power(kind: str) -> One:
    """The root; of -0 it is 0, and of -infinity infinity."""

    def make(e: Lanes, x: str) -> str:
        root = e.op("fadd", kind, e.call("sqrt", kind, (kind, x)), e.all(kind, "0.0"))
        opposite = e.let(f"fneg {e.of(kind)} {x}")
        endless = e.op("fcmp oeq", kind, opposite, e.all(kind, INFINITY))
        return e.select(kind, endless, opposite, root)

    return make


def _mul_zero(kind: str) -> Two:
    """The product, and zero where either is zero."""

    def make(e: Lanes, x: str, y: str) -> str:
        zero = e.all(kind, "0.0")
        either = [e.op("fcmp oeq", kind, v, zero) for v in (x, y)]
        none = e.op("or", "i1", *either)
        return e.select(kind, none, zero, e.op("fmul", kind, x, y))

    return make


def _is_finite(kind: str) -> One:
    def make(e: Lanes, x: str) -> str:
        size = e.call("fabs", kind, (kind, x))
        less = e.op("fcmp olt", kind, size, e.all(kind, INFINITY))
        return e.cast("zext", "i1", "i8", less)

    return make


def _sign(kind: str) -> One:
    def make(e: Lanes, x: str) -> str:
        unit = e.call("copysign", kind, (kind, e.all(kind, "1.0")), (kind, x))
        none = e.op("fcmp ueq", kind, x, e.all(kind, "0.0"))
        return e.select(kind, none, x, unit)

    return make


def _absolute(kind: str) -> One:
    def make(e: Lanes, x: str) -> str:
        low = e.op("icmp slt", kind, x, e.all(kind, 0))
        less = e.op("sub", kind, e.all(kind, 0), x)
        return e.select(kind, low, less, x)

    return make


def _sign_of_integers(kind: str) -> One:
    def make(e: Lanes, x: str) -> str:
        none = e.all(kind, 0)
        above = e.cast("zext", "i1", kind, e.op("icmp sgt", kind, x, none))
        below = e.cast("zext", "i1", kind, e.op("icmp slt", kind, x, none))
        return e.op("sub", kind, above, below)

    return make


def _floats(dtype: str, kind: str) -> dict[str, Code]:
    one, two = (kind,), (kind, kind)
    found = {
        name: Code(two, kind, _two(f"f{name}", kind))
        for name in ("add", "sub", "mul", "div")
    }
    found |= {
        name: Code(two, "i8", _compare(f"fcmp {code}", kind))
        for name, code in _COMPARED.items()
    }
    found |= {
        name: Code(one, kind, _function(code, kind))
        for name, code in (
            ("abs", "fabs"), ("sqrt", "sqrt"), ("floor", "floor"), ("ceil", "ceil"),
            ("trunc", "trunc"), ("round", "rint"),
        )
    }  # fmt: skip
    found["neg"] = Code(one, kind, _negative(kind))
    found["max"] = Code(two, kind, _greater_float(kind, False))
    found["min"] = Code(two, kind, _greater_float(kind, True))
    found["half_power"] = Code(one, kind, _half_power(kind))
    found["mul_zero"] = Code(two, kind, _mul_zero(kind))
    found["is_finite"] = Code(one, "i8", _is_finite(kind))
    found["sign"] = Code(one, kind, _sign(kind))
    return {f"{name}_{dtype}": code for name, code in found.items()}


def _integers(dtype: str, kind: str, signed: bool) -> dict[str, Code]:
    one, two, letter = (kind,), (kind, kind), "s" if signed else "u"
    found = {
        name: Code(two, kind, _two(name, kind))
        for name in ("add", "sub", "mul", "and", "or", "xor")
    }
    found |= {
        name: Code(two, "i8", _compare(f"icmp {code}", kind))
        for name, code in (
            ("eq", "eq"), ("ne", "ne"), ("lt", f"{letter}lt"), ("le", f"{letter}le"),
            ("gt", f"{letter}gt"), ("ge", f"{letter}ge"),
        )
    }  # fmt: skip
    found["neg"] = Code(one, kind, _with_constant("sub", kind, 0, first=True))
    found["not"] = Code(one, kind, _with_constant("xor", kind, -1))
    found["max"] = Code(two, kind, _greater(f"{letter}gt", kind))
    found["min"] = Code(two, kind, _greater(f"{letter}lt", kind))
    found["shl"] = Code(two, kind, _shift("shl", kind))
    found["shr"] = Code(two, kind, _shift("lshr", kind))
    found["sar"] = Code(two, kind, _shift("ashr" if signed else "lshr", kind))
    for name in ("div", "rem"):
        found[name] = Code(two, kind, _divide(kind, signed, name == "rem"), False)
    if signed:
        found["abs"] = Code(one, kind, _absolute(kind))
        found["sign"] = Code(one, kind, _sign_of_integers(kind))
    return {f"{name}_{dtype}": code for name, code in found.items()}


def _truths() -> dict[str, Code]:
    two = ("i8", "i8")
    pairs = (
        ("and", "and"), ("or", "or"), ("xor", "xor"), ("max", "or"), ("min", "and"),
        ("mul", "and"), ("add", "or"),
    )  # fmt: skip
    found = {name: Code(two, "i8", _two(code, "i8")) for name, code in pairs}
    found["eq"] = Code(two, "i8", _compare("icmp eq", "i8"))
    found["ne"] = Code(two, "i8", _compare("icmp ne", "i8"))
    found["not"] = Code(("i8",), "i8", _with_constant("xor", "i8", 1))
    return {f"{name}_bool": code for name, code in found.items()}


def _selects() -> dict[str, Code]:
    found: dict[str, Code] = {}
    for dtype, kind in KINDS.items():

        def make(e: Lanes, c: str, x: str, y: str, kind: str = kind) -> str:
            chosen = e.op("icmp ne", "i8", c, e.all("i8", 0))
            return e.select(kind, chosen, x, y)

        found[f"select_{dtype}"] = Code(("i8", kind, kind), kind, make)
        found[f"copy_{dtype}"] = Code((kind,), kind, _itself)
    return found


def _cast(source: str, target: str) -> One:
    """Floats saturate as integers, and NaN is 0; anything but 0 is true."""
    low, high = KINDS[source], KINDS[target]
    of_float, to_float = source in _FLOATS, target in _FLOATS

    def make(e: Lanes, x: str) -> str:
        if target == "bool":
            code, zero = ("fcmp une", "0.0") if of_float else ("icmp ne", "0")
            truth = e.op(code, low, x, e.all(low, zero))
            return e.cast("zext", "i1", "i8", truth)
        if of_float and to_float:
            wider = WIDTHS[high] > WIDTHS[low]
            return e.cast("fpext" if wider else "fptrunc", low, high, x)
        if of_float:
            name = "fptosi.sat" if target in _SIGNED else "fptoui.sat"
            return e.call(name, high, (low, x))
        signed = source in _SIGNED
        if to_float:
            return e.cast("sitofp" if signed else "uitofp", low, high, x)
        if WIDTHS[high] == WIDTHS[low]:
            return x
        if WIDTHS[high] < WIDTHS[low]:
            return e.cast("trunc", low, high, x)
        return e.cast("sext" if signed else "zext", low, high, x)

    return make


def _all_codes() -> dict[str, Code]:
    found = _truths() | _selects()
    for dtype, kind in _FLOATS.items():
        found |= _floats(dtype, kind)
    for dtype, kind in _SIGNED.items():
        found |= _integers(dtype, kind, True)
    for dtype, kind in _UNSIGNED.items():
        found |= _integers(dtype, kind, False)
    for source in KINDS:
        for target in KINDS:
            if source != target:
                code = Code((KINDS[source],), KINDS[target], _cast(source, target))
                found[f"cast_{source}_{target}"] = code
    return found


CODES = _all_codes()


def loop_name(name: str, operands: Sequence[Any], result: Any) -> str | None:
    """The loop of a primitive for operands of such dtypes; None if there is none."""
    if name == "cast":
        found = f"cast_{operands[0].name}_{result.name}"
        if operands[0] == result:
            found = f"copy_{result.name}"
    else:
        found = f"{name}_{operands[-1].name}"
    return found if found in CODES else None
