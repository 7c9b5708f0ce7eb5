"""Counts: Poisson, binomial and multinomial samples, as JAX draws them.

Each step of a loop draws for all elements, until the last of them is accepted; where a
parameter makes the one method slow, another one is used.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.lax.control import scan, while_loop
from ftrace.lax.elementwise import lgamma
from ftrace.numpy import axes as ax
from ftrace.numpy.elementwise import promote_inexact
from ftrace.random import draw as how, keys
from ftrace.random.distributions import unit
from ftrace.random.keys import Key
from ftrace.trace.avals import Shape
from ftrace.trace.tracing.tracer import aval_of

__all__ = ["binomial", "multinomial", "poisson"]

Dtype = np.dtype[Any]


def poisson(
    key: Any,
    lam: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The number of events where `lam` are expected.

    Args:
      key: a key.
      lam: the mean; broadcasts to `shape`. It is taken in float32.
      shape: of the result, by default that of `lam`.
      dtype: an integer dtype, by default int32.
      out_sharding: accepted, without effect.

    Returns:
      The counts; -1 where `lam` is NaN.

    Raises:
      DtypeError: the dtype is no integer.

    Source: below 10 D. Knuth, TAOCP 2, 3.4.1; else W. Hörmann, "The transformed
    rejection method for generating Poisson random variables", 1993.
    """
    wanted = how.check_dtype("poisson", dtype, "iu")
    shape = how.common_shape("poisson", shape, lam)
    lam, key = how.parameter(lam, dtypes.float32), how.check_key("poisson", key)
    return how.draw(_poisson, key, lam, shape=shape, dtype=wanted)


def _poisson(key: Key, lam: Any, shape: Shape, dtype: Dtype) -> Any:
    lam = ax.broadcast_to(ax.cast(lam, dtypes.float32), shape)
    few = (lam < 10) | ~(lam < np.inf)
    found = ax.choose(
        few,
        _by_products(key, ax.choose(few & (lam < np.inf), lam, -1)),
        _by_hat(key, ax.choose(few, 1e5, lam)),
    )
    return ax.cast(ax.choose(lam == 0, 0, found), dtype)


def _by_products(key: Key, lam: Any) -> Any:
    """How many uniform numbers have a product above exp(-lam)."""

    def draw_next(state: Any) -> Any:
        key, count, log_product = state
        key, own = keys.split_in_two(key)
        count = ax.choose(log_product > -lam, count + 1, count)
        return key, count, log_product + fnp.log(unit(own, lam.shape, lam.dtype))

    start = keys.words_of(key), lam * 0, lam * 0

    def goes_on(state: Any) -> Any:
        return (state[2] > -lam).any()

    return while_loop(goes_on, draw_next, start)[1] - 1


def _by_hat(key: Key, lam: Any) -> Any:
    log_lam, b = fnp.log(lam), 0.931 + 2.53 * fnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inv_alpha, v_r = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        side = 0.5 - fnp.abs(u)
        k = fnp.floor((2 * a / side + b) * u + lam + 0.43)
        s = fnp.log(v * inv_alpha / (a / (side * side) + b))
        quick = (side >= 0.07) & (v <= v_r)
        bad = (k < 0) | ((side < 0.013) & (v > side))
        return k, quick | (~bad & (s <= -lam + k * log_lam - lgamma(k + 1)))

    return _reject(key, propose, lam)


