"""Keys: what every sampler is given instead of a hidden state.

A key is a uint32 array of shape (2,), as JAX's raw keys are: `key(0)` and
`PRNGKey(0)` are the same. Arrays of keys have one more axis, the last, so that
indexing, unpacking, `vmap` and `scan` over their leading axes do what they do for
JAX's typed keys.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, DtypeOverflowError, ValueRangeError
from ftrace.random.draw import as_shape, check_key, check_keys, draw, word
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import broadcast_leading, expand
from ftrace.trace.primitives.movement import reshape, shrink_axis
from ftrace.trace.primitives.sources import const, const_like, iota
from ftrace.trace.tracing.tracer import Tracer, aval_of

__all__ = [
    "PRNGKey", "clone", "fold_in", "key", "key_data", "key_impl", "split",
    "wrap_key_data",
]  # fmt: skip

# Threefry-2x32: a hash of counters, and the random bits that it gives.
#
# Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
# 1, 2, 3", SC 2011: 20 rounds over two 32-bit words. Counters and layout are those of
# JAX with `jax_threefry_partitionable`: element number i of an array hashes the 64-bit
# counter i, whatever the shape, so that every bit agrees with JAX.
#
# The hash is of nodes. What samplers have is traced: a key of shape (2,), or, between
# the steps of one sampler, its two words as scalars.

Pair = tuple[Node, Node]
Key = Tracer | tuple[Tracer, Tracer]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA  # the key schedule's constant, from the paper


def hash_counters(key: Pair, high: Node, low: Node) -> Pair:
    """Threefry-2x32 of the counters (high, low), two arrays, under a scalar key."""
    shape = low.shape
    parity = reduce(p.bit_xor, [*key, const(_PARITY, dtypes.uint32)])
    schedule = (*key, parity)
    x = p.add(high, broadcast_leading(schedule[0], shape))
    y = p.add(low, broadcast_leading(schedule[1], shape))
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = p.add(x, y)
            y = p.bit_xor(_rotate_left(y, distance), x)
        count = const(group + 1, dtypes.uint32)
        x = p.add(x, broadcast_leading(schedule[(group + 1) % 3], shape))
        injected = p.add(schedule[(group + 2) % 3], count)
        y = p.add(y, broadcast_leading(injected, shape))
    return x, y


def _rotate_left(x: Node, distance: int) -> Node:
    left = p.shift_left(x, const_like(x, distance))
    return p.bit_or(left, p.shift_right_logical(x, const_like(x, 32 - distance)))


def _words(key: Key) -> Pair:
    """The two words of a key."""
    if isinstance(key, tuple):
        return key[0].node, key[1].node
    return _element(key.node, 0), _element(key.node, 1)


def _element(x: Node, index: int) -> Node:
    """`x[index]`."""
    return reshape(shrink_axis(x, 0, index, index + 1), x.shape[1:])


def _traced(key: Key, node: Node) -> Tracer:
    """A node as a value where the key is one."""
    return (key[0] if isinstance(key, tuple) else key).scope.wrap(node)


def _side_by_side(x: Node, y: Node) -> Node:
    """Two arrays along a new last axis."""
    shape = (*x.shape, 2)
    side = iota(dtypes.uint32, shape, x.ndim)
    left, right = (expand(reshape(z, (*z.shape, 1)), shape) for z in (x, y))
    return p.select(p.eq(side, const_like(side, 0)), left, right)


def _hash_positions(key: Key, shape: Shape) -> Pair:
    """The hash of the position of every element, a 64-bit integer in two halves."""
    size = prod(shape)
    if size <= 1 << 32:
        low = reshape(iota(dtypes.uint32, (size,), 0), shape)
        return hash_counters(_words(key), const(0, dtypes.uint32, shape), low)
    position = reshape(iota(dtypes.uint64, (size,), 0), shape)
    high = p.shift_right_logical(position, const_like(position, 32))
    halves = [p.cast(half, dtypes.uint32) for half in (high, position)]
    return hash_counters(_words(key), *halves)


def seed_key(seed: Tracer) -> Tracer:
    """The key of a scalar integer: its bits, high word first."""
    high, low = const(0, dtypes.uint32), seed.node
    if low.dtype.itemsize == 8:
        high = p.cast(p.shift_right_logical(low, const_like(low, 32)), dtypes.uint32)
    return _traced(seed, _side_by_side(high, p.cast(low, dtypes.uint32)))


def split_key(key: Key, shape: Shape) -> Tracer:
    """New keys: an array of shape `shape + (2,)`."""
    return _traced(key, _side_by_side(*_hash_positions(key, shape)))


def split_words(key: Key, count: int) -> list[Key]:
    """New keys, by their words."""
    x, y = _hash_positions(key, (count,))
    places = range(count)
    return [
        (_traced(key, _element(x, i)), _traced(key, _element(y, i))) for i in places
    ]


def split_in_two(key: Key) -> tuple[Key, Key]:
    """Two new keys, by their words."""
    first, second = split_words(key, 2)
    return first, second


def words_of(key: Key) -> tuple[Tracer, Tracer]:
    """A key by its words."""
    first, second = (_traced(key, word) for word in _words(key))
    return first, second


def joined(key: Key) -> Tracer:
    """A key as an array."""
    return key if isinstance(key, Tracer) else _traced(key, _side_by_side(*_words(key)))


def fold_key(key: Key, data: Tracer) -> Tracer:
    """A key that depends on a key and a scalar integer."""
    low = p.cast(data.node, dtypes.uint32)
    hashed = hash_counters(_words(key), const(0, dtypes.uint32), low)
    return _traced(key, _side_by_side(*hashed))


def random_bits(key: Key, width: int, shape: Shape) -> Tracer:
    """Unsigned integers of 8, 16, 32 or 64 random bits."""
    x, y = _hash_positions(key, shape)
    if width == 64:
        high = p.cast(x, dtypes.uint64)
        high = p.shift_left(high, const_like(high, 32))
        return _traced(key, p.bit_or(high, p.cast(y, dtypes.uint64)))
    return _traced(key, p.cast(p.bit_xor(x, y), unsigned(width)))


def unsigned(width: int) -> np.dtype[Any]:
    """The unsigned integer dtype of that many bits."""
    return dtypes.UNSIGNED[(8, 16, 32, 64).index(width)]


# Keys.


_IMPLEMENTATION = "threefry2x32"


def _check_implementation(impl: Any, dtype: Any = None) -> None:
    for name in (impl, dtype):
        if name not in (None, _IMPLEMENTATION):
            raise ValueRangeError(
                f"the random number generator is {_IMPLEMENTATION!r}, got {name!r}"
            )


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A key from an integer seed: its 64 bits, high word first.

    Args:
      seed: a scalar integer; 32-bit ones have a high word of 0.
      impl: None or "threefry2x32", the only generator.

    Raises:
      DtypeError: the seed is no integer.
      ValueRangeError: it is no scalar.
    """
    _check_implementation(impl)
    if isinstance(seed, int):
        seed = _as_integer(int(seed))
    aval = aval_of(seed)
    if not dtypes.is_integer(aval.dtype):
        raise DtypeError(f"random.key: the seed must be an integer, got {aval!r}")
    if aval.shape:
        raise ValueRangeError(
            f"random.key: the seed must be a scalar, got {aval!r}; use vmap for several"
        )
    return draw(seed_key, seed)


