"""Samples by rejection, as JAX draws them: gamma, Poisson and binomial.

Each sample of gamma has a key of its own and takes from it as many numbers as it
needs. It is a smooth function of its parameter where its distribution is held:
F(x, a) = const. So it has the derivative dx/da = -(∂F/∂a) / (∂F/∂x), which knows
nothing of how the sample was made. Of counts each step of a loop draws for all
elements, until the last of them is accepted; where a parameter makes the one method
slow, another one is used.

Source: G. Marsaglia, W. Tsang, "A simple method for generating gamma variables", ACM
TOMS 26 (2000). M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization
gradients", NeurIPS 2018.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import unwrap
from math import prod
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.lax.control import scan, while_loop
from ftrace.lax.elementwise import lgamma
from ftrace.lax.special import random_gamma_grad
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.data_types import finfo
from ftrace.random import distributions as simple, draw as how, keys
from ftrace.random.distributions import unit
from ftrace.random.draw import sampler
from ftrace.random.keys import Key
from ftrace.trace.avals import Shape
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.custom.custom_derivatives import custom_jvp
from ftrace.transforms.jit.jit import jit
from ftrace.transforms.vmap import vmap

__all__ = [
    "ball", "beta", "binomial", "chisquare", "dirichlet", "f", "gamma",
    "generalized_normal", "loggamma", "multinomial", "poisson", "t",
]  # fmt: skip


@sampler()
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The gamma distribution with shape parameter `a` and scale 1.

    It has a derivative with respect to `a`. NaN where `a` is negative.

    Args:
      key: a key.
      a: the shape parameter; broadcasts to `shape`.
      shape: of the result, by default that of `a`.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `a` does not broadcast to `shape`.

    Example:
      >>> fnp.round(ft.random.gamma(ft.random.key(0), 3.0, (3,)), 3)
      Array([2.569, 2.784, 1.968], dtype=float32)
    """
    return _sample(key, ax.broadcast_to(a, shape))


