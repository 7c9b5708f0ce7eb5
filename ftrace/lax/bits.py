"""Bits under JAX's `lax` names: floats of fewer bits, and random bits.

Philox-4x32 (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy
as 1, 2, 3", SC 2011): ten rounds over the four words of a counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast as cast_to

import ml_dtypes
import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError
from ftrace.ground import settings
from ftrace.lax.elementwise import bitcast_convert_type, check_dtypes
from ftrace.lax.options import RandomAlgorithm
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import astype
from ftrace.numpy.elementwise import elementwise
from ftrace.numpy.shape import concatenate, stack
from ftrace.trace.avals import Shape
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.transforms.custom.callbacks import io_callback
from ftrace.transforms.custom.closure_convert import linear_call
from ftrace.transforms.jit.structs import ShapeDtypeStruct

__all__ = ["reduce_precision", "rng_bit_generator", "rng_uniform"]


# Floats of fewer bits.


def reduce_precision(operand: Value, exponent_bits: int, mantissa_bits: int) -> Any:
    """Elementwise the nearest float of fewer bits, in the dtype of the operand.

    What is too large becomes infinite, what has no normal form becomes 0. Derivatives
    are rounded likewise.

    Args:
      operand: floats.
      exponent_bits: at least 1.
      mantissa_bits: at least 0, without the leading one. Ties go to the even one.

    Raises:
      DtypeError: the operand is not of floats.
      ValueRangeError: a number of bits is too small.
    """
    x = ax.as_value(operand)
    exponent = ax.static_int(exponent_bits, "lax.reduce_precision: exponent_bits")
    mantissa = ax.static_int(mantissa_bits, "lax.reduce_precision: mantissa_bits")
    if not dtypes.is_float(x.dtype):
        raise DtypeError(f"lax.reduce_precision takes floats, got {x.dtype.name}")
    if exponent < 1 or mantissa < 0:
        raise ValueRangeError(
            "lax.reduce_precision: at least 1 bit of exponent and 0 of mantissa are "
            f"required, got {exponent} and {mantissa}"
        )

    def rounded(_: Any, y: Any) -> Any:
        return _round_bits(y, exponent, mantissa)

    return linear_call(rounded, rounded, (), x)


def _round_bits(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    width: int = cast_to(Any, ml_dtypes.finfo)(x.dtype).nmant
    whole: Any = np.dtype(f"u{x.dtype.itemsize}")
    known: int = 8 * x.dtype.itemsize - width - 1
    bits = bitcast_convert_type(x, whole)
    lost = width - mantissa_bits
    if lost > 0:
        odd = (bits >> lost) & 1
        bits = (bits + odd + ((1 << (lost - 1)) - 1)) & ~np.asarray(
            (1 << lost) - 1, whole
        )
    if exponent_bits < known:
        middle, reach = (1 << (known - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        size = (bits >> width) & ((1 << known) - 1)
        sign = bits & np.asarray(1 << (8 * x.dtype.itemsize - 1), whole)
        infinite = np.asarray(((1 << known) - 1) << width, whole)
        bits = ax.choose(size > middle + reach, sign | infinite, bits)
        bits = ax.choose(size <= middle - reach, sign, bits)
    return ax.choose(elementwise(p.ne, x, x), x, bitcast_convert_type(bits, x.dtype))


# Random bits.


def rng_uniform(a: Value, b: Value, shape: Sequence[int]) -> Any:
    """Numbers from a up to b, others each time: an effect.

    `ftrace.random` has numbers that are the same each time.

    Args:
      a, b: scalars of one dtype, floats or integers.
      shape: of the result.

    Raises:
      DtypeError: the dtypes differ, or are neither floats nor integers.
      ShapeError: a bound is no scalar.
    """
    dtype = check_dtypes("rng_uniform", a, b)
    if aval_of(a).shape or aval_of(b).shape:
        raise ShapeError("lax.rng_uniform: the bounds must be scalars")
    if dtypes.kind(dtype) not in "iuf":
        raise DtypeError(f"lax.rng_uniform takes floats or integers, got {dtype}")
    sizes = ax.check_shape(shape, "lax.rng_uniform")

    def draw(low: Any, high: Any) -> Any:
        low, high = np.asarray(low), np.asarray(high)
        if dtypes.is_integer(dtype):
            return _GENERATOR.integers(low, high, sizes, dtype)
        return (low + (high - low) * _GENERATOR.random(sizes)).astype(dtype)

    promised = ShapeDtypeStruct(sizes, dtype)
    return io_callback(draw, promised, ax.cast(a, dtype), ax.cast(b, dtype))


_GENERATOR = np.random.default_rng()

_ROUNDS = 10
#: Multipliers, and what is added to the key in each round, of Philox-4x32.
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def rng_bit_generator(
    key: Value,
    shape: Sequence[int],
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> Any:
    """(next key, random bits) by Philox: the bits that JAX gives on a CPU.

    Args:
      key: uint32 (4,), or uint64 (2,): a key and a counter, 64 bits each.
      shape: of the bits.
      dtype: an unsigned integer.
      algorithm: RNG_DEFAULT or RNG_PHILOX, which are the same here.
      out_sharding: accepted, without effect.

    Raises:
      DtypeError: the dtype is not an unsigned integer.
      ShapeError: the key has another type.
      ValueRangeError: the algorithm is another one.
    """
    name = "lax.rng_bit_generator"
    x, kind = ax.as_value(key), dtypes.as_dtype(dtype)
    if dtypes.kind(kind) != "u":
        raise DtypeError(f"{name}: dtype must be an unsigned integer, got {kind}")
    if (x.dtype, x.shape) not in ((dtypes.uint32, (4,)), (dtypes.uint64, (2,))):
        raise ShapeError(
            f"{name}: a key is an array of uint32 (4,) or uint64 (2,), got "
            f"{aval_of(x)!r}"
        )
    if RandomAlgorithm(algorithm) is RandomAlgorithm.RNG_THREE_FRY:
        raise ValueRangeError(
            f"{name}: RNG_THREE_FRY is not there yet; take RNG_PHILOX, or random.bits"
        )
    sizes = ax.check_shape(shape, name)
    with settings.config(enable_x64=True):  # words are multiplied in 64 bits
        return _drawn(x, sizes, kind)


def _drawn(x: Any, sizes: Shape, kind: np.dtype[Any]) -> Any:
    words = bitcast_convert_type(x, dtypes.uint32)
    low, high, *rest = [words.reshape(4)[i].astype(dtypes.uint64) for i in range(4)]
    count = prod(sizes) * (2 if kind == dtypes.uint64 else 1)
    blocks = -(-count // 4)
    counter = rest[0] | (rest[1] << 32)
    places = counter + ax.iota(dtypes.uint64, (blocks,), 0)
    above = ((high << 32) | low) + astype(places < counter, dtypes.uint64)
    words = [half for n in (places, above) for half in (n & _LOW, n >> 32)]
    found = _philox(words, (low, high))
    bits = stack(found, 1).reshape(4 * blocks)[:count]
    if kind == dtypes.uint64:
        pairs = bits.reshape(-1, 2)
        bits = pairs[:, 0] | (pairs[:, 1] << 32)
    after = counter + blocks
    moved = bitcast_convert_type(after, dtypes.uint32)
    moved = after[None] if x.dtype == dtypes.uint64 else moved
    new = concatenate([x[: x.size // 2], moved])
    return new, astype(bits.reshape(sizes), kind)


def _philox(counter: list[Any], key: tuple[Any, Any]) -> list[Any]:
    """Four words of counters, hashed; all are uint64 and hold 32 bits."""
    a, b, c, d = counter
    k, m = key
    for _ in range(_ROUNDS):
        first, second = a * _FACTORS[0], c * _FACTORS[1]
        a, b = (second >> 32) ^ b ^ k, second & _LOW
        c, d = (first >> 32) ^ d ^ m, first & _LOW
        k, m = (k + _STEPS[0]) & _LOW, (m + _STEPS[1]) & _LOW
    return [a, b, c, d]
