"""`jax.extend.random`: the generators of keys, by their names, and threefry itself."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ftrace import dtypes, numpy as fnp, random
from ftrace.errors import ArgumentError
from ftrace.ground.missing_names import tell_missing
from ftrace.random.draw import draw
from ftrace.random.keys import hash_under
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.vmap import vmap

threefry_prng_impl: Final = "threefry2x32"
rbg_prng_impl: Final = "rbg"
unsafe_rbg_prng_impl: Final = "unsafe_rbg"


def seed_with_impl(impl: Any, seed: Any) -> Any:
    """The key of an integer seed, for a generator."""
    return random.key(seed, impl=impl)


def random_seed(seeds: Any, impl: Any) -> Any:
    """A key for each of the integers."""
    made = partial(random.key, impl=impl)
    for _ in fnp.shape(seeds):
        made = vmap(made)
    return made(seeds)


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Threefry-2x32 of counters: the first half of them beside the second half.

    Args:
      keypair: the two words of a key, uint32: an array, or a pair.
      count: uint32, of any shape; an odd number of them is filled up by 0.

    Returns:
      uint32 of the shape of `count`.

    Raises:
      ArgumentError: they are no such words.
    """
    words = fnp.asarray(keypair)
    counters = fnp.asarray(count)
    if words.shape != (2,) or {words.dtype, counters.dtype} != {dtypes.uint32}:
        raise ArgumentError(
            "threefry_2x32 takes two words of uint32 and counters of uint32, got "
            f"{aval_of(words)!r} and {aval_of(counters)!r}"
        )
    odd = counters.size % 2
    pairs = fnp.pad(counters.ravel(), (0, odd)).reshape(2, -1).T
    found = draw(hash_under, words, pairs).T.ravel()
    return found[: counters.size].reshape(counters.shape)


tell_missing(__name__)