@sampler()
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The logarithm of a gamma sample, exact also where `a` is so small that it is 0.

    Args:
      key: a key.
      a: the shape parameter; broadcasts to `shape`.
      shape: of the result, by default that of `a`.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `a` does not broadcast to `shape`.

    Example:
      >>> ft.random.loggamma(ft.random.key(0), 2.0, (2,))
      Array([0.46360058, 0.5652805 ], dtype=float32)
    """
    return _log_sample(key, ax.broadcast_to(a, shape))


@partial(jit, static_argnames="one")
def _for_each(key: Key, a: Any, one: Callable[[Key, Any], Any]) -> Any:
    """A sample for each parameter, from a key of its own."""
    size = (prod(a.shape),)
    found = vmap(one)(keys.split_key(key, size), ax.reshape(a, size))
    return ax.reshape(found, a.shape)


def _one(key: Any, a: Any) -> Any:
    d, cube, boost_key = _accept(key, a)
    u = 1 - simple.unit(boost_key, (), a.dtype)
    return d * cube * ax.choose(a >= 1, 1, u ** (1 / a))


def _one_log(key: Any, a: Any) -> Any:
    d, cube, boost_key = _accept(key, a)
    log_u = fnp.log1p(-simple.unit(boost_key, (), a.dtype))
    # 0 / 0 where the uniform number is 1 and `a` is 0.
    boost = ax.choose((a >= 1) | (log_u == 0), 0, log_u * (1 / a))
    return fnp.log(d) + fnp.log(cube) + boost


def _accept(key: Any, a: Any) -> tuple[Any, Any, Key]:
    """Two factors of a sample for `a` or, below 1, a + 1; a key for the way down.

    Gamma(a) is Gamma(a + 1) times U^(1/a).
    """
    dtype = a.dtype
    zero, one = ax.full((), 0, dtype), ax.full((), 1, dtype)
    d = ax.choose(a >= 1, a, a + 1) - 1 / 3
    c = 1 / 3 / fnp.sqrt(d)

    def is_rejected(state: Any) -> Any:
        _, square, cube, u = state
        outside = u >= 1 - 0.0331 * (square * square)
        return outside & (fnp.log(u) >= square * 0.5 + d * ((1 - cube) + fnp.log(cube)))

    def draw_again(state: Any) -> Any:
        key, normal_key, uniform_key = keys.split_key(state[0], (3,))

        def next_positive(state: Any) -> Any:
            key, own = keys.split_key(state[0])
            x = unwrap(simple.normal)(own, (), dtype)
            return key, x, 1 + x * c

        first = normal_key, zero, -one
        _, x, v = while_loop(lambda state: state[2] <= 0, next_positive, first)
        return key, x * x, v * v * v, simple.unit(uniform_key, (), dtype)

    key, boost_key = keys.split_key(key)
    _, _, cube, _ = while_loop(is_rejected, draw_again, (key, zero, one, one + 1))
    return d, cube, boost_key


# The derivative.


def _implicit(one: Callable[[Key, Any], Any], logarithm: bool) -> Callable[..., Any]:
    @custom_jvp
    def sample(key: Any, a: Any) -> Any:
        return _for_each(key, a, one=one)

    @sample.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        found = sample(*primals)
        slope = _slopes(primals[1], found, logarithm=logarithm)
        return found, tangents[1] * slope

    return sample


_sample, _log_sample = _implicit(_one, False), _implicit(_one_log, True)


@partial(jit, static_argnames="logarithm")
def _slopes(a: Any, found: Any, logarithm: bool) -> Any:
    if not logarithm:
        return random_gamma_grad(a, found)
    tiny = float(finfo(found.dtype).tiny)
    sample = fnp.maximum(fnp.exp(found), tiny)
    return random_gamma_grad(a, sample) / sample


# What is made of gamma samples.


@sampler()
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The beta distribution on (0, 1).

    Args:
      key: a key.
      a, b: the shape parameters; they broadcast to `shape`.
      shape: of the result, by default that of the parameters.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: the parameters do not broadcast to `shape`.

    Example:
      >>> fnp.round(ft.random.beta(ft.random.key(0), 2.0, 3.0, (3,)), 3)
      Array([0.236, 0.49 , 0.684], dtype=float32)
    """
    pair = zip(keys.split_key(key), (a, b), strict=True)
    x, y = [unwrap(loggamma)(k, p, shape, dtype) for k, p in pair]
    greater = fnp.maximum(x, y)
    x, y = fnp.exp(x - greater), fnp.exp(y - greater)
    return x / (x + y)


@sampler()
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The χ² distribution: the sum of the squares of `df` normal samples.

    Args:
      key: a key.
      df: the degrees of freedom; broadcasts to `shape`.
      shape: of the result, by default that of `df`.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `df` does not broadcast to `shape`.

    Example:
      >>> ft.random.chisquare(ft.random.key(0), 3.0, (2,))
      Array([2.205084 , 2.4899676], dtype=float32)
    """
    return fnp.exp(unwrap(loggamma)(key, df / 2, shape, dtype)) * 2


@sampler()
def t(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Student's t distribution: a normal sample over √(χ²(df)/df).

    Args:
      key: a key.
      df: the degrees of freedom; broadcasts to `shape`.
      shape: of the result, by default that of `df`.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: `df` does not broadcast to `shape`.

    Example:
      >>> fnp.round(ft.random.t(ft.random.key(0), 3.0, (3,)), 3)
      Array([ 0.69 , -3.239, -1.675], dtype=float32)
    """
    normal_key, gamma_key = keys.split_key(key)
    x = unwrap(simple.normal)(normal_key, shape, dtype)
    return x * fnp.sqrt(df / 2 / unwrap(gamma)(gamma_key, df / 2, shape, dtype))


