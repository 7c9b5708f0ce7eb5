"""What a generator of statements has at hand: choices, and the values so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.fuzz.program import Input, dtype_of, is_float

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")
DTYPES = (*FLOATS, *INTS, *COMPLEX, "bool")
#: Sizes of axes: ones and odd ones; about the width of a vector register.
SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33)
#: Elements of one value: small ones, for most programs.
LIMIT = 3000


@dataclass(frozen=True)
class Value:
    """A name, and what is known of it."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def kind(self) -> str:
        """f real, c complex, i signed, u unsigned, b bool."""
        dtype = dtype_of(self.dtype)
        return "f" if is_float(dtype) and dtype.kind != "c" else dtype.kind

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size


@dataclass
class Draw:
    """Random choices over the values so far; new inputs may be asked for."""

    random: Random
    values: list[Value] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)

    def choose(self, options: Sequence[Any]) -> Any:
        return options[self.random.randrange(len(options))]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return self.random.randint(low, high)

    def input(self, shape: Sequence[int], dtype: str, **how: Any) -> Value:
        """A new argument of the program."""
        name = f"x{len(self.inputs)}"
        seed = self.random.randrange(1 << 30)
        shape = tuple(shape)
        how.setdefault("mapped", self.chance(0.75))
        self.inputs.append(Input(name, shape, dtype, seed=seed, **how))
        return Value(name, shape, dtype)

    def value(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """Mostly a recent one, so that programs grow deep."""
        found = [v for v in self.values if accept(v)]
        if not found:
            return None
        return self.choose(found if self.chance(0.3) else found[-3:])

    def beside(self, x: Value, kinds: str) -> str:
        """An operand that broadcasts with x: another value, a slice, or a number."""
        fits = [v for v in self.values if v.kind in kinds and broadcasts(v, x)]
        if fits and self.chance(0.75):
            return self.choose(fits).name
        if self.chance(0.3) and x.ndim:
            axis = self.axis(x)
            return f"jnp.flip({x.name}, {axis})"
        return self.scalar(x)

    def scalar(self, x: Value) -> str:
        """A Python number that x's dtype holds."""
        if x.kind == "b":
            return self.choose(("True", "False", "1"))
        if x.kind == "u":
            return self.choose(("0", "1", "2", "3", "7"))
        if x.kind == "i":
            return self.choose(("0", "1", "2", "-1", "3", "7", "-5"))
        if x.kind == "c" and self.chance(0.3):
            return self.choose(("1j", "(0.5-2j)"))
        return self.choose(
            ("0", "1", "2", "-1", "0.5", "-0.0", "1.5", "3.0", "-0.75", "0.1")
        )

    def axis(self, x: Value) -> int:
        axis = self.number(0, x.ndim - 1)
        return axis - x.ndim if self.chance(0.3) else axis

    def axes(self, x: Value) -> str:
        """None, one axis, or a tuple of some."""
        if not x.ndim or self.chance(0.2):
            return "None"
        if self.chance(0.6):
            return str(self.axis(x))
        chosen = tuple(a for a in range(x.ndim) if self.chance(0.5))
        return str(chosen or None)

    def some_shape(self, most: int = 3) -> tuple[int, ...]:
        while True:
            count = self.choose((0, 1, 1, 2, 2, 2, 3, 3, 4)[: 2 * most + 1])
            shape = tuple(self.choose(SIZES) for _ in range(count))
            if self.chance(0.02) and shape:
                return (0, *shape[1:])
            if _size(shape) <= LIMIT:
                return shape


def _size(shape: Sequence[int]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def broadcasts(a: Value, b: Value) -> bool:
    """Together they make a shape that is not too large."""
    full: list[int] = []
    for place in range(1, max(a.ndim, b.ndim) + 1):
        n = a.shape[-place] if place <= a.ndim else 1
        m = b.shape[-place] if place <= b.ndim else 1
        if n != m and 1 not in (n, m):
            return False
        full.append(m if n == 1 else n)
    return _size(full) <= LIMIT


def put(text: str, **names: str) -> str:
    """The expression with these one-letter names replaced."""
    letters = "".join(names)
    return re.sub(rf"\b[{letters}]\b", lambda m: names[m[0]], text)