def _as_integer(seed: int) -> Any:
    """A Python integer in the first of the allowed dtypes that holds it."""
    first = dtypes.default_dtype("i")
    if -(1 << 31) <= seed < 1 << 31:
        return first.type(seed)
    for dtype in (first, dtypes.int64, dtypes.uint64):
        info = np.iinfo(dtype)
        if info.min <= seed <= info.max:
            kept = dtypes.canonicalize(dtype)
            return np.asarray(seed, dtype).astype(kept)[()]
    raise DtypeOverflowError(
        f"random.key: a seed has 64 bits, got {seed}; fold larger numbers in piece by "
        "piece with random.fold_in"
    )


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """A key from an integer seed: the same as `PRNGKey`."""
    _check_implementation(impl, dtype)
    return PRNGKey(seed)


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """New, independent keys.

    Args:
      key: a key; do not use it again.
      num: how many, or the shape in which they stand.

    Returns:
      Keys of shape `(num, 2)`, or `(*num, 2)`: unpack them, `a, b = split(key)`.
    """
    return draw(split_key, check_key("split", key), shape=as_shape("split", num))


def fold_in(key: Any, data: Any) -> Any:
    """A new key that depends on `key` and on a scalar integer of 32 bits.

    Raises:
      DtypeOverflowError: a Python integer does not fit uint32.
      ValueRangeError: `data` is no scalar.
    """
    if isinstance(data, int):
        if not 0 <= data < 1 << 32:
            raise DtypeOverflowError(
                f"random.fold_in takes an unsigned integer of 32 bits, got {data}"
            )
        data = word(data, dtypes.uint32)
    if aval_of(data).shape:
        raise ValueRangeError(
            f"random.fold_in takes a scalar, got {aval_of(data)!r}; use vmap for "
            "several"
        )
    return draw(fold_key, check_key("fold_in", key), data)


def key_data(keys: Any) -> Any:
    """The uint32 array of keys: the keys themselves."""
    check_keys("key_data", keys)
    return keys


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Keys from a uint32 array whose last axis has size 2: that array.

    Raises:
      ArgumentError: it is of another shape or dtype.
    """
    _check_implementation(impl, dtype)
    check_keys("wrap_key_data", key_bits_array)
    return key_bits_array


def key_impl(keys: Any) -> str:
    """The name of the generator: "threefry2x32"."""
    check_keys("key_impl", keys)
    return _IMPLEMENTATION


def clone(key: Any) -> Any:
    """The same key, for a second use that is meant."""
    check_keys("clone", key)
    return key