@sampler()
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The F distribution: (χ²(dfnum)/dfnum) / (χ²(dfden)/dfden).

    Args:
      key: a key.
      dfnum, dfden: the degrees of freedom; they broadcast to `shape`.
      shape: of the result, by default that of the parameters.
      dtype: a float dtype.

    Raises:
      DtypeError: the dtype is no float.
      ShapeError: the parameters do not broadcast to `shape`.

    Example:
      >>> ft.random.f(ft.random.key(0), 3.0, 4.0, (2,))
      Array([2.7039125 , 0.22600974], dtype=float32)
    """
    den_key, num_key = keys.split_key(key)
    top = unwrap(chisquare)(num_key, dfnum, shape, dtype) / dfnum
    return top / (unwrap(chisquare)(den_key, dfden, shape, dtype) / dfden)


def _before_last(name: str, shape: Any, alpha: Any) -> Shape:
    own = aval_of(alpha).shape
    if not own:
        raise ShapeError(f"random.{name}: alpha must have an axis, got a scalar")
    if shape is None:
        return own
    shape = how.as_shape(name, shape)
    return how.common_shape(name, (*shape, own[-1]), alpha)


@sampler(shape_of=_before_last)
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The Dirichlet distribution: vectors of positive numbers whose sum is 1.

    Args:
      key: a key.
      alpha: the concentrations, along the last axis.
      shape: of the result without its last axis, by default that of `alpha`.
      dtype: a float dtype.

    Raises:
      ShapeError: `alpha` has no axis, or does not broadcast to `shape`.

    Example:
      >>> alpha = fnp.array([1.0, 1.0, 8.0])
      >>> fnp.round(ft.random.dirichlet(ft.random.key(0), alpha), 3)
      Array([0.08 , 0.093, 0.827], dtype=float32)
    """
    logs = unwrap(loggamma)(key, alpha, shape, dtype)
    parts = fnp.exp(logs - fnp.max(logs, -1, keepdims=True))
    return parts / fnp.sum(parts, -1, keepdims=True)


@sampler()
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The distribution with the density exp(-|x|^p), but for a factor.

    Args:
      key: a key.
      p: a positive number: 1 is Laplace, 2 normal of variance ½.
      shape: of the result.
      dtype: a float dtype, by default float32.

    Raises:
      DtypeError: the dtype is no float.

    Example:
      >>> ft.random.generalized_normal(ft.random.key(0), 2.0, (2,))
      Array([0.9542763 , 0.09015025], dtype=float32)
    """
    gamma_key, sign_key = keys.split_key(key)
    size = unwrap(gamma)(gamma_key, 1 / p, shape, dtype) ** (1 / p)
    return unwrap(simple.rademacher)(sign_key, shape, dtype) * size


@sampler(statics=("d",))
def ball(key: Any, d: Any, p: Any = 2, shape: Any = (), dtype: Any = None) -> Any:
    """Points that are uniform in the unit ball of the p-norm.

    Args:
      key: a key.
      d: the number of dimensions, the last axis of the result.
      p: of the norm.
      shape: of the result without its last axis.
      dtype: a float dtype.

    Returns:
      Of shape (*shape, d).

    Source: F. Barthe, O. Guédon, S. Mendelson, A. Naor, "A probabilistic approach to
    the geometry of the l_p^n-ball", 2005.

    Example:
      >>> ft.random.ball(ft.random.key(0), 2, shape=(3,))
      Array([[ 0.917222  ,  0.39276883],
             [ 0.0426431 , -0.9093296 ],
             [ 0.12480891, -0.02475923]], dtype=float32)
    """
    d = ax.static_int(d, "random.ball: d")
    point_key, radius_key = keys.split_key(key)
    x = unwrap(generalized_normal)(point_key, p, (*shape, d), dtype)
    radius = unwrap(simple.exponential)(radius_key, shape, dtype)
    return x / ((fnp.sum(fnp.abs(x) ** p, -1) + radius) ** (1 / p))[..., None]


Dtype = np.dtype[Any]


@sampler("iu", own=lambda _: dtypes.float32)
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The number of events where `lam` are expected.

    Args:
      key: a key.
      lam: the mean; broadcasts to `shape`. It is taken in float32.
      shape: of the result, by default that of `lam`.
      dtype: an integer dtype, by default int32.

    Returns:
      The counts; -1 where `lam` is NaN or less than 0, and 0 where it is infinite.

    Raises:
      DtypeError: the dtype is no integer.

    Source: below 10 D. Knuth, TAOCP 2, 3.4.1; else W. Hörmann, "The transformed
    rejection method for generating Poisson random variables", 1993.

    Example:
      >>> ft.random.poisson(ft.random.key(0), 3.0, (6,))
      Array([0, 0, 4, 4, 1, 2], dtype=int32)
    """
    lam = ax.broadcast_to(lam, shape)
    few = (lam < 10) | ~(lam < np.inf)
    least = ax.choose(few & (lam < np.inf), lam, -1)
    found = ax.choose(
        few,
        _arrivals(key, lam, lambda u: -fnp.log(u), lambda x: x < least, False),
        _by_hat(key, ax.choose(few, 1e5, lam)),
    )
    return ax.cast(ax.choose((lam == 0) | (lam == np.inf), 0, found), dtype)


