"""Special functions under JAX's `lax` names: operands of one float dtype."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from inspect import signature
from typing import Any, TypeVar, cast as cast_to

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError
from ftrace.lax import gammas, incomplete
from ftrace.lax.elementwise import check_dtypes, check_ranks
from ftrace.lax.gammas import compose
from ftrace.numpy.axes import bound_to
from ftrace.numpy.floats import bessel

__all__ = [
    "bessel_i0e", "bessel_i1e", "betainc", "igamma", "igamma_grad_a", "igammac",
    "polygamma", "random_gamma_grad", "regularized_incomplete_beta", "zeta",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def _strict(function: F) -> F:
    """A composition of floats that are of one dtype, and of one shape or scalars."""
    inner, parameters = compose(function), signature(function)
    name = function.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        operands = bound_to(function, parameters, args, kwargs).values()
        dtype = check_dtypes(name, *operands)
        if not dtypes.is_float(dtype):
            raise DtypeError(f"lax.{name} takes floats, got {dtype}; convert them")
        check_ranks(name, *operands)
        return inner(*operands)

    return cast_to(F, update_wrapper(call, function))


@_strict
def igamma(a: Any, x: Any) -> Any:
    """P(a, x), the regularized lower incomplete gamma function."""
    return incomplete.lower_gamma(*fnp.broadcast_arrays(a, x))


@_strict
def igammac(a: Any, x: Any) -> Any:
    """1 - igamma(a, x), exact also where that is near 0."""
    return incomplete.upper_gamma(*fnp.broadcast_arrays(a, x))


@_strict
def igamma_grad_a(a: Any, x: Any) -> Any:
    """The derivative of igamma in a."""
    return incomplete.gamma_slope(*fnp.broadcast_arrays(a, x))


@_strict
def random_gamma_grad(a: Any, sample: Any) -> Any:
    """How a sample of the gamma distribution of shape a moves with a."""
    return incomplete.gamma_sample_slope(*fnp.broadcast_arrays(a, sample))


@_strict
def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function of x in [0, 1]."""
    return incomplete.beta_ratio(*fnp.broadcast_arrays(a, b, x))


regularized_incomplete_beta = betainc


@_strict
def bessel_i0e(x: Any) -> Any:
    """exp(-|x|)·I₀(x), I₀ the modified Bessel function of the first kind."""
    return bessel("bessel_i0e", x, 0, scaled=True)


@_strict
def bessel_i1e(x: Any) -> Any:
    """exp(-|x|)·I₁(x), I₁ the modified Bessel function of the first kind."""
    return bessel("bessel_i1e", x, 1, scaled=True)


@_strict
def polygamma(m: Any, x: Any) -> Any:
    """The m-th derivative of digamma; m a whole number as a float."""
    return gammas.poly_gamma(*fnp.broadcast_arrays(m, x))


@_strict
def zeta(x: Any, q: Any) -> Any:
    """Hurwitz's ζ(x, q) = Σ (q + k)^-x for x > 1."""
    return gammas.hurwitz_zeta(x, q)
