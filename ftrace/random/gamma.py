"""Gamma samples, by rejection, and the distributions that are made of them.

The draws are JAX's: each sample has a key of its own and takes from it as many numbers
as it needs. A sample is a smooth function of its parameter where its distribution is
held: F(x, a) = const. So it has the derivative dx/da = -(∂F/∂a) / (∂F/∂x), which knows
nothing of how the sample was made.

Source: G. Marsaglia, W. Tsang, "A simple method for generating gamma variables", ACM
TOMS 26 (2000). M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization
gradients", NeurIPS 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import unwrap
from math import prod
from typing import Any

import ftrace.numpy as fnp
from ftrace.errors import ShapeError
from ftrace.lax.control import while_loop
from ftrace.lax.special import random_gamma_grad
from ftrace.numpy import axes as ax
from ftrace.random import distributions as simple, draw as how, keys
from ftrace.random.draw import sampler
from ftrace.random.keys import Key
from ftrace.trace.avals import Shape
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.custom.custom_derivatives import custom_jvp
from ftrace.transforms.jit.jit import jit
from ftrace.transforms.vmap import vmap

__all__ = [
    "ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal",
    "loggamma", "t",
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
    """
    return _sample(keys.joined(key), ax.broadcast_to(a, shape))


@sampler()
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The logarithm of a gamma sample, exact also where `a` is so small that it is 0.

    Args:
      key: a key.
      a: the shape parameter; broadcasts to `shape`.
      shape: of the result, by default that of `a`.
      dtype: a float dtype.
    """
    return _log_sample(keys.joined(key), ax.broadcast_to(a, shape))


@partial(jit, static_argnames="one")
def _for_each(key: Key, a: Any, one: Callable[[Key, Any], Any]) -> Any:
    """A sample for each parameter, from a key of its own."""
    size = (prod(a.shape),)
    found = vmap(one)(keys.split_key(key, size), ax.reshape(a, size))
    return ax.reshape(found, a.shape)


def _one(key: Any, a: Any) -> Any:
    d, cube, boost_key = _accepted(key, a)
    u = 1 - simple.unit(boost_key, (), a.dtype)
    return d * cube * ax.choose(a >= 1, 1, u ** (1 / a))


def _one_log(key: Any, a: Any) -> Any:
    d, cube, boost_key = _accepted(key, a)
    log_u = fnp.log1p(-simple.unit(boost_key, (), a.dtype))
    # 0 / 0 where the uniform number is 1 and `a` is 0.
    boost = ax.choose((a >= 1) | (log_u == 0), 0, log_u * (1 / a))
    return fnp.log(d) + fnp.log(cube) + boost


def _accepted(key: Any, a: Any) -> tuple[Any, Any, Key]:
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
        key, normal_key, uniform_key = keys.split_words(state[0], 3)

        def next_positive(state: Any) -> Any:
            key, own = keys.split_in_two(state[0])
            x = unwrap(simple.normal)(own, (), dtype)
            return key, x, 1 + x * c

        def is_negative(state: Any) -> Any:
            return state[2] <= 0

        _, x, v = while_loop(is_negative, next_positive, (normal_key, zero, -one))
        return key, x * x, v * v * v, simple.unit(uniform_key, (), dtype)

    key, boost_key = keys.split_in_two(key)
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
    tiny = float(how.float_info(found.dtype).tiny)
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
    """
    pair = zip(keys.split_in_two(key), (a, b), strict=True)
    x, y = [unwrap(loggamma)(k, p, shape, dtype) for k, p in pair]
    greater = fnp.maximum(x, y)
    x, y = fnp.exp(x - greater), fnp.exp(y - greater)
    return x / (x + y)


@sampler()
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The χ² distribution with `df` degrees of freedom."""
    return fnp.exp(unwrap(loggamma)(key, df / 2, shape, dtype)) * 2


@sampler()
def t(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Student's t distribution with `df` degrees of freedom."""
    normal_key, gamma_key = keys.split_in_two(key)
    x = unwrap(simple.normal)(normal_key, shape, dtype)
    return x * fnp.sqrt(df / 2 / unwrap(gamma)(gamma_key, df / 2, shape, dtype))


@sampler()
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The F distribution with `dfnum` and `dfden` degrees of freedom."""
    den_key, num_key = keys.split_in_two(key)
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
    """
    logs = unwrap(loggamma)(key, alpha, shape, dtype)
    parts = fnp.exp(logs - fnp.max(logs, -1, keepdims=True))
    return parts / fnp.sum(parts, -1, keepdims=True)


@sampler()
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Any:
    """The distribution with the density exp(-|x|^p), but for a factor."""
    gamma_key, sign_key = keys.split_in_two(key)
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

    Source: F. Barthe, O. Guédon, S. Mendelson, A. Naor, "A probabilistic approach to
    the geometry of the l_p^n-ball", 2005.
    """
    d = ax.static_int(d, "random.ball: d")
    point_key, radius_key = keys.split_in_two(key)
    x = unwrap(generalized_normal)(point_key, p, (*shape, d), dtype)
    radius = unwrap(simple.exponential)(radius_key, shape, dtype)
    return x / ((fnp.sum(fnp.abs(x) ** p, -1) + radius) ** (1 / p))[..., None]
