"""Threefry-2x32: a hash of counters, and the random bits that it gives.

Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011: 20 rounds over two 32-bit words. Counters and layout are those of
JAX with `jax_threefry_partitionable`: element number i of an array hashes the 64-bit
counter i, whatever the shape, so that every bit agrees with JAX.

Everything here takes and returns nodes. A key is a uint32 array of shape (2,), or,
between the steps of one sampler, its two words as scalars.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import broadcast_leading, expand
from ftrace.trace.primitives.elementwise import (
    add,
    bit_or,
    bit_xor,
    cast,
    eq,
    select,
    shift_left,
    shift_right_logical,
)
from ftrace.trace.primitives.movement import reshape, shrink_axis
from ftrace.trace.primitives.source import const, const_like, iota

Pair = tuple[Node, Node]
Key = Node | Pair

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA  # the key schedule's constant, from the paper


def hash_counters(key: Pair, high: Node, low: Node) -> Pair:
    """Threefry-2x32 of the counters (high, low), two arrays, under a scalar key."""
    shape = low.shape
    parity = reduce(bit_xor, [*key, const(_PARITY, dtypes.uint32)])
    schedule = (*key, parity)
    x = add(high, broadcast_leading(schedule[0], shape))
    y = add(low, broadcast_leading(schedule[1], shape))
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = add(x, y)
            y = bit_xor(_rotate_left(y, distance), x)
        count = const(group + 1, dtypes.uint32)
        x = add(x, broadcast_leading(schedule[(group + 1) % 3], shape))
        injected = add(schedule[(group + 2) % 3], count)
        y = add(y, broadcast_leading(injected, shape))
    return x, y


def _rotate_left(x: Node, distance: int) -> Node:
    left = shift_left(x, const_like(x, distance))
    return bit_or(left, shift_right_logical(x, const_like(x, 32 - distance)))


def words(key: Key) -> Pair:
    """The two words of a key."""
    if isinstance(key, tuple):
        return key
    return element(key, 0), element(key, 1)


def element(x: Node, index: int) -> Node:
    """`x[index]`."""
    return reshape(shrink_axis(x, 0, index, index + 1), x.shape[1:])


def pair(x: Node, y: Node) -> Node:
    """Two arrays side by side along a new last axis."""
    shape = (*x.shape, 2)
    side = iota(dtypes.uint32, shape, x.ndim)
    left, right = (expand(reshape(z, (*z.shape, 1)), shape) for z in (x, y))
    return select(eq(side, const_like(side, 0)), left, right)


def _counters(shape: Shape) -> Pair:
    """The position of every element, as the two halves of a 64-bit integer."""
    size = prod(shape)
    if size <= 1 << 32:
        low = reshape(iota(dtypes.uint32, (size,), 0), shape)
        return const(0, dtypes.uint32, shape), low
    position = reshape(iota(dtypes.uint64, (size,), 0), shape)
    high = shift_right_logical(position, const_like(position, 32))
    return cast(high, dtypes.uint32), cast(position, dtypes.uint32)


def seed_key(seed: Node) -> Node:
    """The key of a scalar integer: its bits, high word first."""
    if seed.dtype.itemsize == 8:
        high = cast(shift_right_logical(seed, const_like(seed, 32)), dtypes.uint32)
    else:
        high = const(0, dtypes.uint32)
    return pair(high, cast(seed, dtypes.uint32))


def split_key(key: Key, shape: Shape) -> Node:
    """New keys: an array of shape `shape + (2,)`."""
    return pair(*hash_counters(words(key), *_counters(shape)))


def split_in_two(key: Key) -> tuple[Key, Key]:
    """Two new keys, by their words."""
    x, y = hash_counters(words(key), *_counters((2,)))
    return (element(x, 0), element(y, 0)), (element(x, 1), element(y, 1))


def fold_key(key: Key, data: Node) -> Node:
    """A key that depends on a key and a scalar integer."""
    low = cast(data, dtypes.uint32)
    return pair(*hash_counters(words(key), const(0, dtypes.uint32), low))


def random_bits(key: Key, width: int, shape: Shape) -> Node:
    """Unsigned integers of 8, 16, 32 or 64 random bits."""
    x, y = hash_counters(words(key), *_counters(shape))
    if width == 64:
        high = cast(x, dtypes.uint64)
        high = shift_left(high, const_like(high, 32))
        return bit_or(high, cast(y, dtypes.uint64))
    return cast(bit_xor(x, y), unsigned(width))


def unsigned(width: int) -> np.dtype[Any]:
    """The unsigned integer dtype of that many bits."""
    return dtypes.UNSIGNED[(8, 16, 32, 64).index(width)]
