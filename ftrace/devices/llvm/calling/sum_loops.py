"""Sums along axes of row-major arrays as loops, with the bits of those of NumPy.

An array is seen as x[outer, terms, inner]: see `ftrace.trace.primitives.sums`.

    rows      inner = 1: eight totals side by side of up to 128 terms, then pairs
    columns   each row is added to the one before; of many, parts first
    running   the totals after each of the terms; of float32 in float64, rounded once

They are loops of the kind that `element_loops.py` has: the left operand is the array,
the right one a `Plan`. NumPy promises no order in which it adds: what is compiled here
is compared with it once, and not used where it differs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ftrace.devices.llvm.calling.lanes import WIDTHS
from ftrace.devices.llvm.compiling.compile import emit_object, link
from ftrace.devices.llvm.runner.function import Function, View
from ftrace.devices.llvm.runner.records import Word
from ftrace.records import NamedTuple
from ftrace.trace.primitives.host.running import running_sum
from ftrace.trace.primitives.sums import Cut, cut_of, sum_along

KINDS = {
    "float32": "float", "float64": "double", "int32": "i32", "uint32": "i32",
    "int64": "i64", "uint64": "i64",
}  # fmt: skip
ROWS, COLUMNS, RUNNING = "rows", "columns", "running"
#: Bytes of the totals of parts: all sums share the memory for them.
ROOM = 1 << 18
#: Terms that NumPy adds to so many totals side by side.
_TERMS, _TOTALS = 128, 8
#: Bytes of columns that are added to side by side here.
_WIDE = 512


class Plan(NamedTuple):
    """What a loop needs to know besides how many sums lie outside: see `Cut`.

    Attributes:
      room: memory for the totals of parts.
    """

    terms: Word
    inner: Word
    parts: Word
    each: Word
    room: Word


class SumLoops:
    """The loops: those of a kind of number are compiled when one is asked for."""

    def __init__(self) -> None:
        self._addresses: dict[str, int] = {}
        self._room = np.zeros(ROOM // 8, np.int64)
        self._kept: list[Any] = []

    def address(self, loop: str, dtype: Any) -> int:
        """Where a loop is; 0 where NumPy adds in another order."""
        kind = KINDS[dtype.name]
        if _exported(loop, kind) not in self._addresses:
            names = [_exported(name, kind) for name in (ROWS, COLUMNS, RUNNING)]
            code = link(emit_object(_text(kind)), names)
            self._kept.append(code)
            self._addresses.update({name: code.address(name) for name in names})
            if not self._agree(dtype):
                self._addresses.update(dict.fromkeys(names, 0))
        return self._addresses[_exported(loop, kind)]

    def plan(self, cut: Cut) -> Plan:
        return Plan(*cut[1:], self._room.ctypes.data)

    def _agree(self, dtype: Any) -> bool:
        """Are the bits of some sums those of NumPy?"""
        for shape, axes in _TRIED:
            x = _numbers(shape, dtype)
            cut = cut_of(shape, axes, x.dtype)
            assert cut is not None, "it is as simple as that"
            made = self._done(ROWS if cut.inner == 1 else COLUMNS, x, cut, cut.inner)
            if made.tobytes() != sum_along(x, axes, x.dtype).tobytes():
                return False
        x = _numbers((4, 6, 35), dtype)
        made = self._done(RUNNING, x, Cut(*x.shape), x[0].size)
        return made.tobytes() == running_sum(x, 1).tobytes()

    def _done(self, loop: str, x: Any, cut: Cut, results: int) -> Any:
        out = np.empty(cut.outer * results, x.dtype)
        plan: Any = np.array(self.plan(cut), np.int64)
        operand = ctypes.c_void_p, ctypes.c_int64
        types = [ctypes.c_void_p, *operand * 3, ctypes.c_int64]
        function: Any = ctypes.CFUNCTYPE(None, *types)(self.address(loop, x.dtype))
        words = plan.ctypes.data, 0
        function(out.ctypes.data, x.ctypes.data, 1, *words, *words, cut.outer)
        return out


def _numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    numbers: Any = np.sin(np.arange(prod(shape)))
    return numbers.astype(dtype).reshape(shape)


#: Sums of each kind, by which loops are compared with NumPy.
_TRIED = (
    ((500,), (0,)), ((5000,), (0,)), ((3, 7), (1,)), ((3, 4, 5, 5), (2, 3)),
    ((2, 300), (1,)), ((20, 70), (0,)), ((3, 9, 7), (1,)), ((100, 3, 2), (0,)),
    ((4, 5, 11), (0, 1)), ((333, 100), (0,)), ((2, 1500, 24), (1,)),
)  # fmt: skip


def _exported(loop: str, kind: str) -> str:
    return f"sum_{loop}_{kind}"


def _text(kind: str) -> str:
    functions = (
        _finished(kind), _paired(kind), _added(kind), _rows(kind), _columns(kind),
        _running(kind),
    )  # fmt: skip
    return "".join(f.text for f in functions)


class _Sums(Function):
    """A function of elements of one kind."""

    def __init__(
        self, kind: str, name: str, result: str, *given: str, visible: bool = False
    ) -> None:
        super().__init__(name, result, *given, visible=visible)
        self.kind = kind
        self.eight = f"<{_TOTALS} x {kind}>"
        self._plus = "fadd" if kind in ("float", "double") else "add"

    def zero(self, lanes: int = 1) -> str:
        none = "0.0" if self._plus == "fadd" else "0"
        return none if lanes == 1 else "zeroinitializer"

    def wide(self, lanes: int) -> str:
        return self.kind if lanes == 1 else f"<{lanes} x {self.kind}>"

    def element(self, array: str, index: str | int) -> str:
        """The address of an element."""
        return self.let(f"getelementptr {self.kind}, ptr {array}, i64 {index}")

    def read(self, address: str, lanes: int = 1) -> str:
        align = WIDTHS[self.kind]
        return self.let(f"load {self.wide(lanes)}, ptr {address}, align {align}")

    def write(self, value: str, address: str, lanes: int = 1) -> None:
        align = WIDTHS[self.kind]
        self.do(f"store {self.wide(lanes)} {value}, ptr {address}, align {align}")

    def sum(self, x: str, y: str, wide: str = "") -> str:
        return self.let(f"{self._plus} {wide or self.kind} {x}, {y}")

    def times(self, x: str | int, y: str | int) -> str:
        return self.let(f"mul i64 {x}, {y}")


def _loop(kind: str, loop: str) -> tuple[_Sums, View]:
    """A function of the parameters that all loops have, and its plan."""
    sides = [f"ptr %{x}, i64 %from_{x}" for x in ("left", "right", "third")]
    given = ("ptr noalias %out", *sides, "i64 %outer")
    f = _Sums(kind, _exported(loop, kind), "void", *given, visible=True)
    return f, f.view("%right", Plan)


def _one_by_one(f: _Sums, total: str, stop: str, start: str | int) -> str:
    with f.fold(stop, [(f.kind, total)], start) as fold:
        term = f.read(f.element("%x", fold.index))
        fold.following = [f.sum(fold.values[0], term)]
    return fold.values[0]


def _finished(kind: str) -> _Sums:
    """Eight totals of the first terms side by side, and all others."""
    eight = f"<{_TOTALS} x {kind}>"
    given = f"{eight} %totals", "ptr %x", "i64 %done", "i64 %terms"
    f = _Sums(kind, f"finished_{kind}", kind, *given)
    blocks = f.let(f"udiv i64 %terms, {_TOTALS}")
    with f.fold(blocks, [(eight, "%totals")], "%done") as fold:
        terms = f.read(f.element("%x", f.times(fold.index, _TOTALS)), _TOTALS)
        fold.following = [f.sum(fold.values[0], terms, eight)]
    lanes, sums = _TOTALS, fold.values[0]
    while lanes > 1:
        wide, half = f"<{lanes} x {kind}>", f"<{lanes // 2} x i32>"
        sides: list[str] = []
        for side in (0, 1):
            places = ", ".join(f"i32 {i}" for i in range(side, lanes, 2))
            pair = f"{wide} {sums}, {wide} poison"
            sides.append(f.let(f"shufflevector {pair}, {half} <{places}>"))
        lanes //= 2
        sums = f.sum(sides[0], sides[1], f"<{lanes} x {kind}>")
    total = f.let(f"extractelement <1 x {kind}> {sums}, i64 0")
    f.give(_one_by_one(f, total, "%terms", f.times(blocks, _TOTALS)))
    return f


def _paired(kind: str) -> _Sums:
    """The sum of terms side by side: by halves, those of up to `_TERMS` at once.

    Two or four of these go side by side, for an addition waits for the one before.
    """
    f = _Sums(kind, f"paired_{kind}", kind, "ptr %x", "i64 %terms")

    def halves(terms: str) -> tuple[str, str]:
        half = f.let(f"and i64 {f.let(f'lshr i64 {terms}, 1')}, {-_TOTALS}")
        return half, f.let(f"sub i64 {terms}, {half}")

    def at_once(parts: list[tuple[str, str]]) -> list[str]:
        """Sums of so many terms from a place on, of which the first are the fewest."""
        firsts = [(f.eight, f.read(x, _TOTALS)) for x, _ in parts]
        with f.fold(f.let(f"udiv i64 {parts[0][1]}, {_TOTALS}"), firsts, 1) as fold:
            place = f.times(fold.index, _TOTALS)
            terms = [f.read(f.element(x, place), _TOTALS) for x, _ in parts]
            pairs = zip(fold.values, terms, strict=True)
            fold.following = [f.sum(*pair, f.eight) for pair in pairs]
        done = f.let(f"udiv i64 {parts[0][1]}, {_TOTALS}")
        return [
            f.let(
                f"call {kind} @finished_{kind}({f.eight} {total}, ptr {x}, "
                f"i64 {done}, i64 {terms})"
            )
            for total, (x, terms) in zip(fold.values, parts, strict=True)
        ]

    def is_most(terms: str, most: int) -> str:
        return f.let(f"icmp ule i64 {terms}, {most}")

    with f.when(is_most("%terms", _TOTALS - 1)):
        f.give(_one_by_one(f, f.zero(), "%terms", 0))
    with f.when(is_most("%terms", _TERMS)):
        f.give(at_once([("%x", "%terms")])[0])
    left, right = halves("%terms")
    behind = f.element("%x", left)
    with f.when(is_most(right, _TERMS)):
        f.give(f.sum(*at_once([("%x", left), (behind, right)])))
    quarters = [halves(left), halves(right)]
    four = f.let(f"icmp ugt i64 {left}, {_TERMS}")
    for _, second in quarters:
        four = f.let(f"and i1 {four}, {is_most(second, _TERMS)}")
    with f.when(four):
        parts: list[tuple[str, str]] = []
        for x, (first, second) in zip(("%x", behind), quarters, strict=True):
            parts += [(x, first), (f.element(x, first), second)]
        a, b, c, d = at_once(parts)
        f.give(f.sum(f.sum(a, b), f.sum(c, d)))
    sums = [
        f.let(f"call {kind} @paired_{kind}(ptr {x}, i64 {terms})")
        for x, terms in (("%x", left), (behind, right))
    ]
    f.give(f.sum(*sums))
    return f


def _rows(kind: str) -> _Sums:
    f, plan = _loop(kind, ROWS)
    terms = plan.number("terms")
    with f.repeat("%outer") as i:
        operands = f"ptr {f.element('%left', f.times(i, terms))}, i64 {terms}"
        found = f.let(f"call {kind} @paired_{kind}({operands})")
        f.write(f.sum(f.zero(), found), f.element("%out", i))
    f.give()
    return f


def _side_by_side(
    f: _Sums, width: str, many: int, body: Callable[[str, int], None]
) -> None:
    """Some columns at a time, and a few twice: `body(the first, how many)`."""
    few = _TOTALS
    blocks = f.let(f"udiv i64 {width}, {many}")
    with f.repeat(blocks) as i:
        body(f.times(i, many), many)
    done = f.times(blocks, many)
    left = f.let(f"sub i64 {width}, {done}")
    with f.repeat(f.let(f"udiv i64 {left}, {few}")) as i:
        body(f.let(f"add i64 {done}, {f.times(i, few)}"), few)
    is_narrow = f.let(f"icmp ult i64 {width}, {few}")
    with f.repeat(f.let(f"select i1 {is_narrow}, i64 {width}, i64 0")) as i:
        body(i, 1)
    rest = f.let(f"icmp ne i64 {f.let(f'and i64 {width}, {few - 1}')}, 0")
    with f.when(f.let(f"and i1 {rest}, {f.let(f'xor i1 {is_narrow}, true')}")):
        body(f.let(f"sub i64 {width}, {few}"), few)


def _added(kind: str) -> _Sums:
    """The sum of rows: a row."""
    given = "ptr noalias %out", "ptr %x", "i64 %terms", "i64 %width"
    f = _Sums(kind, f"added_{kind}", "void", *given)

    def columns(first: str, lanes: int) -> None:
        start = [(f.wide(lanes), f.zero(lanes))]
        with f.fold("%terms", start) as fold:
            place = f.let(f"add i64 {f.times(fold.index, '%width')}, {first}")
            row = f.read(f.element("%x", place), lanes)
            fold.following = [f.sum(fold.values[0], row, f.wide(lanes))]
        f.write(fold.values[0], f.element("%out", first), lanes)

    _side_by_side(f, "%width", _WIDE // WIDTHS[kind], columns)
    f.give()
    return f


def _columns(kind: str) -> _Sums:
    f, plan = _loop(kind, COLUMNS)
    terms, inner = plan.number("terms"), plan.number("inner")
    parts, each, room = plan.number("parts"), plan.number("each"), plan.pointer("room")
    size = f.times(terms, inner)

    def add(out: str, x: str, terms: str, width: str) -> None:
        operands = f"ptr {out}, ptr {x}, i64 {terms}, i64 {width}"
        f.do(f"call void @added_{kind}({operands})")

    with f.when(f.let(f"icmp eq i64 {parts}, 0")):
        with f.repeat("%outer") as i:
            x = f.element("%left", f.times(i, size))
            add(f.element("%out", f.times(i, inner)), x, terms, inner)
        f.give()
    inside = f.let(f"udiv i64 {terms}, {parts}")
    width = f.times(each, inner)
    of_part = f.times(inside, width)
    used = f.times(f.times(inside, parts), inner)
    left = f.let(f"sub i64 {size}, {used}")
    with f.repeat("%outer") as i:
        x = f.element("%left", f.times(i, size))
        with f.repeat(f.let(f"udiv i64 {parts}, {each}")) as k:
            part = f.element(x, f.times(k, of_part))
            add(f.element(room, f.times(k, width)), part, inside, width)
        rest = f.element(x, used)
        with f.repeat(left) as j:
            total = f.element(room, j)
            f.write(f.sum(f.read(total), f.read(f.element(rest, j))), total)
        add(f.element("%out", f.times(i, inner)), room, parts, inner)
    f.give()
    return f


def _running(kind: str) -> _Sums:
    f, plan = _loop(kind, RUNNING)
    terms, inner = plan.number("terms"), plan.number("inner")
    size = f.times(terms, inner)
    exact = "double" if kind == "float" else kind

    def columns(first: str, lanes: int) -> None:
        few = f.wide(lanes)
        wide = exact if lanes == 1 else f"<{lanes} x {exact}>"
        with f.fold(terms, [(wide, f.zero(lanes))]) as fold:
            place = f.let(f"add i64 {f.times(fold.index, inner)}, {first}")
            value = f.read(f.element(x, place), lanes)
            if exact != kind:
                value = f.let(f"fpext {few} {value} to {wide}")
            fold.following = [f.sum(fold.values[0], value, wide)]
            value = fold.following[0]
            if exact != kind:
                value = f.let(f"fptrunc {wide} {value} to {few}")
            f.write(value, f.element(out, place), lanes)

    with f.repeat("%outer") as i:
        start = f.times(i, size)
        x, out = f.element("%left", start), f.element("%out", start)
        _side_by_side(f, inner, _WIDE // WIDTHS[exact], columns)
    f.give()
    return f
