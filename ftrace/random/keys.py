"""Keys: what every sampler is given instead of a hidden state.

`key(0)` is an array without axes of a dtype of its own, whose elements are keys:
`ftrace.dtypes.KEYS`. `PRNGKey(0)` is the same key as a uint32 array of shape (2,). All
functions take both, and give new keys of the kind that they got.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.lax.rng import rng_bit_generator
from ftrace.random.draw import as_shape, check_key, check_keys, draw, word
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.primitives.movement import permute, reshape, shrink_axis
from ftrace.trace.primitives.sources import const, const_like, iota
from ftrace.trace.tracing.tracer import Tracer, aval_of

__all__ = [
    "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split",
    "wrap_key_data",
]  # fmt: skip

# Threefry-2x32: a hash of counters, and the random bits that it gives.
#
# Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
# 1, 2, 3", SC 2011: 20 rounds over two 32-bit words. Counters and layout are those of
# JAX with `jax_threefry_partitionable`: element number i of an array hashes the 64-bit
# counter i, whatever the shape, so that every bit agrees with JAX. Where it is off,
# bits are those that JAX gave before.
#
# The hash is of nodes. What samplers have is traced: a key of either kind.

Pair = tuple[Node, Node]
Words = tuple[Node, ...]
Key = Any  # a Tracer

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA  # the key schedule's constant, from the paper


def hash_counters(key: Pair, high: Node, low: Node) -> Pair:
    """Threefry-2x32 of the counters (high, low), two arrays, under a scalar key."""
    shape = low.shape
    parity = reduce(p.bit_xor, [*key, const(_PARITY, dtypes.uint32)])
    schedule = (*key, parity)
    x = p.add(high, bc.broadcast_leading(schedule[0], shape))
    y = p.add(low, bc.broadcast_leading(schedule[1], shape))
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = p.add(x, y)
            y = p.bit_xor(_rotate_left(y, distance), x)
        count = const(group + 1, dtypes.uint32)
        x = p.add(x, bc.broadcast_leading(schedule[(group + 1) % 3], shape))
        injected = p.add(schedule[(group + 2) % 3], count)
        y = p.add(y, bc.broadcast_leading(injected, shape))
    return x, y


def _rotate_left(x: Node, distance: int) -> Node:
    left = p.shift_left(x, const_like(x, distance))
    return p.bit_or(left, p.shift_right_logical(x, const_like(x, 32 - distance)))


def _words(keys: Node) -> Words:
    """The first words of keys of either kind, the second ones, and so on."""
    if not dtypes.is_key(keys.dtype):
        return tuple(_element(keys, i) for i in range(keys.shape[-1]))
    whole = p.bitcast(keys, arg=dtypes.carrier(keys.dtype))
    parts = [whole]
    if dtypes.is_complex(whole.dtype):
        halves = p.real(whole), p.imag(whole)
        parts = [p.bitcast(half, arg=dtypes.uint64) for half in halves]
    shifted = [(x, p.shift_right_logical(x, const_like(x, 32))) for x in parts]
    return tuple(p.cast(x, dtypes.uint32) for pair in shifted for x in pair)


def _keys_of_words(words: Words, dtype: np.dtype[Any]) -> Node:
    """Keys of their words, of one dtype of keys; of uint32 with one more axis."""
    if not dtypes.is_key(dtype):
        return _side_by_side(words)
    parts = [_join(words[i + 1], words[i]) for i in range(0, len(words), 2)]
    if len(parts) == 1:
        return p.bitcast(parts[0], arg=dtype)
    whole = p.make_complex(*[p.bitcast(x, arg=dtypes.float64) for x in parts])
    return p.bitcast(whole, arg=dtype)


def _join(high: Node, low: Node) -> Node:
    """64 bits of two words."""
    high, low = (p.cast(x, dtypes.uint64) for x in (high, low))
    return p.bit_or(p.shift_left(high, const_like(high, 32)), low)


def _element(x: Node, index: int) -> Node:
    """`x[..., index]`."""
    return reshape(shrink_axis(x, x.ndim - 1, index, index + 1), x.shape[:-1])


def _side_by_side(words: Words) -> Node:
    """Arrays along a new last axis."""
    shape = (*words[0].shape, len(words))
    side = iota(dtypes.uint32, shape, len(shape) - 1)
    wide = [bc.expand(reshape(x, (*x.shape, 1)), shape) for x in words]
    found = wide[-1]
    for i in reversed(range(len(words) - 1)):
        found = p.select(p.eq(side, const_like(side, i)), wide[i], found)
    return found


def _hash_each(key: Key, high: Node, low: Node) -> Words:
    """Counters, hashed under each two words of a key."""
    words = _words(key.node)
    pairs = zip(words[::2], words[1::2], strict=True)
    return tuple(x for pair in pairs for x in hash_counters(pair, high, low))


def _hash_positions(key: Key, shape: Shape) -> Words:
    """The hash of the position of every element, a 64-bit integer in two halves."""
    size = prod(shape)
    if size <= 1 << 32:
        low = reshape(iota(dtypes.uint32, (size,), 0), shape)
        return _hash_each(key, const(0, dtypes.uint32, shape), low)
    position = reshape(iota(dtypes.uint64, (size,), 0), shape)
    high = p.shift_right_logical(position, const_like(position, 32))
    return _hash_each(key, *[p.cast(x, dtypes.uint32) for x in (high, position)])


def _hash_halves(key: Pair, count: int) -> Node:
    """The hash of 0, 1, …: an array of words, as of JAX before all had a position.

    The first half of the counters are the high words, the second half the low ones; an
    odd number of them is filled up with a 0.
    """
    half = (count + 1) // 2
    high = iota(dtypes.uint32, (half,), 0)
    low = p.add(high, const_like(high, half))
    if count % 2:
        last = p.eq(high, const_like(high, half - 1))
        low = p.select(last, const_like(low, 0), low)
    found = _side_by_side(hash_counters(key, high, low))
    return shrink_axis(reshape(permute(found, (1, 0)), (2 * half,)), 0, 0, count)


def _new_words(key: Key, shape: Shape) -> Words:
    """The words of new keys."""
    if settings.current().threefry_partitionable:
        return _hash_positions(key, shape)
    words = _words(key.node)
    halves = [
        reshape(_hash_halves(pair, 2 * prod(shape)), (*shape, 2))
        for pair in zip(words[::2], words[1::2], strict=True)
    ]
    return tuple(_element(half, i) for half in halves for i in range(2))


def _bits_in_halves(key: Key, width: int, shape: Shape) -> Tracer:
    """`random_bits` of words by halves, which are cut or put together."""
    size = prod(shape)
    first, second = _words(key.node)
    bits = _hash_halves((first, second), -(-size * width // 32))
    if width == 64:
        bits = _join(*[shrink_axis(bits, 0, i * size, (i + 1) * size) for i in (0, 1)])
    elif width < 32:
        wide = bc.expand(reshape(bits, (*bits.shape, 1)), (*bits.shape, 32 // width))
        places = iota(dtypes.uint32, wide.shape, 1)
        by = p.mul(places, const_like(places, width))
        parts = p.cast(p.shift_right_logical(wide, by), uint_of(width))
        bits = shrink_axis(reshape(parts, (parts.size,)), 0, 0, size)
    return key.scope.wrap(reshape(bits, shape))


def _of_kind(key: Key, words: Words) -> Tracer:
    """New keys of their words, of the kind of a key."""
    return key.scope.wrap(_keys_of_words(words, key.dtype))


def seed_key(seed: Tracer, dtype: np.dtype[Any]) -> Tracer:
    """The raw key of a scalar integer: its bits, high word first, maybe twice."""
    high, low = const(0, dtypes.uint32), seed.node
    if low.dtype.itemsize == 8:
        high = p.cast(p.shift_right_logical(low, const_like(low, 32)), dtypes.uint32)
    words = (high, p.cast(low, dtypes.uint32)) * (dtype.itemsize // 8)
    return seed.scope.wrap(_side_by_side(words))


def split_key(key: Key, shape: Shape = (2,)) -> Tracer:
    """New keys, of the kind of the key."""
    if not _is_unsafe(key):
        return _of_kind(key, _new_words(key, shape))
    bits = _philox(key, (10 * prod(shape), 4), dtypes.uint32)[::10]
    return _of_kind(key, _words(bits.reshape(*shape, 4).node))


def fold_key(key: Key, data: Tracer) -> Tracer:
    """A key that depends on a key and a scalar integer."""
    low = p.cast(data.node, dtypes.uint32)
    if not _is_unsafe(key):
        return _of_kind(key, _hash_each(key, const(0, dtypes.uint32), low))
    seed = seed_key(key.scope.wrap(low), dtypes.KEYS["rbg"])
    drawn = _words(_philox(seed, (10, 4), dtypes.uint32)[-1].node)
    return _of_kind(key, tuple(map(p.bit_xor, _words(key.node), drawn)))


def wrap(raw: Tracer, dtype: np.dtype[Any]) -> Tracer:
    """Raw keys as keys of a dtype."""
    return raw.scope.wrap(_keys_of_words(_words(raw.node), dtype))


def unwrap(keys: Tracer) -> Tracer:
    """Keys as raw ones."""
    return keys.scope.wrap(_side_by_side(_words(keys.node)))


def hash_under(key: Tracer, counters: Tracer) -> Tracer:
    """Counters of two words, along the last axis, hashed under a raw key."""
    first, second = _words(key.node)
    found = hash_counters((first, second), *_words(counters.node))
    return key.scope.wrap(_side_by_side(found))


def random_bits(key: Key, width: int, shape: Shape) -> Tracer:
    """Unsigned integers of 8, 16, 32 or 64 random bits."""
    if key.dtype.itemsize == 16 or key.shape[-1:] == (4,):
        return _philox(key, shape, uint_of(width))
    if not settings.current().threefry_partitionable:
        return _bits_in_halves(key, width, shape)
    x, y = _hash_positions(key, shape)
    bits = _join(x, y) if width == 64 else p.cast(p.bit_xor(x, y), uint_of(width))
    return key.scope.wrap(bits)


# Keys of four words. "rbg" has the bits of Philox, and splits each half by threefry, as
# do raw keys; "unsafe_rbg" splits by Philox, of which ten blocks are taken for a hash.


def _is_unsafe(key: Key) -> bool:
    return key.dtype == dtypes.KEYS["unsafe_rbg"]


def _philox(key: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    raw = unwrap(key) if dtypes.is_key(key.dtype) else key
    return rng_bit_generator(raw, shape, dtype)[1]


def uint_of(width: int) -> np.dtype[Any]:
    """The unsigned integer dtype of that many bits."""
    return dtypes.UNSIGNED[(8, 16, 32, 64).index(width)]


# Keys.


def key_dtype(impl_spec: Any = None) -> np.dtype[Any]:
    """The dtype of keys for a generator.

    Args:
      impl_spec: its name, by default that of the configuration: "threefry2x32", or
        "rbg" or "unsafe_rbg", which draw by Philox. Or a dtype of keys.

    Raises:
      ValueRangeError: there is no such generator.

    Example:
      >>> ft.random.key_dtype()
      dtype((ftrace.dtypes.prng_key, [('key<fry>', '<u4', (2,))]))
    """
    if impl_spec in dtypes.KEYS.values():
        return impl_spec
    name = impl_spec or settings.current().default_prng_impl
    errors.one_of("the random number generator", str(name), dtypes.KEYS)
    return dtypes.KEYS[str(name)]


def _choose_dtype(impl: Any, dtype: Any) -> np.dtype[Any]:
    if impl is not None and dtype is not None:
        raise errors.ValueRangeError(
            f"a generator is named by impl or by dtype, got both: {impl!r}, {dtype!r}"
        )
    return key_dtype(impl if dtype is None else dtype)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A key from an integer seed: its 64 bits, high word first.

    Args:
      seed: a scalar integer; 32-bit ones have a high word of 0.
      impl: the generator: see `key_dtype`.

    Returns:
      its integers; a key as `key` gives it, where `jax_enable_custom_prng` is set.

    Raises:
      DtypeError: the seed is no integer.
      ValueRangeError: it is no scalar.

    Example:
      >>> ft.random.PRNGKey(42)
      Array([ 0, 42], dtype=uint32)
    """
    dtype = key_dtype(impl)
    made = _integers(seed, dtype)
    typed = settings.config.read("enable_custom_prng")
    return draw(wrap, made, dtype=dtype) if typed else made


