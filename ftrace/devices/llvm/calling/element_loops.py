"""Operations on elements as loops over memory, compiled when they are first asked for.

A loop takes three operands, whether it needs them or not:

    loop(out, left, its step, right, its step, third, its step, how many elements)

A step is 1, or 0 where one number stands for all; of that there are `LANES` copies.
Steps that stand alone (`loops.py`) and those of chains (`chains.py`) share the code.
What each does to an element is said in `elements.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ftrace.devices.llvm.calling.elements import CODES, Code
from ftrace.devices.llvm.calling.lanes import LANES, WIDTHS, Lanes
from ftrace.devices.llvm.compiling.compile import Code as Linked
from ftrace.devices.llvm.compiling.compile import emit_object, link
from ftrace.devices.llvm.runner.function import Function

_SIDES = ("left", "right", "third")
#: Operands of a loop.
ARITY = len(_SIDES)


class ElementLoops:
    """The loops that are compiled, by their names in `CODES`."""

    def __init__(self) -> None:
        self._addresses: dict[str, int] = {}
        self._kept: list[Linked] = []

    def address(self, name: str) -> int:
        """Where a loop is."""
        if name not in self._addresses:
            self.load((name,))
        return self._addresses[name]

    def take(self, loops: Mapping[str, int]) -> None:
        """Others, that somebody else keeps."""
        self._addresses.update(loops)

    def load(self, names: Iterable[str]) -> None:
        """Compiles those that are missing, as one module."""
        missing = sorted(set(names).difference(self._addresses))
        if not missing:
            return
        functions = [_exported(name) for name in missing]
        code = link(emit_object(loops_text(missing)), functions)
        self._kept.append(code)
        for name, function in zip(missing, functions, strict=True):
            self._addresses[name] = code.address(function)


def _exported(name: str) -> str:
    return f"elements_{name}"


def loops_text(names: Sequence[str]) -> str:
    """The functions of some loops."""
    declared: dict[str, None] = {}
    bodies = [_loop(_exported(name), CODES[name], declared).text for name in names]
    return "".join(sorted(declared)) + "".join(bodies)


def _loop(name: str, code: Code, declared: dict[str, None]) -> Function:
    sides = [f"ptr %{side}, i64 %from_{side}" for side in _SIDES]
    f = Function(name, "void", "ptr noalias %out", *sides, "i64 %count", visible=True)
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
    e = Lanes(f, lanes)
    values: list[str] = []
    for side, kind in zip(_SIDES, code.operands, strict=False):
        place = f.let(f"mul i64 {index}, %from_{side}")
        place = f.let(f"getelementptr {kind}, ptr %{side}, i64 {place}")
        values.append(f.let(f"load {e.of(kind)}, ptr {place}, align {WIDTHS[kind]}"))
    value = code.make(e, *values)
    place = f.let(f"getelementptr {code.result}, ptr %out, i64 {index}")
    wide, align = e.of(code.result), WIDTHS[code.result]
    f.do(f"store {wide} {value}, ptr {place}, align {align}")
    declared |= e.declared