def _arrivals(key: Key, like: Any, gap: Any, goes_on: Any, last: bool) -> Any:
    """How many gaps there are before their sum ends it; `last`: the key goes on last.

    Args:
      gap: of uniform numbers.
      goes_on: of the sum of gaps.
    """

    def draw_next(state: Any) -> Any:
        key, count, passed = state
        pair = keys.split_key(key)
        key, own = pair[::-1] if last else pair
        count = ax.choose(goes_on(passed), count + 1, count)
        return key, count, passed + gap(unit(own, like.shape, like.dtype))

    zeros = fnp.zeros_like(like)
    start = key, zeros, zeros
    return while_loop(lambda state: goes_on(state[2]).any(), draw_next, start)[1] - 1


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
        key, *pair = keys.split_key(key, (3,))
        u, v = [unit(k, like.shape, like.dtype) for k in pair]
        value, good = propose(u - 0.5, v)
        return key, ax.choose(good, value, found), accepted | good

    start = key, like * 0 - 1, ax.full(like.shape, False, dtypes.bool_)

    return while_loop(lambda state: ~state[2].all(), draw_next, start)[1]


@sampler(own=lambda n, p: how.drawn_dtype(p))
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

    Example:
      >>> ft.random.binomial(ft.random.key(0), 10, 0.3, (6,))
      Array([2., 2., 1., 2., 1., 4.], dtype=float32)
    """
    n, p = (ax.broadcast_to(x, shape) for x in (n, p))
    q = ax.choose(p < 0.5, p, 1 - p)
    valid = (n >= 0) & (q >= 0)
    q, trials = ax.choose(valid, q, 0.01), fnp.floor(n)
    finite = valid & (trials < np.inf)
    few = ~finite | (n * q <= 10)
    most, log_failure = ax.choose(few & finite, trials, 0), fnp.log1p(-q)

    def gap(u: Any) -> Any:  # to the next success
        return fnp.ceil(fnp.log(u) / log_failure)

    found = ax.choose(
        few,
        _arrivals(key, q, gap, lambda x: x <= most, True),
        _by_btrs(key, ax.choose(few, 1e4, trials), ax.choose(few, 0.5, q)),
    )
    found = ax.choose(p < 0.5, found, trials - found)
    found = ax.choose(finite, found, ax.choose(valid, np.inf, np.nan))
    return ax.cast(found, dtype)


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
      dtype: of the counts, which are made in floats.
      unroll: as of `lax.scan`.

    Returns:
      Of the shape of `p`, or `shape`: along the last axis it adds up to n.

    Raises:
      ShapeError: `p` has no axis, or does not broadcast to `shape`.

    Example:
      >>> ft.random.multinomial(ft.random.key(0), 10.0, fnp.array([0.5, 0.3, 0.2]))
      Array([7., 2., 1.], dtype=float32)
    """
    wanted = how.check_dtype("multinomial", dtype, "fiucb")
    own = aval_of(p).shape
    if not own:
        raise ShapeError("random.multinomial: p must have an axis, got a scalar")
    shape = own if shape is None else how.common_shape("multinomial", shape, p)
    how.common_shape("multinomial", shape[:-1], n)
    n, p = ew.promote_inexact(n, p)
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
        count = unwrap(binomial)(key, left, ratio, left.shape, p.dtype)
        return left - count, count

    first = ax.broadcast_to(n, shape[:-1])
    _, counts = scan(next_outcome, first, (ratios, each), unroll=unroll)
    return ax.cast(fnp.moveaxis(counts, 0, -1), dtype)
