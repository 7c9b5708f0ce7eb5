"""Chains of elementwise operations: one pass over memory each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.inputs import integers, normal, uniform
from benchmarks.row import Family

FAMILY = Family("elementwise")
N = 4 << 20  # elements of an array, where the name says 4M


@FAMILY.row("add 4M", lambda: (normal(N), normal(N, seed=1)), bytes=True)
def add(_: Any) -> Any:
    return lambda a, b: a + b


@add.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda a, b: a + b


@FAMILY.row("axpy 4M", lambda: (normal(N), normal(N, seed=1)), bytes=True)
def axpy(_: Any) -> Any:
    return lambda x, y: 2.5 * x + y


@axpy.peer("numpy")
def _(_: Any) -> Any:
    return lambda x, y: 2.5 * x + y


@axpy.peer("torch")
def _(torch: Any) -> Any:
    return lambda x, y: torch.add(y, x, alpha=2.5)


@FAMILY.row("exp 4M", lambda: (normal(N),), bytes=True)
def exp(lib: Any) -> Any:
    return lib.np.exp


@exp.peer("torch", "numpy")
def _(module: Any) -> Any:
    return module.exp


@FAMILY.row("gelu 4M", lambda: (normal(N),), bytes=True)
def gelu(lib: Any) -> Any:
    return lib.nn.gelu


@gelu.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.nn.functional.gelu(x, approximate="tanh")


def swish_tanh(sigmoid: Any, tanh: Any) -> Any:
    return lambda x: x * sigmoid(x) * tanh(x) + 0.5 * x


@FAMILY.row("swish·tanh 4M", lambda: (normal(N),), bytes=True)
def chain(lib: Any) -> Any:
    return swish_tanh(lib.nn.sigmoid, lib.np.tanh)


@chain.peer("torch")
def _(torch: Any) -> Any:
    return swish_tanh(torch.sigmoid, torch.tanh)


@FAMILY.row("gradient of swish·tanh 4M", lambda: (normal(N),), bytes=True)
def chain_gradient(lib: Any) -> Any:
    function = swish_tanh(lib.nn.sigmoid, lib.np.tanh)
    return lib.grad(lambda x: lib.np.sum(function(x)))


@chain_gradient.peer("torch")
def _(torch: Any) -> Any:
    function = swish_tanh(torch.sigmoid, torch.tanh)

    def gradient(x: Any) -> Any:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(function(x).sum(), x)[0]

    return gradient


def black_scholes(log: Any, sqrt: Any, exp: Any, erf: Any) -> Any:
    """Prices of European calls and puts: Black & Scholes 1973."""

    def normal_cdf(x: Any) -> Any:
        return 0.5 * (1 + erf(x * (1 / math.sqrt(2))))

    def price(spot: Any, strike: Any, years: Any) -> Any:
        rate, volatility = 0.02, 0.3
        deviation = volatility * sqrt(years)
        d1 = (log(spot / strike) + (rate + volatility**2 / 2) * years) / deviation
        d2 = d1 - deviation
        discounted = strike * exp(-rate * years)
        call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
        return call, call + discounted - spot

    return price


def options() -> tuple[Any, ...]:
    size = 1 << 20
    return (
        uniform(size, low=10, high=50, seed=1),
        uniform(size, low=10, high=50, seed=2),
        uniform(size, low=0.2, high=2, seed=3),
    )


@FAMILY.row("black-scholes 1M", options, bytes=True)
def pricing(lib: Any) -> Any:
    return black_scholes(lib.np.log, lib.np.sqrt, lib.np.exp, lib.lax.erf)


@pricing.peer("torch")
def _(torch: Any) -> Any:
    return black_scholes(torch.log, torch.sqrt, torch.exp, torch.erf)


@FAMILY.row(
    "integer hash 4M",
    lambda: (integers(N, high=1 << 32, dtype=np.uint32),),
    bytes=True,
    tolerance=0.0,
)
def integer_hash(_: Any) -> Any:
    """The 32-bit mixer "lowbias32" found by C. Wellons (2018)."""
    first, second = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)

    def mix(x: Any) -> Any:
        x = (x ^ (x >> 16)) * first
        x = (x ^ (x >> 15)) * second
        return x ^ (x >> 16)

    return mix


@integer_hash.peer("numpy")
def _(np: Any) -> Any:
    return integer_hash.build(np) if integer_hash.build else None


@FAMILY.row("where/clip 4M", lambda: (normal(N), normal(N, seed=1)), bytes=True)
def where_clip(lib: Any) -> Any:
    return lambda x, y: lib.np.where(x > 0, lib.np.clip(x, 0.1, 1.0), 0.1 * y)


@where_clip.peer("torch", "numpy")
def _(module: Any) -> Any:
    return lambda x, y: module.where(x > 0, module.clip(x, 0.1, 1.0), 0.1 * y)


@FAMILY.row(
    "sin + cos·log 4M",
    lambda: (normal(N, scale=3), uniform(N, low=0.1, high=9, seed=1)),
    bytes=True,
)
def sin_cos_log(lib: Any) -> Any:
    return lambda x, y: lib.np.sin(x) + lib.np.cos(x) * lib.np.log(y)


@sin_cos_log.peer("torch", "numpy")
def _(module: Any) -> Any:
    return lambda x, y: module.sin(x) + module.cos(x) * module.log(y)
