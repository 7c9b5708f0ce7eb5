"""The loops that do operations of NumPy: what each does to a few elements.

Only operations whose results are fixed to the bit: by IEEE 754, by two's complement, or
by our own meaning of a primitive (`trace.primitives.meanings`).

Loops go by the kinds of LLVM: those of int32 and uint32 are one where the bits are the
same. Each is a module of its own, which is compiled when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.llvm.calling.lanes import (
    FLOATS,
    INFINITY,
    LANES,
    WIDTHS,
    Body,
    Code,
    Lanes,
    intrinsic,
    one,
    with_constant,
)
from ftrace.devices.llvm.runner.function import Function

#: Operands at the most.
ARITY = 3

_INTEGERS = ("i32", "i64")
#: Of floats: the bit of the sign, and what has their bits.
_MASKS = {"float": (1 << 31, "i32"), "double": (1 << 63, "i64")}
_COMPARISONS = {
    "equal": ("oeq", "eq"), "not_equal": ("une", "ne"), "less": ("olt", "slt"),
    "less_equal": ("ole", "sle"), "greater": ("ogt", "sgt"),
    "greater_equal": ("oge", "sge"),
}  # fmt: skip


def _two(code: str, kind: str) -> Code:
    return Code((kind, kind), kind, one(code, kind))


def _floats(kind: str) -> dict[str, Code]:
    found = {
        name: _two(f"f{code}", kind)
        for name, code in (
            ("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "div"),
        )
    }  # fmt: skip
    found["negative"] = Code((kind,), kind, one("fneg", kind))
    for name, code in (("absolute", "fabs"), ("sqrt", "sqrt")):
        found[name] = Code((kind,), kind, intrinsic(code, kind, kind))
    for name, (code, _) in _COMPARISONS.items():
        found[name] = Code((kind, kind), "i1", one(f"fcmp {code}", kind))
    found["maximum"] = Code((kind, kind), kind, _extremum("ogt", "and", kind))
    found["minimum"] = Code((kind, kind), kind, _extremum("olt", "or", kind))
    found["sign"] = Code((kind,), kind, _sign(kind))
    found["isfinite"] = Code((kind,), "i1", _is_finite(kind))
    return {f"{name}_{kind}": code for name, code in found.items()}


def _is_finite(kind: str) -> Body:
    def body(v: Lanes, given: Sequence[str]) -> str:
        infinity = v.all(kind, INFINITY)
        return v.op("fcmp olt", kind, v.call("fabs", kind, (kind, given[0])), infinity)

    return body


def _extremum(compared: str, zeros: str, kind: str) -> Body:
    """NaN wins; of zeros the positive one is the greater: see `extrema`."""
    bits = _MASKS[kind][1]

    def body(v: Lanes, given: Sequence[str]) -> str:
        x, y = given
        first = v.op(f"fcmp {compared}", kind, x, y)
        found = v.select(kind, first, x, y)
        left, right = (v.cast("bitcast", kind, bits, z) for z in (x, y))
        both = v.cast("bitcast", bits, kind, v.op(zeros, bits, left, right))
        found = v.select(kind, v.op("fcmp oeq", kind, x, y), both, found)
        missing = v.op("fcmp uno", kind, x, y)
        return v.select(kind, missing, v.op("fadd", kind, x, y), found)

    return body


def _sign(kind: str) -> Body:
    """-1 or 1; zeros and NaN are themselves."""
    mask, bits = _MASKS[kind]
    one = {"float": 0x3F800000, "double": 0x3FF0000000000000}[kind]

    def body(v: Lanes, given: Sequence[str]) -> str:
        (x,) = given
        sign = v.op("and", bits, v.cast("bitcast", kind, bits, x), v.all(bits, mask))
        signed = v.op("or", bits, sign, v.all(bits, one))
        some = v.op("fcmp one", kind, x, v.all(kind, "0.0"))
        return v.select(kind, some, v.cast("bitcast", bits, kind, signed), x)

    return body


def _integers(kind: str) -> dict[str, Code]:
    width = 8 * WIDTHS[kind]
    found = {
        name: _two(code, kind)
        for name, code in (
            ("add", "add"), ("subtract", "sub"), ("multiply", "mul"),
            ("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor"),
        )
    }  # fmt: skip
    found["negative"] = Code((kind,), kind, with_constant("sub", kind, first=0))
    found["invert"] = Code((kind,), kind, with_constant("xor", kind, last=-1))
    for name, (_, code) in _COMPARISONS.items():
        found[name] = Code((kind, kind), "i1", one(f"icmp {code}", kind))
    for name, code in (("maximum", "sgt"), ("minimum", "slt")):
        found[name] = Code((kind, kind), kind, _chosen(f"icmp {code}", kind))
    found["absolute"] = Code((kind,), kind, _absolute(kind))
    found["sign"] = Code((kind,), kind, _sign_of_integers(kind))
    found["shift_left"] = Code((kind, kind), kind, _shifted("shl", kind, width))
    found["shift_right_logical"] = Code(
        (kind, kind), kind, _shifted("lshr", kind, width)
    )
    found["shift_right_arithmetic"] = Code(
        (kind, kind), kind, _shifted_arithmetic(kind, width)
    )
    found["divide"] = Code((kind, kind), kind, _quotient(kind, width), False)
    found["remainder"] = Code((kind, kind), kind, _remainder(kind), False)
    return {f"{name}_{kind}": code for name, code in found.items()}


def _chosen(code: str, kind: str) -> Body:
    return lambda v, given: v.select(kind, v.op(code, kind, *given), *given)


def _absolute(kind: str) -> Body:
    def body(v: Lanes, given: Sequence[str]) -> str:
        (x,) = given
        zero = v.all(kind, 0)
        return v.select(
            kind, v.op("icmp slt", kind, x, zero), v.op("sub", kind, zero, x), x
        )

    return body


def _sign_of_integers(kind: str) -> Body:
    def body(v: Lanes, given: Sequence[str]) -> str:
        (x,) = given
        zero = v.all(kind, 0)
        above = v.cast("zext", "i1", kind, v.op("icmp sgt", kind, x, zero))
        below = v.cast("zext", "i1", kind, v.op("icmp slt", kind, x, zero))
        return v.op("sub", kind, above, below)

    return body


def _shifted(code: str, kind: str, width: int) -> Body:
    """Shifts by the width or more, or by less than 0, give 0."""

    def body(v: Lanes, given: Sequence[str]) -> str:
        x, n = given
        inside = v.op("icmp ult", kind, n, v.all(kind, width))
        safe = v.select(kind, inside, n, v.all(kind, 0))
        return v.select(kind, inside, v.op(code, kind, x, safe), v.all(kind, 0))

    return body


def _shifted_arithmetic(kind: str, width: int) -> Body:
    """Such shifts give the sign."""

    def body(v: Lanes, given: Sequence[str]) -> str:
        x, n = given
        inside = v.op("icmp ult", kind, n, v.all(kind, width))
        safe = v.select(kind, inside, n, v.all(kind, width - 1))
        return v.op("ashr", kind, x, safe)

    return body


def _quotient(kind: str, width: int) -> Body:
    """It truncates; x/0 is -1, and the least number / -1 is itself."""

    def body(v: Lanes, given: Sequence[str]) -> str:
        x, y = given
        none = v.op("icmp eq", kind, y, "0")
        least = v.op("icmp eq", kind, x, str(-(1 << (width - 1))))
        beyond = v.op("and", "i1", least, v.op("icmp eq", kind, y, "-1"))
        safe = v.select(kind, v.op("or", "i1", none, beyond), "1", y)
        return v.select(kind, none, "-1", v.op("sdiv", kind, x, safe))

    return body


def _remainder(kind: str) -> Body:
    """It has the sign of x, which it is itself for y = 0."""

    def body(v: Lanes, given: Sequence[str]) -> str:
        x, y = given
        none = v.op("icmp eq", kind, y, "0")
        simple = v.op("or", "i1", none, v.op("icmp eq", kind, y, "-1"))
        safe = v.select(kind, simple, "1", y)
        return v.select(kind, none, x, v.op("srem", kind, x, safe))

    return body


def _truths() -> dict[str, Code]:
    """Operations on bytes that are 0 or 1."""
    kind = "i8"
    found = {
        f"{name}_i1": _two(code, kind)
        for name, code in (
            ("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor"),
            ("not_equal", "xor"),
        )
    }  # fmt: skip
    found["invert_i1"] = Code((kind,), kind, with_constant("xor", kind, last=1))
    return found


def _chooses(kind: str) -> Code:
    def body(v: Lanes, given: Sequence[str]) -> str:
        here, x, y = given
        return v.select(kind, v.op("icmp ne", "i8", here, v.all("i8", 0)), x, y)

    return Code(("i8", kind, kind), kind, body)


#: Casts by the kinds of what they take and make. Truth values are bytes.
_CASTS = {
    ("i8", "float"): "uitofp", ("i8", "double"): "uitofp", ("i8", "i32"): "zext",
    ("i8", "i64"): "zext", ("i32", "float"): "sitofp", ("i32", "double"): "sitofp",
    ("i64", "float"): "sitofp", ("i64", "double"): "sitofp",
    ("float", "double"): "fpext", ("double", "float"): "fptrunc",
    ("i32", "i64"): "sext", ("i64", "i32"): "trunc",
}  # fmt: skip


def _cast(code: str, source: str, target: str) -> Body:
    return lambda v, given: v.cast(code, source, target, given[0])


def _casts() -> dict[str, Code]:
    found = {
        f"cast_{source}_{target}": Code((source,), target, _cast(code, source, target))
        for (source, target), code in _CASTS.items()
    }
    for kind in FLOATS:
        saturated = intrinsic("fptosi.sat", kind, "i32")
        found[f"cast_{kind}_i32"] = Code((kind,), "i32", saturated)
        is_some = with_constant("fcmp une", kind, last="0.0")
        found[f"cast_{kind}_i1"] = Code((kind,), "i1", is_some)
    for kind in _INTEGERS:
        is_some = with_constant("icmp ne", kind, last=0)
        found[f"cast_{kind}_i1"] = Code((kind,), "i1", is_some)
    return found


def _same(v: Lanes, given: Sequence[str]) -> str:
    return given[0]


def _codes() -> dict[str, Code]:
    """All loops by name."""
    found: dict[str, Code] = {}
    for kind in FLOATS:
        found |= _floats(kind)
    for kind in _INTEGERS:
        found |= _integers(kind)
    found |= _truths() | _casts()
    for kind in ("i8", *_INTEGERS):
        found[f"where_{kind}"] = _chooses(kind)
        found[f"copy_{kind}"] = Code((kind,), kind, _same)
    return found


CODES = _codes()


def arity_of(name: str) -> int:
    """How many operands a loop has."""
    return len(CODES[name].operands)


def exported(name: str) -> str:
    """The name of the function of a loop."""
    return f"loop_{name}"


def loop_ir(name: str) -> str:
    """The module of a loop."""
    declared: dict[str, None] = {}
    text = _loop(exported(name), CODES[name], declared).text
    return "".join(declared) + text


def _loop(name: str, code: Code, declared: dict[str, None]) -> Function:
    parameters = ["ptr noalias %out"]
    for i in range(ARITY):
        parameters += [f"ptr %data{i}", f"i64 %step{i}"]
    f = Function(name, "void", *parameters, "i64 %count", visible=True)
    done: str | int = 0
    if code.side_by_side:
        whole = f.let(f"udiv i64 %count, {LANES}")
        done = f.let(f"mul i64 {whole}, {LANES}")
        with f.repeat(whole) as i:
            _compute(f, code, f.let(f"mul i64 {i}, {LANES}"), LANES, declared)
    with f.repeat("%count", done) as i:
        _compute(f, code, i, 1, declared)
    f.give()
    return f


def _compute(
    f: Function, code: Code, index: str, lanes: int, declared: dict[str, None]
) -> None:
    """So many elements from an index on."""
    v = Lanes(f, lanes)
    operands: list[str] = []
    for i, kind in enumerate(code.operands):
        place = f.let(f"mul i64 {index}, %step{i}")
        place = f.let(f"getelementptr {kind}, ptr %data{i}, i64 {place}")
        operands.append(f.let(f"load {v.of(kind)}, ptr {place}, align {WIDTHS[kind]}"))
    value, made = code.body(v, operands), code.made
    if made == "i1":
        value, made = v.cast("zext", "i1", "i8", value), "i8"
    place = f.let(f"getelementptr {made}, ptr %out, i64 {index}")
    f.do(f"store {v.of(made)} {value}, ptr {place}, align {WIDTHS[made]}")
    declared |= v.declared


def loop_names() -> Sequence[str]:
    """Of each loop: the operation and the kind of its operands."""
    return list(CODES)
