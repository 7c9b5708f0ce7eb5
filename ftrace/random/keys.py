"""Keys: what every sampler is given instead of a hidden state.

A key is a uint32 array of shape (2,), as JAX's raw keys are: `key(0)` and
`PRNGKey(0)` are the same. Arrays of keys have one more axis, the last, so that
indexing, unpacking, `vmap` and `scan` over their leading axes do what they do for
JAX's typed keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.array import Array
from ftrace.errors import DtypeError, DtypeOverflowError, ValueRangeError
from ftrace.random.draw import as_shape, check_key, check_keys, draw, word
from ftrace.random.threefry import fold_key, seed_key, split_key
from ftrace.trace.eager import Eager
from ftrace.trace.scopes import current_scope
from ftrace.trace.tape import recording
from ftrace.trace.tracer import aval_of

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
        if current_scope() is None:
            return _seeded(None, int(seed))
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


def _of_seed(_: None, seed: int) -> Any:
    """The key of a Python integer; native code does the same for all of them."""
    made = Array.of(_halves(seed))
    if recording.tape is not None:
        recording.tape.note(_halves, [seed], made)
    return made


def _halves(seed: int) -> Any:
    """What `seed_key` makes of an integer."""
    number = _as_integer(seed)
    high = int(number) >> 32 & 0xFFFFFFFF if number.dtype.itemsize == 8 else 0
    return np.array((high, int(number) & 0xFFFFFFFF), np.uint32)


#: An integer at the second place is one that decides nothing.
_seeded = Eager(_of_seed, False, __name__, indexed=True)


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
