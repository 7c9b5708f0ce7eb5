"""Instructions of scalars and vectors in functions that are written by hand."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.ir.types import Type
from ftrace.backends.llvm.scalar.instructions import Instructions


class Vectors(Instructions):
    """Emits instructions into a function, and loads and stores of unaligned vectors.

    Args:
      lanes: of the vectors; 0 is a scalar.
    """

    def __init__(self, f: Function, lanes: int = 0) -> None:
        self.f = f
        self.lanes = lanes
        self.writer = cast(Any, self)  # of `Instructions`, as far as they need one here

    def pure(self, text: str, *_: str) -> str:
        return self.f.let(text)

    def cut(self, _: str) -> None:
        self.f.cut()

    def type(self, bits: int) -> Type:
        """Of integers."""
        return Type.of(np.dtype(f"i{bits // 8}"), self.lanes)

    def call(self, name: str, t: Type, *x: str, extra: str = "") -> str:
        """An intrinsic of operands of one type."""
        assert not extra
        symbol = f"{t} @llvm.{name}.{t.suffix}"
        self.f.declare(f"declare {symbol}({', '.join([t.text] * len(x))})")
        return self.f.let(f"call {symbol}({', '.join(f'{t} {a}' for a in x)})")

    def at(self, t: Type, base: str, index: str | int) -> str:
        """The address of an element."""
        return self.f.item(t.element, base, index)

    def take(self, t: Type, base: str, index: str | int, mask: str = "") -> str:
        """Elements from one on; zeros where a mask does not hold."""
        place = self.at(t, base, index)
        if not mask:
            return self.f.let(f"load {t}, ptr {place}, align {t.bytes}")
        name, m = f"{t} @llvm.masked.load.{t.suffix}.p0", t.mask()
        self.f.declare(f"declare {name}(ptr, i32, {m}, {t})")
        operands = f"ptr {place}, i32 {t.bytes}, {m} {mask}, {t} zeroinitializer"
        return self.f.let(f"call {name}({operands})")

    def put(self, t: Type, x: str, base: str, index: str | int, mask: str = "") -> None:
        """Stores elements from one on, those for which a mask holds."""
        place = self.at(t, base, index)
        if not mask:
            self.f.do(f"store {t} {x}, ptr {place}, align {t.bytes}")
            return
        name, m = f"void @llvm.masked.store.{t.suffix}.p0", t.mask()
        self.f.declare(f"declare {name}({t}, ptr, i32, {m})")
        self.f.do(f"call {name}({t} {x}, ptr {place}, i32 {t.bytes}, {m} {mask})")

    def positions(self, first: str) -> str:
        """The numbers from `first` on, of 64 bits."""
        if not self.lanes:
            return first
        t = self.type(64)
        return self.binary("add", t, self.splat(first, t), t.lanewise(range(t.lanes)))
