"""A function of LLVM IR while it is being written, and the types of its values.

The types are LLVM's for our dtypes, scalar or in vectors.

The body is a stack of open *levels*: the function, and each loop inside another. A
pure instruction stands in the outermost level where its operands exist, once: what
does not change in a loop is computed before it, and equal instructions are one. The
text of a level goes on growing while a loop inside it is open, and so comes before
that loop.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from functools import cache
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.ir.function_builder import Fold
from ftrace.ground.fast_dataclasses import dataclass


class Constant(str):
    """The text of a constant; every other text of a value is the name of a register.

    Attributes:
      value: the number, in every lane; None where lanes differ.
      lanes: the numbers of lanes that differ.
    """

    __slots__ = ("lanes", "value")
    value: Any
    lanes: tuple[Any, ...]

    @staticmethod
    def of(text: str, value: Any, lanes: tuple[Any, ...] = ()) -> Constant:
        found = Constant(text)
        found.value, found.lanes = value, lanes
        return found


def literal(value: int) -> Constant:
    """An index, or another integer."""
    return Constant.of(str(value), value)


@dataclass(frozen=True)
class Type:
    """The type of a value in registers.

    Attributes:
      element: LLVM's name of the type of one element.
      lanes: how many; 0 is a scalar.
      kind: 'b' bool, 'i' signed, 'u' unsigned, 'f' float.
      bits: of an element; a bool has 1.
      text: LLVM's name of the whole.
      suffix: how overloaded intrinsics name it.
      format: "half" or "bfloat": a float of 16 bits. LLVM gets them as integers: no
        arithmetic is done on them, and where a processor lacks them it would call
        functions to move them about.
    """

    element: str
    lanes: int
    kind: str
    bits: int
    text: str
    suffix: str
    format: str = ""

    @staticmethod
    def of(dtype: np.dtype[Any], lanes: int) -> Type:
        return _type_of(dtype, lanes)

    def with_lanes(self, lanes: int) -> Type:
        return _make(self.element, lanes, self.kind, self.bits, self.format)

    def mask(self) -> Type:
        """Of a comparison of two such values."""
        return _make("i1", self.lanes, "b", 1)

    def integer(self, kind: str = "i") -> Type:
        """The integer type of the same width."""
        return _make(f"i{self.bits}", self.lanes, kind, self.bits)

    def constant(self, value: Any) -> Constant:
        """A constant, in every lane."""
        one = _literal(self.format or self.element, value)
        return self.splat(one) if self.lanes else one

    def splat(self, one: Constant) -> Constant:
        """An element's constant in every lane."""
        return Constant.of(f"splat ({self.element} {one})", one.value)

    def lanewise(self, values: Sequence[Any]) -> Constant:
        """A vector constant with these values in its lanes."""
        form = self.format or self.element
        literals = [_literal(form, v) for v in values]
        text = ", ".join([f"{self.element} {x}" for x in literals])
        return Constant.of(f"<{text}>", None, tuple([x.value for x in literals]))

    @property
    def zero(self) -> Constant:
        zero = self.with_lanes(0).constant(0)
        return Constant.of("zeroinitializer", zero.value) if self.lanes else zero

    @property
    def bytes(self) -> int:
        """Of an element in memory."""
        return max(self.bits // 8, 1)

    def __str__(self) -> str:
        return self.text


@cache
def _make(element: str, lanes: int, kind: str, bits: int, format: str = "") -> Type:
    text = f"<{lanes} x {element}>" if lanes else element
    short = {"half": "f16", "float": "f32", "double": "f64"}
    suffix = (f"v{lanes}" if lanes else "") + short.get(element, element)
    return Type(element, lanes, kind, bits, text, suffix, format)


_FLOATS = {dtypes.float32: "float", dtypes.float64: "double"}
_FORMATS = {dtypes.float16: "half", dtypes.bfloat16: "bfloat"}


@cache
def _type_of(dtype: np.dtype[Any], lanes: int) -> Type:
    kind = dtypes.kind(dtype)
    bits = 1 if kind == "b" else 8 * dtype.itemsize
    element = _FLOATS.get(dtype, f"i{bits}")
    return _make(element, lanes, kind, bits, _FORMATS.get(dtype, ""))


def hardware_half(lanes: int) -> Type:
    """float16 as the processor's instructions take it."""
    return _make("half", lanes, "f", 16)


def index_type(lanes: int, narrow: bool) -> Type:
    """Of index arithmetic: in vectors with 32 bits where they are enough."""
    bits = 32 if narrow and lanes else 64
    return _make(f"i{bits}", lanes, "i", bits)


def mask_type(lanes: int) -> Type:
    return _make("i1", lanes, "b", 1)


def first_lanes(lanes: int, count: int) -> Constant:
    """A mask with the first `count` lanes on."""
    return mask_type(lanes).lanewise([lane < count for lane in range(lanes)])


def byte_type(lanes: int) -> Type:
    return _make("i8", lanes, "u", 8)


def _bits(scalar: np.ndarray[Any, Any]) -> int:
    """Those of a 16-bit float."""
    return int(np.frombuffer(scalar.tobytes(), np.int16)[0])


def _literal(element: str, value: Any) -> Constant:
    """Of an element."""
    if element == "i1":
        return Constant.of("true" if value else "false", bool(value))
    if element[0] == "i":
        bits = int(element[1:])
        wrapped = int(value) & ((1 << bits) - 1)
        return literal(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
    if element == "half":
        return literal(_bits(np.asarray(value, np.float16)))
    if element == "bfloat":
        return literal(_bits(np.asarray(value).astype(dtypes.bfloat16)))
    value = float(np.float32(value) if element == "float" else value)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return Constant.of(f"0x{bits:016X}", value)


# The function, level by level.

#: Of every kernel's function.
ARGUMENTS = "ptr %buffers, i64 %begin, i64 %end"
#: Of branches: registers are kept for what runs without them.
SELDOM = '!1 = !{!"branch_weights", i32 1, i32 2000}'


@dataclass(eq=False)
class Level:
    """An open block of the function.

    Attributes:
      depth: its place in the stack.
      first: the basic block in which it begins.
      label: the basic block in which it now ends.
      lines: what has been written into it.
      known: the pure instructions in it, and the names of their results.
      open: is it still on the stack?
    """

    depth: int
    first: str
    label: str
    lines: list[str] = field(default_factory=list[str])
    known: dict[str, str] = field(default_factory=dict[str, str])
    open: bool = True


class OpenLoop(Fold):
    """A loop that is being written.

    Attributes:
      again: is there another iteration? Where this is not said the index tells.
    """

    again: str = ""


@dataclass(eq=False)
class Branch:
    """A branch that is being written, and the one around it."""

    level: Level
    anchor: Level | None


class Writer:
    """Writes one function; see the module.

    Attributes:
      stack: the levels that are open.
      depth_of: the level at which a value exists; constants are not in it.
      anchor: the innermost branch: nothing is moved out of it.
      alignment: of the stack, in bytes; 0 is the platform's. What is kept there during
        a call must not cross cache lines: a store that does is slow to read again.
      nontemporal: are there non-temporal stores?
    """

    def __init__(self) -> None:
        self.stack = [Level(0, "entry", "entry")]
        self.depth_of: dict[str, int] = {}
        self.anchor: Level | None = None
        self.declared: dict[str, str] = {}
        self._called = set[str]()
        self.alignment = 0
        self._at_return: list[str] = []
        self.nontemporal = False
        self._count = 0

    @property
    def level(self) -> Level:
        """The innermost level that is open."""
        return self.stack[-1]

    def depth(self, value: str) -> int:
        """The level at which a value exists; 0 for constants."""
        return self.depth_of.get(value, 0)

    def declare(self, line: str, symbol: str = "") -> None:
        """Adds a line before the function: a declaration, a constant.

        Args:
          symbol: what it declares, if that is in `kernels/function_library.py`.
        """
        self.declared[line] = symbol

    def call(
        self,
        result: object,
        name: str,
        *operands: tuple[object, object],
        symbol: str = "",
    ) -> str:
        """The text of a call, whose function is declared; operands with their types."""
        if name not in self._called:
            self._called.add(name)
            kinds = ", ".join([f"{kind}" for kind, _ in operands])
            self.declare(f"declare {result} {name}({kinds})", symbol)
        given = ", ".join([f"{kind} {text}" for kind, text in operands])
        return f"call {result} {name}({given})"

    # Instructions.

    def pure(self, text: str, *operands: str) -> str:
        """The result of an instruction without effect, of these operands."""
        depth = 0
        depth_of = self.depth_of
        for operand in operands:
            found = depth_of.get(operand, 0)
            if found > depth:
                depth = found
        level = self.stack[depth]
        name = level.known.get(text)
        anchor = self.anchor
        if name is None and anchor is not None and depth < anchor.depth:
            level, depth = anchor, anchor.depth
            name = level.known.get(text)
        if name is None:
            self._count += 1
            name = f"%v{self._count}"
            level.known[text] = name
            level.lines.append(f"  {name} = {text}")
            if depth:
                depth_of[name] = depth
        return name

    def here(self, text: str) -> str:
        """The result of an instruction that must stand in the innermost level."""
        self._count += 1
        name = f"%v{self._count}"
        level = self.stack[-1]
        level.lines.append(f"  {name} = {text}")
        self.depth_of[name] = level.depth
        return name

    def memory(self, kind: str, name: str) -> str:
        """The address of memory of the function, had once and for all.

        Args:
          name: it may be used before the place where the memory is asked for.
        """
        self.stack[0].lines.insert(0, f"  {name} = alloca {kind}, align 64")
        return name

    def return_if(self, condition: str, *first: str) -> None:
        """Returns, where a condition holds, from a kernel's function.

        Args:
          first: what is done before.
        """
        out, on = f"stop{condition[2:]}", f"on{condition[2:]}"
        level = self.stack[-1]
        level.lines += [f"  br i1 {condition}, label %{out}, label %{on}", f"{out}:"]
        level.lines += [f"  {text}" for text in (*first, *self._at_return)]
        level.lines += ["  ret void", f"{on}:"]
        level.label = on

    def at_return(self, text: str) -> None:
        """An instruction without a result wherever the function returns from now on."""
        self._at_return.append(text)

    def effect(self, text: str) -> None:
        """An instruction without a result, in the innermost level."""
        self.stack[-1].lines.append("  " + text)

    def cut(self, value: str) -> None:
        """Begins another basic block behind a value.

        The code generator looks at blocks one by one: nothing is combined across.
        """
        depth = self.depth_of.get(value, 0)
        level, *inside = self.stack[depth:]
        # Scopes that are open in the block go on in the next one.
        scopes = [one for one in inside if one.first == level.label]
        if any(one.label != one.first for one in scopes):
            return  # and what they hold already names the block
        self._count += 1
        label = f"cut{self._count}"
        level.lines += [f"  br label %{label}", f"{label}:"]
        for one in scopes:
            one.first = one.label = label
        level.label = label

    # Levels.

    def open_scope(self) -> Level:
        """A level whose text becomes a part of the level around it."""
        outer = self.stack[-1]
        level = Level(outer.depth + 1, outer.label, outer.label)
        self.stack.append(level)
        return level

    def close_scope(self, results: Sequence[str] = ()) -> None:
        """What was computed in it stays; `results` are used after it."""
        level = self._pop()
        outer = self.stack[-1]
        outer.lines.extend(level.lines)
        outer.label = level.label
        for result in results:
            if self.depth_of.get(result, 0) > outer.depth:
                self.depth_of[result] = outer.depth

    def open_branch(self) -> Branch:
        """A level that runs under a condition only, and keeps all that it computes."""
        self._count += 1
        label = f"then{self._count}"
        level = Level(self.stack[-1].depth + 1, label, label)
        branch = Branch(level, self.anchor)
        self.stack.append(level)
        self.anchor = level
        return branch

    def close_branch(
        self, branch: Branch, condition: str, results: Sequence[tuple[str, str, str]]
    ) -> list[str]:
        """The values after the branch, which is seldom taken.

        Args:
          condition: runs it.
          results: the type, the value from the branch, and the value without it.
        """
        level = self._pop()
        self.anchor = branch.anchor
        outer = self.stack[-1]
        self._count += 1
        before, after, lines = outer.label, f"join{self._count}", outer.lines
        self.declare(SELDOM)
        lines.append(
            f"  br i1 {condition}, label %{level.first}, label %{after}, !prof !1"
        )
        lines.append(f"{level.first}:")
        lines.extend(level.lines)
        lines.append(f"  br label %{after}")
        lines.append(f"{after}:")
        found: list[str] = []
        for kind, inside, outside in results:
            self._count += 1
            name = f"%v{self._count}"
            lines.append(
                f"  {name} = phi {kind} [{inside}, %{level.label}], "
                f"[{outside}, %{before}]"
            )
            self.depth_of[name] = outer.depth
            found.append(name)
        outer.label = after
        return found

    @contextmanager
    def fold(
        self,
        start: str,
        stop: str,
        step: int,
        firsts: Sequence[tuple[str, str]],
        guarded: bool = False,
        entry: str = "",
    ) -> Generator[OpenLoop, None, None]:
        """A loop that hands on values, around what is inside.

        Args:
          firsts: the type of each value, and what it is at first.
          guarded: it may run not at all.
          entry: is there a first iteration? Where this is not said the index tells.
        """
        outer = self.stack[-1]
        self._count += 1
        header, index = f"loop{self._count}", f"%i{self._count}"
        loop = OpenLoop(index, [f"{index}.{n}" for n in range(len(firsts))])
        level = Level(outer.depth + 1, header, header)
        self.depth_of.update(dict.fromkeys([index, *loop.values], level.depth))
        self.stack.append(level)
        yield loop
        self._pop()
        lines, entered, latch = outer.lines, outer.label, level.label
        done, following, again = f"done{index[2:]}", f"{index}.next", loop.again
        if guarded and not entry:
            entry = f"{index}.any"
            lines.append(f"  {entry} = icmp slt i64 {start}, {stop}")
        to_header = f"label %{header}"
        enter = f"i1 {entry}, {to_header}, label %{done}" if entry else to_header
        lines += [f"  br {enter}", f"{header}:"]
        if not again:
            edges = f"[{start}, %{entered}], [{following}, %{latch}]"
            lines.append(f"  {index} = phi i64 {edges}")
        phis = [
            (name, f"phi {kind} [{first}, %{entered}], [{value}, %{latch}]")
            for name, (kind, first), value in zip(
                loop.values, firsts, loop.following, strict=True
            )
        ]
        lines += [f"  {name} = {phi}" for name, phi in phis] + level.lines
        if not again:
            again = f"{index}.more"
            lines.append(f"  {following} = add i64 {index}, {step}")
            lines.append(f"  {again} = icmp slt i64 {following}, {stop}")
        lines += [f"  br i1 {again}, {to_header}, label %{done}", f"{done}:"]
        outer.label, loop.values = done, loop.following
        if entry:
            lines += [f"  {name}.end = {phi}" for name, phi in phis]
            loop.values = [f"{name}.end" for name, _ in phis]
        for value in loop.values:
            if entry or self.depth(value) > outer.depth:
                self.depth_of[value] = outer.depth

    @contextmanager
    def loop(
        self, start: str, stop: str, step: int = 1, guarded: bool = False
    ) -> Generator[str, None, None]:
        """The same of a loop that hands on nothing; gives its index."""
        with self.fold(start, stop, step, (), guarded) as loop:
            yield loop.index

    def units(self) -> AbstractContextManager[str]:
        """The loop of a kernel over the units that it is to do."""
        return self.loop("%begin", "%end", guarded=True)

    def _pop(self) -> Level:
        level = self.stack.pop()
        level.open = False
        return level

    def function(self, name: str, internal: bool = False) -> str:
        """The text of a kernel's function, without what it declares."""
        linkage = "internal " if internal else ""
        aligned = f" alignstack({self.alignment})" if self.alignment > 16 else ""
        # Without it LLVM finds too late that vectors which wait on the stack want it
        # aligned: each of them could lie across two lines of the cache.
        aligned += ' "frame-pointer"="all"'
        return self.text(f"{linkage}void @{name}({ARGUMENTS}) nounwind{aligned}")

    def text(self, head: str, result: str = "void") -> str:
        """The same of another head; `result` is what it gives, with its type."""
        (body,) = self.stack
        last = [f"  {text}" for text in (*self._at_return, f"ret {result}")]
        return "\n".join([f"define {head} {{", "entry:", *body.lines, *last, "}", ""])


# Indices.


def lowest(writer: Writer, a: str, b: int | str) -> str:
    """The lesser of two indices."""
    return _extremum(writer, "smin", a, b)


def highest(writer: Writer, a: str, b: int | str) -> str:
    """The greater of two indices."""
    return _extremum(writer, "smax", a, b)


def _extremum(writer: Writer, name: str, a: str, b: int | str) -> str:
    text = writer.call("i64", f"@llvm.{name}.i64", ("i64", a), ("i64", b))
    return writer.pure(text, a, str(b))


def digits(writer: Writer, number: str, sizes: Sequence[int | str]) -> list[str]:
    """A number in mixed radix, its highest digit first."""
    found: list[str] = []
    for size in reversed(sizes[1:]):
        if size == 1:
            found.append(literal(0))
            continue
        found.append(writer.pure(f"urem i64 {number}, {size}", number))
        number = writer.pure(f"udiv i64 {number}, {size}", number)
    return [number, *reversed(found)] if sizes else []