def _integers(seed: Any, dtype: np.dtype[Any]) -> Any:
    """The integers that a key of a generator is made of."""
    if isinstance(seed, int):
        seed = _as_integer(int(seed))
    aval = aval_of(seed)
    if not dtypes.is_integer(aval.dtype):
        raise errors.DtypeError(
            f"random.key: the seed must be an integer, got {aval!r}"
        )
    if aval.shape:
        raise errors.ValueRangeError(
            f"random.key: the seed must be a scalar, got {aval!r}; use vmap for several"
        )
    if offset := settings.config.read("random_seed_offset"):
        seed = seed + offset
    return draw(seed_key, seed, dtype=dtype)


def _as_integer(seed: int) -> Any:
    """A Python integer in the first of the allowed dtypes that holds it."""
    if not -(1 << 63) <= seed < 1 << 63:
        raise errors.DtypeOverflowError(
            f"random.key: a seed is an integer of 64 bits with a sign, got {seed}; "
            "fold larger numbers in piece by piece with random.fold_in"
        )
    first = dtypes.default_dtype("i")
    small = -(1 << 31) <= seed < 1 << 31
    kept = first if small else dtypes.canonicalize(dtypes.int64)
    return np.asarray(seed, np.int64).astype(kept)[()]


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """A key from an integer seed, of a dtype of keys and without axes.

    A key is what random functions are given: the same key gives the same numbers,
    always. Use each but once; `split` makes new ones.

    Args:
      seed: a scalar integer; 32-bit ones have a high word of 0.
      impl, dtype: the generator: "threefry2x32" (the default, whose bits are JAX's),
        "rbg" or "unsafe_rbg"; see `key_dtype`.

    Raises:
      DtypeError: the seed is no integer.
      ValueRangeError: it is no scalar.

    Example:
      >>> ft.random.key(0)
      Array((), dtype=key<fry>) overlaying:
      [0 0]
      >>> ft.random.uniform(ft.random.key(0)) == ft.random.uniform(ft.random.key(0))
      Array(True, dtype=bool)
    """
    found = _choose_dtype(impl, dtype)
    return draw(wrap, _integers(seed, found), dtype=found)


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """New, independent keys.

    Args:
      key: a key; do not use it again.
      num: how many, or the shape in which they stand.

    Returns:
      Keys of shape `(num,)`, or `num`; raw ones have one more axis. Unpack them,
      `a, b = split(key)`.

    Example:
      >>> key, use = ft.random.split(ft.random.key(0))
      >>> ft.random.split(key, 3).shape
      (3,)
    """
    return draw(split_key, check_key("split", key), shape=as_shape("split", num))


