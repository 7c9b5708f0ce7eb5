"""Random bits: `rng_bit_generator`, of a key, and `rng_uniform`, others each time.

The bits of a key are those of Philox-4x32 (J. Salmon, M. Moraes, R. Dror, D. Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011): ten rounds over the four words
of a counter. Threefry is in `ftrace/random/keys.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError
from ftrace.ground import settings
from ftrace.lax.conversions import bitcast_convert_type
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import astype
from ftrace.numpy.joining import concatenate, stack
from ftrace.trace.avals import Shape
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.transforms.custom.callbacks import io_callback
from ftrace.transforms.structs import ShapeDtypeStruct

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]

_GENERATOR = np.random.default_rng()

_ROUNDS = 10
#: Multipliers, and what is added to the key in each round.
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


class RandomAlgorithm(enum.IntEnum):
    """By which algorithm `rng_bit_generator` makes bits."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def rng_uniform(a: Value, b: Value, shape: Sequence[int]) -> Any:
    """Numbers from a up to b, others each time: an effect.

    `ftrace.random` has numbers that are the same each time.

    Args:
      a, b: scalars of one dtype, floats or integers.
      shape: of the result.

    Raises:
      DtypeError: the dtypes differ, or are neither floats nor integers.
      ShapeError: a bound is no scalar.

    Example:
      >>> lax.rng_uniform(0.0, 1.0, (2, 3)).shape
      (2, 3)
    """
    dtype = check_dtypes("rng_uniform", a, b)
    for bound in (a, b):
        ax.scalar_type(bound, "lax.rng_uniform: a bound")
    dtypes.require_kind("rng_uniform", "iuf", dtype)
    sizes = ax.check_shape(shape, "lax.rng_uniform")

    def draw(low: Any, high: Any) -> Any:
        low, high = np.asarray(low), np.asarray(high)
        if dtypes.is_integer(dtype):
            return _GENERATOR.integers(low, high, sizes, dtype)
        return (low + (high - low) * _GENERATOR.random(sizes)).astype(dtype)

    promised = ShapeDtypeStruct(sizes, dtype)
    return io_callback(draw, promised, ax.cast(a, dtype), ax.cast(b, dtype))


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

    Example:
      >>> key, bits = lax.rng_bit_generator(fnp.zeros(4, fnp.uint32), (2, 3))
      >>> bits.shape, bits.dtype
      ((2, 3), dtype('uint32'))
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
        return _draw(x, sizes, kind)


def _draw(x: Any, sizes: Shape, kind: np.dtype[Any]) -> Any:
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