def _reject(key: Key, propose: Any, like: Any) -> Any:
    """Values of `propose(u, v)`, uniform in [-1/2, 1/2) and [0, 1): those accepted."""

    def draw_next(state: Any) -> Any:
        key, found, accepted = state
        key, *pair = keys.split_words(key, 3)
        u, v = [unit(k, like.shape, like.dtype) for k in pair]
        value, good = propose(u - 0.5, v)
        return key, ax.choose(good, value, found), accepted | good

    start = keys.words_of(key), like * 0 - 1, ax.full(like.shape, False, dtypes.bool_)

    def goes_on(state: Any) -> Any:
        return ~state[2].all()

    return while_loop(goes_on, draw_next, start)[1]


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The number of successes among `n` trials with probability `p`.

    Args:
      key: a key.
      n: numbers of trials, rounded down; they broadcast to `shape`.
      p: probabilities; they broadcast to `shape`.
      shape: of the result, by default that of the parameters.
      dtype: a float dtype.

    Returns:
      The counts as floats; NaN where `n` is negative or `p` is not in [0, 1].

    Raises:
      DtypeError: the dtype is no float.

    Source: V. Kachitvichyanukul, B. Schmeiser, "Binomial random variate generation",
    1988; for n·p above 10 W. Hörmann, "The generation of binomial random variates",
    1993, algorithm BTRS.
    """
    wanted = how.check_dtype("binomial", dtype)
    shape = how.common_shape("binomial", shape, n, p)
    own = how.drawn_dtype(p)
    n, p = how.parameter(n, own), how.parameter(p, own)
    key = how.check_key("binomial", key)
    return how.draw(_binomial, key, n, p, shape=shape, own=own, dtype=wanted)


def _binomial(key: Key, n: Any, p: Any, shape: Shape, own: Dtype, dtype: Dtype) -> Any:
    n, p = (ax.broadcast_to(ax.cast(x, own), shape) for x in (n, p))
    q = ax.choose(p < 0.5, p, 1 - p)
    valid = (n >= 0) & (q >= 0)
    q, trials = ax.choose(valid, q, 0.01), fnp.floor(n)
    finite = valid & (trials < np.inf)
    few = ~finite | (n * q <= 10)
    found = ax.choose(
        few,
        _by_gaps(key, ax.choose(few & finite, trials, 0), q),
        _by_btrs(key, ax.choose(few, 1e4, trials), ax.choose(few, 0.5, q)),
    )
    found = ax.choose(p < 0.5, found, trials - found)
    found = ax.choose(finite, found, ax.choose(valid, np.inf, np.nan))
    return ax.cast(found, dtype)


def _by_gaps(key: Key, n: Any, p: Any) -> Any:
    """Adds up the trials until the next success, which are geometric."""
    log_failure = fnp.log1p(-p)

    def draw_next(state: Any) -> Any:
        key, count, passed = state
        own, key = keys.split_in_two(key)
        count = ax.choose(passed <= n, count + 1, count)
        gap = fnp.ceil(fnp.log(unit(own, p.shape, p.dtype)) / log_failure)
        return key, count, passed + gap

    start = keys.words_of(key), p * 0, p * 0

    def goes_on(state: Any) -> Any:
        return (state[2] <= n).any()

    return while_loop(goes_on, draw_next, start)[1] - 1


def _by_btrs(key: Key, n: Any, p: Any) -> Any:
    stddev = fnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * stddev
    a, c, v_r = -0.0873 + 0.0248 * b + 0.01 * p, n * p + 0.5, 0.92 - 4.2 / b
    r, alpha, m = p / (1 - p), (2.83 + 5.1 / b) * stddev, fnp.floor((n + 1) * p)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        side = 0.5 - fnp.abs(u)
        k = fnp.floor((2 * a / side + b) * u + c)
        bound = (
            (m + 0.5) * fnp.log((m + 1) / (r * (n - m + 1)))
            + (n + 1) * fnp.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * fnp.log(r * (n - k + 1) / (k + 1))
            + (_stirling_tail(m) + _stirling_tail(n - m))
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        quick = (side >= 0.07) & (v <= v_r)
        s = fnp.log(v * alpha / (a / (side * side) + b))
        return k, quick | ((k >= 0) & (k <= n) & (s <= bound))

    return _reject(key, propose, n)


#: log k! - (Stirling's formula for it) for k = 0, …, 9.
_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: Any) -> Any:
    """log k! - ((k + 1/2)·log(k + 1) - (k + 1) + log √2π)."""
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    known = fnp.asarray(np.asarray(_TAILS, k.dtype))
    place = ax.cast(fnp.clip(k, 0, 9), dtypes.int32)
    return ax.choose(k <= 9, known[place], series)


def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: Any = 1
) -> Any:
    """How often each outcome comes in `n` trials.

    Args:
      key: a key.
      n: numbers of trials, of the shape of `p` without its last axis, or less.
      p: the probabilities of the outcomes, along the last axis.
      shape: of the result, to which `p` broadcasts; by default that of `p`.
      dtype: a float dtype.
      unroll: as of `lax.scan`.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `p` has no axis, or does not broadcast to `shape`.
    """
    wanted = how.check_dtype("multinomial", dtype)
    own = aval_of(p).shape
    if not own:
        raise ShapeError("random.multinomial: p must have an axis, got a scalar")
    shape = own if shape is None else how.common_shape("multinomial", shape, p)
    how.common_shape("multinomial", shape[:-1], n)
    n, p = promote_inexact(n, p)
    key = how.check_key("multinomial", key)
    draw = partial(how.draw, _multinomial, key, n, p)
    return draw(shape=shape, dtype=wanted, unroll=unroll)


def _multinomial(
    key: Key, n: Any, p: Any, shape: Shape, dtype: Dtype, unroll: Any
) -> Any:
    p = fnp.moveaxis(ax.broadcast_to(p, shape), -1, 0)
    rest = fnp.flip(fnp.cumsum(fnp.flip(p, 0), 0), 0)
    ratios = fnp.clip(p / ax.choose(rest == 0, 1, rest), 0, 1)
    each = keys.split_key(key, p.shape[:1])

    def next_outcome(left: Any, given: Any) -> Any:
        ratio, key = given
        count = _binomial(key, left, ratio, left.shape, p.dtype, p.dtype)
        return left - count, count

    first = ax.broadcast_to(n, shape[:-1])
    _, counts = scan(next_outcome, first, (ratios, each), unroll=unroll)
    return ax.cast(fnp.moveaxis(counts, 0, -1), dtype)
