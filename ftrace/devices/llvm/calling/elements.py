"""Operations on elements whose bits IEEE 754 fixes, as loops over memory.

Each is a row: its name and the dtype of its operands, and an expression of LLVM. A
loop takes three operands, whether it needs them or not:

    loop(out, left, its step, right, its step, third, its step, how many elements)

A step is 1, or 0 where one number stands for all; of that there are `LANES` copies.
What an operation means is said in `trace/primitives/meanings.py` and beside it; which
NaN comes out of several is left open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ftrace.devices.llvm.runner.function import Function

#: Elements that are computed side by side.
LANES = 16

_FLOATS = {"float32": "float", "float64": "double"}
_SIGNED = {"int32": "i32", "int64": "i64"}
_UNSIGNED = {"uint8": "i8", "uint32": "i32", "uint64": "i64"}
_KINDS = {"bool": "i8", **_FLOATS, **_SIGNED, **_UNSIGNED}
#: What LLVM calls the types in the names of its functions.
_SHORT = {"float": "f32", "double": "f64"}
_WIDTHS = {"i8": 1, "i32": 4, "float": 4, "i64": 8, "double": 8}

_COMPARED = {
    "eq": "oeq",
    "ne": "une",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
}
_INFINITY = "0x7FF0000000000000"  # in the text of LLVM, of either width


class Code(NamedTuple):
    """A loop.

    Attributes:
      operands, result: types of LLVM.
      make: the value for some lanes, of the values of the operands.
    """

    operands: Sequence[str]
    result: str
    make: Callable[..., str]


class Lanes:
    """The expression of a loop, for one element or for several."""

    def __init__(self, function: Function, lanes: int) -> None:
        self._f = function
        self._lanes = lanes
        self.declared: set[str] = set()

    def many(self, kind: str) -> str:
        """The type of the lanes."""
        return kind if self._lanes == 1 else f"<{self._lanes} x {kind}>"

    def let(self, text: str) -> str:
        return self._f.let(text)

    def all(self, kind: str, value: str | int) -> str:
        """A constant in each lane."""
        if self._lanes == 1:
            return str(value)
        return "<" + ", ".join([f"{kind} {value}"] * self._lanes) + ">"

    def binary(self, code: str, kind: str, x: str, y: str) -> str:
        return self.let(f"{code} {self.many(kind)} {x}, {y}")

    def select(self, chosen: str, kind: str, x: str, y: str) -> str:
        wide = self.many(kind)
        return self.let(f"select {self.many('i1')} {chosen}, {wide} {x}, {wide} {y}")

    def cast(self, code: str, source: str, x: str, target: str) -> str:
        return self.let(f"{code} {self.many(source)} {x} to {self.many(target)}")

    def call(self, name: str, result: str, kind: str, *operands: str) -> str:
        """A function of LLVM, whose name tells of its types.

        Args:
          result: its type where the name has that too, else "".
        """
        types = [kind] if not result else [result, kind]
        vector = "" if self._lanes == 1 else f"v{self._lanes}"
        suffix = ".".join(vector + _SHORT.get(t, t) for t in types)
        made, wide = self.many(result or kind), self.many(kind)
        listed = ", ".join(f"{wide} {x}" for x in operands)
        types_of_operands = ", ".join([wide] * len(operands))
        whole = f"@llvm.{name}.{suffix}"
        self.declared.add(f"declare {made} {whole}({types_of_operands})\n")
        return self.let(f"call {made} {whole}({listed})")


Make = Callable[..., str]


def _two(code: str, kind: str) -> Make:
    return lambda e, x, y: e.binary(code, kind, x, y)


def _function(name: str, kind: str) -> Make:
    return lambda e, x: e.call(name, "", kind, x)


def _compare(code: str, kind: str) -> Make:
    def make(e: Lanes, x: str, y: str) -> str:
        return e.cast("zext", "i1", e.binary(code, kind, x, y), "i8")

    return make


def _greater_float(kind: str, least: bool) -> Make:
    """NaN wins; of two zeros +0 is the greater."""

    def make(e: Lanes, x: str, y: str) -> str:
        whole = "i32" if kind == "float" else "i64"
        bits = [e.cast("bitcast", kind, v, whole) for v in (x, y)]
        # Equal numbers have equal bits, but for the sign of zero.
        code = "or" if least else "and"
        tie = e.cast("bitcast", whole, e.binary(code, whole, *bits), kind)
        first = e.binary("fcmp olt" if least else "fcmp ogt", kind, x, y)
        found = e.select(first, kind, x, y)
        found = e.select(e.binary("fcmp oeq", kind, x, y), kind, tie, found)
        return e.select(e.binary("fcmp uno", kind, x, x), kind, x, found)

    return make


def _greater(code: str, kind: str) -> Make:
    return lambda e, x, y: e.select(e.binary(f"icmp {code}", kind, x, y), kind, x, y)


def _shift(code: str, kind: str) -> Make:
    """By less than the width; by anything else there is 0 left, or the sign."""
    bits = _WIDTHS[kind] * 8

    def make(e: Lanes, x: str, n: str) -> str:
        inside = e.binary("icmp ult", kind, n, e.all(kind, bits))
        if code == "ashr":
            n = e.select(inside, kind, n, e.all(kind, bits - 1))
            return e.binary(code, kind, x, n)
        n = e.binary("and", kind, n, e.all(kind, bits - 1))
        return e.select(inside, kind, e.binary(code, kind, x, n), e.all(kind, 0))

    return make


def _divide(kind: str, signed: bool, rest: bool) -> Make:
    """Truncated; x/0 is -1 with the rest x, and the least integer by -1 is itself."""
    least = -(1 << (_WIDTHS[kind] * 8 - 1))

    def make(e: Lanes, x: str, y: str) -> str:
        none = e.binary("icmp eq", kind, y, e.all(kind, 0))
        unsafe = none
        if signed:
            low = e.binary("icmp eq", kind, x, e.all(kind, least))
            negative = e.binary("icmp eq", kind, y, e.all(kind, -1))
            unsafe = e.binary("or", "i1", none, e.binary("and", "i1", low, negative))
        safe = e.select(unsafe, kind, e.all(kind, 1), y)
        code = ("s" if signed else "u") + ("rem" if rest else "div")
        found = e.binary(code, kind, x, safe)
        return e.select(none, kind, x if rest else e.all(kind, -1), found)

    return make


def _floats(dtype: str, kind: str) -> dict[str, Code]:
    one, two = (kind,), (kind, kind)
    found = {
        name: Code(two, kind, _two(f"f{code}", kind))
        for name, code in (
            ("add", "add"),
            ("sub", "sub"),
            ("mul", "mul"),
            ("div", "div"),
        )
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
    found["neg"] = Code(one, kind, lambda e, x: e.let(f"fneg {e.many(kind)} {x}"))
    found["max"] = Code(two, kind, _greater_float(kind, False))
    found["min"] = Code(two, kind, _greater_float(kind, True))

    def is_finite(e: Lanes, x: str) -> str:
        size = e.call("fabs", "", kind, x)
        less = e.binary("fcmp olt", kind, size, e.all(kind, _INFINITY))
        return e.cast("zext", "i1", less, "i8")

    found["is_finite"] = Code(one, "i8", is_finite)

    def sign(e: Lanes, x: str) -> str:
        unit = e.call("copysign", "", kind, e.all(kind, "1.0"), x)
        none = e.binary("fcmp ueq", kind, x, e.all(kind, "0.0"))
        return e.select(none, kind, x, unit)

    found["sign"] = Code(one, kind, sign)
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
    found["neg"] = Code(
        one, kind, lambda e, x: e.binary("sub", kind, e.all(kind, 0), x)
    )
    found["not"] = Code(
        one, kind, lambda e, x: e.binary("xor", kind, x, e.all(kind, -1))
    )
    found["max"] = Code(two, kind, _greater(f"{letter}gt", kind))
    found["min"] = Code(two, kind, _greater(f"{letter}lt", kind))
    found["shl"] = Code(two, kind, _shift("shl", kind))
    found["shr"] = Code(two, kind, _shift("lshr", kind))
    found["sar"] = Code(two, kind, _shift("ashr" if signed else "lshr", kind))
    found["div"] = Code(two, kind, _divide(kind, signed, False))
    found["rem"] = Code(two, kind, _divide(kind, signed, True))
    if signed:

        def absolute(e: Lanes, x: str) -> str:
            low = e.binary("icmp slt", kind, x, e.all(kind, 0))
            less = e.binary("sub", kind, e.all(kind, 0), x)
            return e.select(low, kind, less, x)

        found["abs"] = Code(one, kind, absolute)
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
    found["not"] = Code(
        ("i8",), "i8", lambda e, x: e.binary("xor", "i8", x, e.all("i8", 1))
    )
    return {f"{name}_bool": code for name, code in found.items()}


def _selects() -> dict[str, Code]:
    found: dict[str, Code] = {}
    for dtype, kind in _KINDS.items():

        def make(e: Lanes, c: str, x: str, y: str, kind: str = kind) -> str:
            chosen = e.binary("icmp ne", "i8", c, e.all("i8", 0))
            return e.select(chosen, kind, x, y)

        found[f"select_{dtype}"] = Code(("i8", kind, kind), kind, make)
        found[f"copy_{dtype}"] = Code((kind,), kind, lambda e, x: x)
    return found


def _cast(source: str, target: str) -> Make:
    """Floats saturate as integers, and NaN is 0; anything but 0 is true."""
    low, high = _KINDS[source], _KINDS[target]
    of_float, to_float = source in _FLOATS, target in _FLOATS

    def make(e: Lanes, x: str) -> str:
        if target == "bool":
            code, zero = ("fcmp une", "0.0") if of_float else ("icmp ne", "0")
            truth = e.binary(code, low, x, e.all(low, zero))
            return e.cast("zext", "i1", truth, "i8")
        if of_float and to_float:
            wider = _WIDTHS[high] > _WIDTHS[low]
            return e.cast("fpext" if wider else "fptrunc", low, x, high)
        if of_float:
            name = "fptosi.sat" if target in _SIGNED else "fptoui.sat"
            return e.call(name, high, low, x)
        signed = source in _SIGNED
        if to_float:
            return e.cast("sitofp" if signed else "uitofp", low, x, high)
        if _WIDTHS[high] == _WIDTHS[low]:
            return x
        if _WIDTHS[high] < _WIDTHS[low]:
            return e.cast("trunc", low, x, high)
        return e.cast("sext" if signed else "zext", low, x, high)

    return make


def _all_codes() -> dict[str, Code]:
    found = _truths() | _selects()
    for dtype, kind in _FLOATS.items():
        found |= _floats(dtype, kind)
    for dtype, kind in _SIGNED.items():
        found |= _integers(dtype, kind, True)
    for dtype, kind in _UNSIGNED.items():
        found |= _integers(dtype, kind, False)
    for source in _KINDS:
        for target in _KINDS:
            if source != target:
                code = Code((_KINDS[source],), _KINDS[target], _cast(source, target))
                found[f"cast_{source}_{target}"] = code
    return found


CODES = _all_codes()


def loop_name(
    name: str, operands: Sequence[np.dtype[np.generic]], result: np.dtype[np.generic]
) -> str | None:
    """The loop of a primitive for such operands; None if there is none."""
    if name == "cast":
        found = f"cast_{operands[0].name}_{result.name}"
        if operands[0] == result:
            found = f"copy_{result.name}"
    else:
        found = f"{name}_{operands[-1].name}"
    return found if found in CODES else None


def exported(name: str) -> str:
    """The name of the function of a loop."""
    return f"elements_{name}"


def loops_text(names: Sequence[str]) -> str:
    """The functions of some loops."""
    declared: set[str] = set()
    bodies = [_loop(exported(name), CODES[name], declared).text for name in names]
    return "".join(sorted(declared)) + "".join(bodies)


_SIDES = ("left", "right", "third")


def _loop(name: str, code: Code, declared: set[str]) -> Function:
    sides = [f"ptr %{side}, i64 %from_{side}" for side in _SIDES]
    f = Function(name, "void", "ptr noalias %out", *sides, "i64 %count", visible=True)
    whole = f.let(f"udiv i64 %count, {LANES}")
    done = f.let(f"mul i64 {whole}, {LANES}")
    with f.repeat(whole) as i:
        _compute(f, code, f.let(f"mul i64 {i}, {LANES}"), LANES, declared)
    with f.repeat("%count", done) as i:
        _compute(f, code, i, 1, declared)
    f.give()
    return f


def _compute(
    f: Function, code: Code, index: str, lanes: int, declared: set[str]
) -> None:
    """So many elements from an index on."""
    e = Lanes(f, lanes)
    values: list[str] = []
    for side, kind in zip(_SIDES, code.operands, strict=False):
        place = f.let(f"mul i64 {index}, %from_{side}")
        place = f.let(f"getelementptr {kind}, ptr %{side}, i64 {place}")
        values.append(f.let(f"load {e.many(kind)}, ptr {place}, align {_WIDTHS[kind]}"))
    value = code.make(e, *values)
    place = f.let(f"getelementptr {code.result}, ptr %out, i64 {index}")
    wide, align = e.many(code.result), _WIDTHS[code.result]
    f.do(f"store {wide} {value}, ptr {place}, align {align}")
    declared |= e.declared
