"""The normal distribution of mean `loc` and standard deviation `scale`."""

from __future__ import annotations

import math
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.numpy.axes import cast
from ftrace.numpy.elementwise import promote_inexact
from ftrace.scipy.special import log_ndtr, ndtr, ndtri
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.tracing.tracer import Value

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _standard(x: Value, loc: Value, scale: Value) -> Any:
    x, loc, scale = promote_inexact(x, loc, scale)
    return (x - loc) / scale


def _place(z: Any, loc: Value, scale: Value) -> Any:
    placed = z * scale + loc
    default = dtypes.default_dtype("f"), False  # it may have 64 bits
    return cast(placed, dtypes.promote((placed.dtype, placed.weak_type), default)[0])


def logpdf(x: Value, loc: Value = 0, scale: Value = 1) -> Any:
    """The logarithm of the density."""
    x, loc, scale = promote_inexact(x, loc, scale)
    z = (x - loc) / scale
    return z * z * -0.5 - 0.5 * math.log(2 * math.pi) - fnp.log(scale)


def pdf(x: Value, loc: Value = 0, scale: Value = 1) -> Any:
    """The density."""
    return fnp.exp(logpdf(x, loc, scale))


def cdf(x: Value, loc: Value = 0, scale: Value = 1) -> Any:
    """The probability of a value up to x."""
    return ndtr(_standard(x, loc, scale))


def logcdf(x: Value, loc: Value = 0, scale: Value = 1) -> Any:
    """The logarithm of `cdf`, exact also where that underflows."""
    return log_ndtr(_standard(x, loc, scale))


def sf(x: Value, loc: Value = 0, scale: Value = 1) -> Any:
    """The probability of a value beyond x."""
    return ndtr(-_standard(x, loc, scale))


def logsf(x: Value, loc: Value = 0, scale: Value = 1) -> Any:
    """The logarithm of `sf`, exact also where that underflows."""
    return log_ndtr(-_standard(x, loc, scale))


def ppf(q: Value, loc: Value = 0, scale: Value = 1) -> Any:
    """The value whose `cdf` is q."""
    return _place(ndtri(q), loc, scale)


def isf(q: Value, loc: Value = 0, scale: Value = 1) -> Any:
    """The value whose `sf` is q."""
    return _place(-ndtri(q), loc, scale)


publish(__name__, operands=__all__)
