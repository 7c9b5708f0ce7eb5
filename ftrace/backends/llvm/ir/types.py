"""LLVM's types for our dtypes, scalar or in vectors, and constants of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass


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

    def constant(self, value: Any) -> str:
        """The text of a constant, in every lane."""
        literal = _literal(self.format or self.element, value)
        return f"splat ({self.element} {literal})" if self.lanes else literal

    def lanewise(self, values: Sequence[Any]) -> str:
        """The text of a vector constant with these values in its lanes."""
        element, form = self.element, self.format or self.element
        return f"<{', '.join([f'{element} {_literal(form, v)}' for v in values])}>"

    @property
    def zero(self) -> str:
        return "zeroinitializer" if self.lanes else self.constant(0)

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


def first_lanes(lanes: int, count: int) -> str:
    """A mask with the first `count` lanes on."""
    return mask_type(lanes).lanewise([lane < count for lane in range(lanes)])


def byte_type(lanes: int) -> Type:
    return _make("i8", lanes, "u", 8)


def _bits(scalar: np.ndarray[Any, Any]) -> int:
    """Those of a 16-bit float."""
    return int(np.frombuffer(scalar.tobytes(), np.int16)[0])


def _literal(element: str, value: Any) -> str:
    if element == "i1":
        return "true" if value else "false"
    if element[0] == "i":
        bits = int(element[1:])
        wrapped = int(value) & ((1 << bits) - 1)
        return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
    if element == "half":
        return str(_bits(np.asarray(value, np.float16)))
    if element == "bfloat":
        return str(_bits(np.asarray(value).astype(dtypes.bfloat16)))
    if element == "float":
        value = np.float32(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