def fold_in(key: Any, data: Any) -> Any:
    """A new key that depends on `key` and a scalar integer: the number of a step, say.

    Args:
      key: a key.
      data: a scalar integer of 32 bits.

    Returns:
      A key of the kind of `key`.

    Raises:
      DtypeOverflowError: a Python integer does not fit uint32.
      ValueRangeError: `data` is no scalar.

    Example:
      >>> key = ft.random.key(0)
      >>> ft.vmap(lambda i: ft.random.uniform(ft.random.fold_in(key, i)))(fnp.arange(3))
      Array([0.8423141 , 0.00729382, 0.9024495 ], dtype=float32)
    """
    if isinstance(data, int):
        if not 0 <= data < 1 << 32:
            raise errors.DtypeOverflowError(
                f"random.fold_in takes an unsigned integer of 32 bits, got {data}"
            )
        data = word(data, dtypes.uint32)
    if aval_of(data).shape:
        raise errors.ValueRangeError(
            f"random.fold_in takes a scalar, got {aval_of(data)!r}; use vmap for "
            "several"
        )
    return draw(fold_key, check_key("fold_in", key), data)


def key_data(keys: Any) -> Any:
    """The words of keys; raw keys as they are.

    Args:
      keys: keys of any shape.

    Returns:
      uint32, with one more axis: of two words, or of four for "rbg".

    Raises:
      ArgumentError: they are no keys.

    Example:
      >>> ft.random.key_data(ft.random.key(42))
      Array([ 0, 42], dtype=uint32)
    """
    check_keys("key_data", keys)
    return draw(unwrap, keys) if dtypes.is_key(keys.dtype) else keys


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Keys from their words, along the last axis of a uint32 array.

    Args:
      key_bits_array: the words: two for each key of "threefry2x32", else four.
      impl, dtype: the generator: see `key_dtype`.

    Raises:
      ArgumentError: it is of another shape or dtype.

    Example:
      >>> ft.random.wrap_key_data(fnp.array([0, 42], np.uint32)) == ft.random.key(42)
      Array(True, dtype=bool)
    """
    found = _choose_dtype(impl, dtype)
    words = found.itemsize // 4
    check_keys("wrap_key_data", key_bits_array, words)
    if dtypes.is_key(key_bits_array.dtype):
        raise errors.ArgumentError(
            "random.wrap_key_data takes uint32 words, got keys; use them as they are"
        )
    return draw(wrap, key_bits_array, dtype=found)


def key_impl(keys: Any) -> str:
    """The name of the generator, as `key_dtype` takes it.

    Args:
      keys: keys of any shape, or raw ones.

    Example:
      >>> ft.random.key_impl(ft.random.key(0))
      'threefry2x32'
    """
    check_keys("key_impl", keys)
    if not dtypes.is_key(keys.dtype):
        return "threefry2x32" if keys.shape[-1] == 2 else "rbg"
    return next(name for name, dtype in dtypes.KEYS.items() if dtype == keys.dtype)


def clone(key: Any) -> Any:
    """The same key, for a second use that is meant.

    Args:
      key: a key.

    Example:
      >>> key = ft.random.key(0)
      >>> ft.random.clone(key) == key
      Array(True, dtype=bool)
    """
    check_keys("clone", key)
    return key
