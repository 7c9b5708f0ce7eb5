"""Complex functions of special arguments: one set of values, that of C99, Annex G.

The table is Python's `cmath`, which raises where C signals; there it is the C library
through NumPy. C leaves open the signs of some infinities beside NaN, and of zeros.
"""

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.backends.llvm.target import host_target

inf, nan = math.inf, math.nan

#: Another name in NumPy and here.
NAMES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atanh": "arctanh",
}  # fmt: skip
#: Of C17, where an exact zero stays beside NaN; `cmath` has what C99 had.
AMENDED: dict[str, Callable[[complex], complex | None]] = {
    "tanh": lambda z: (
        complex(z.real, nan) if z.real == 0 and z.imag != z.imag else None
    ),
    "tan": lambda z: complex(nan, z.imag) if z.imag == 0 and z.real != z.real else None,
    "acosh": lambda z: (
        complex(nan, math.pi / 2) if z.real == 0 and z.imag != z.imag else None
    ),
}


def of_library(name: str) -> Callable[[complex], complex]:
    """The function of `cmath`; where it raises that of the C library."""

    def function(z: complex) -> complex:
        amended = AMENDED.get(name, lambda z: None)(z)
        if amended is not None:
            return amended
        try:
            return getattr(cmath, name)(z)
        except (ValueError, OverflowError):
            with np.errstate(all="ignore"):
                return complex(getattr(np, NAMES.get(name, name))(np.complex128(z)))

    return function


exp, log = of_library("exp"), of_library("log")


def in_parts(function: Callable[[float], float], z: complex) -> complex:
    return complex(function(z.real), function(z.imag))


def is_tiny(z: complex) -> bool:
    return abs(z.real) < 1e-30 and abs(z.imag) < 1e-30


def minus_one(z: complex) -> complex:
    return complex(z.real - 1, z.imag)


def log1p(z: complex) -> complex:
    return z if is_tiny(z) else log(complex(1 + z.real, z.imag))


def square(z: complex) -> complex:
    x, y = z.real, z.imag
    even = 0 in (x - y, x + y)
    return complex(0 if even else (x - y) * (x + y), 2 * (x * y))


def reciprocal(z: complex) -> complex:
    return 1 / z if z else complex(inf, nan)


def rsqrt(z: complex) -> complex:
    return 1 / cmath.sqrt(z) if z else complex(inf, nan)


def logistic(z: complex) -> complex:
    e = exp(z if z.real < 0 else -z)
    return (e if z.real < 0 else 1) / (1 + e)


def sign(z: complex) -> complex:
    if not z or cmath.isinf(z):
        return z if not z else in_parts(lambda x: nan if math.isinf(x) else x / inf, z)
    z = in_parts(lambda x: x / 4, z) if abs(z.real) > 1 or abs(z.imag) > 1 else z
    length = math.hypot(z.real, z.imag)
    return in_parts(lambda x: x / length, z)


TABLE: dict[str, Callable[[complex], complex]] = {
    "exp": exp,
    "exp2": lambda z: exp(complex(z.real * math.log(2), z.imag * math.log(2))),
    "expm1": lambda z: z if is_tiny(z) else minus_one(exp(z)),
    "log": log,
    "log2": lambda z: in_parts(lambda x: x / math.log(2), log(z)),
    "log10": lambda z: in_parts(lambda x: x / math.log(10), log(z)),
    "log1p": log1p,
    "square": square,
    "reciprocal": reciprocal,
    "rsqrt": rsqrt,
    "logistic": logistic,
    "sign": sign,
    "conj": lambda z: complex(z.real, -z.imag),
    "negative": lambda z: complex(-z.real, -z.imag),
    "absolute": lambda z: complex(math.hypot(z.real, z.imag)),
    "sqrt": of_library("sqrt"),
} | {
    name: of_library(name)
    for hyperbolic in ("", "h")
    for inverse in ("", "a")
    for name in (f"{inverse}{n}{hyperbolic}" for n in ("sin", "cos", "tan"))
}


def grid(dtype: Any) -> Any:
    info = np.finfo(dtype)
    parts = np.array(
        [0.0, -0.0, 1, -2, inf, -inf, nan, info.max * 0.9, info.tiny / 8], info.dtype
    )
    z = np.empty((9, 9), dtype)
    z.real, z.imag = parts, parts[:, None]
    return z.ravel()


def assert_is(
    got: Any, wanted: Any, z: Any, atol: float, rtol: float, mode: str
) -> None:
    """Each part equal, or both NaN; the sign of an infinity only without NaN."""
    for x, w, beside in (
        (got.real, wanted.real, wanted.imag), (got.imag, wanted.imag, wanted.real)
    ):  # fmt: skip
        free = np.isinf(w) & np.isnan(beside)
        x, w = np.where(free, np.abs(x), x), np.where(free, np.abs(w), w)
        with np.errstate(all="ignore"):
            same = (x == w) | (np.isnan(x) & np.isnan(w))
            same |= np.isfinite(w) & (np.abs(x - w) <= atol + rtol * np.abs(w))
        bad = np.flatnonzero(~same)[:5]
        assert not bad.size, (mode, [(z[i], got[i], wanted[i]) for i in bad])


#: NumPy before 2.3, as on Python 3.10, has other signs for infinities beside NaN, where
#: C leaves them open, than code for jit; and acosh(0 + NaN·i) is not C's.
RECENT_NUMPY = np.lib.NumpyVersion(np.__version__) >= "2.3.0"


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", TABLE)
def test_complex_values_are_those_of_c_in_every_mode(name: str, dtype: Any) -> None:
    z = grid(dtype)
    if name == "exp2":  # im·log 2 is rounded: of a large one nothing is left
        z = z[~(np.isfinite(z.imag) & (np.abs(z.imag) > 1e9))]
    if name == "acosh" and not RECENT_NUMPY:
        z = z[(z.real != 0) | ~np.isnan(z.imag)]
    function = getattr(fnp, name, None) or getattr(lax, name)
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        wanted = np.array([TABLE[name](complex(x)) for x in z]).astype(dtype)
    compiled = ft.jit(function)
    x = fnp.asarray(z)
    with ft.config(device="interpreter"):
        interpreted = np.asarray(ft.jit(function)(z))
    values = {
        "jit": np.asarray(compiled(z)),
        "interpreter": interpreted,
        "vmap": np.asarray(ft.vmap(function)(z)),
        "vmap of jit": np.asarray(ft.jit(ft.vmap(function))(z)),
        **{f"call {i}": np.asarray(function(x)) for i in range(13)},
    }
    for mode, got in values.items():
        assert_is(got.astype(dtype), wanted, z, float(info.tiny), 8 * info.eps, mode)
        for part in (np.real, np.imag):  # also the signs that C leaves open
            x, y = part(got), part(values["jit"])
            infinite = np.isinf(x) & (RECENT_NUMPY | ~np.isnan(got))
            np.testing.assert_array_equal(x[infinite], y[infinite], mode)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_powers_are_the_same_in_every_mode(dtype: Any) -> None:
    parts = grid(dtype)
    z, w = (x.ravel() for x in np.meshgrid(parts, parts))
    exact = (np.abs(w) < 10) & (np.abs(z) < 10) | ~(np.isfinite(z) & np.isfinite(w))
    z, w = z[exact], w[exact]
    compiled = np.asarray(ft.jit(fnp.power)(z, w))
    with ft.config(device="interpreter"):
        interpreted = np.asarray(ft.jit(fnp.power)(z, w))
    few = [slice(i, i + 9) for i in range(0, len(z), 9)]
    eager = [np.asarray(fnp.asarray(z[i]) ** fnp.asarray(w[i])) for i in few]
    info = np.finfo(dtype)
    for found in (interpreted, np.concatenate(eager)):
        for part in (np.real, np.imag):
            a, b = part(found), part(compiled)
            bound = info.tiny + 2e3 * info.eps * np.abs(compiled)  # log z: 745
            with np.errstate(all="ignore"):
                same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound)
            assert same.all(), (z[~same][:3], w[~same][:3])


@pytest.mark.skipif(not host_target().fma, reason="NumPy's product rounds once less")
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["multiply", "divide"])
def test_complex_products_and_quotients_are_the_same_in_every_mode(
    name: str, dtype: Any
) -> None:
    """Also where a part overflows on the way, and the signs of zeros."""
    info = np.finfo(dtype)
    z, w = (x.ravel() for x in np.meshgrid(grid(dtype), grid(dtype)))
    z, w = np.append(z, 2 + 4j).astype(dtype), np.append(w, 1 + 2j).astype(dtype)
    function = getattr(fnp, name)
    compiled = np.asarray(ft.jit(function)(z, w))
    with ft.config(device="interpreter"):
        interpreted = np.asarray(ft.jit(function)(z, w))
    x, y = fnp.asarray(z), fnp.asarray(w)
    alone = [function(x[i : i + 1], y[i : i + 1]) for i in range(0, len(z), 7)]
    modes = [
        (interpreted, compiled),
        (np.asarray(function(x, y)), compiled),
        (np.concatenate(alone), compiled[::7]),
        (np.asarray(function(x[::-1], y[::-1])), compiled[::-1]),
        (np.asarray(ft.vmap(function)(z, w)), compiled),
        (np.asarray(ft.jvp(function, (z, w), (z, w))[0]), compiled),
    ]
    if name == "multiply":
        with np.errstate(all="ignore"):
            modes.append((np.multiply(z, w), compiled))
    for found, wanted in modes:
        for part in (np.real, np.imag):
            a, b = part(found), part(wanted)
            with np.errstate(all="ignore"):
                same = (a == b) & (np.signbit(a) == np.signbit(b))
                near = np.abs(a - b) <= 4 * info.eps * (np.abs(b) + info.tiny)
            same |= (near & (b != 0)) | (np.isnan(a) & np.isnan(b))
            assert same.all(), (z[~same][:3], w[~same][:3])


def test_a_complex_number_keeps_its_bits_beside_complex128() -> None:
    number = 0.1 - 1j / 3
    for x in (np.ones(2, np.complex128), np.ones(2)):
        for operation in (fnp.multiply, fnp.add, fnp.divide):
            wanted = operation(x, np.asarray(number))
            np.testing.assert_array_equal(operation(fnp.asarray(x), number), wanted)


# Near the overflow of eˣ, whose product with a sine may be finite.

#: f and g of f(re)·cos(im) + i·g(re)·sin(im).
PRODUCTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (np.exp, np.exp), "expm1": (np.exp, np.exp), "exp2": (np.exp2, np.exp2),
    "sinh": (np.sinh, np.cosh), "cosh": (np.cosh, np.sinh),
}  # fmt: skip
#: Those that are another function of iz, divided by i where that is odd.
TURNED = {"sin": "sinh", "cos": "cosh", "tan": "tanh"}


def near_overflow(dtype: Any) -> Any:
    """Real parts about that at which eˣ overflows, and eˣ times the least number."""
    info = np.finfo(dtype)
    least, top = float(info.smallest_subnormal), math.log(float(info.max))
    beyond = top - math.log(least)
    re = [top + d for d in (-17, -1, -0.5, -0.1, 0.1, 0.3, 0.5, 0.8, 2, 15.5, 16.5, 30)]
    re = np.array([*re, top * 1.6, 2 * top, beyond - 0.5, beyond + 0.5, beyond + 1.5])
    angles = [0, least, 99 * least, 1e-30, 1e-3, 0.5, math.pi / 2, 1.6, 3, math.pi, 99]
    parts = np.meshgrid(np.append(re, -re), np.append(angles, np.negative(angles)))
    return lax.complex(*(x.ravel().astype(info.dtype) for x in parts))


def wide_value(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """The parts of the function of x + iy."""
    if name == "tanh":  # sinh·conj(cosh)/|cosh|²
        below = np.sinh(x) ** 2 + np.cos(y) ** 2
        return np.sinh(x) * np.cosh(x) / below, np.sin(y) * np.cos(y) / below
    along, across = PRODUCTS[name]
    return along(x) * np.cos(y) - (name == "expm1"), across(x) * np.sin(y)


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp == 1024, reason="no wider float")
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", [*PRODUCTS, "tanh", *TURNED])
def test_complex_values_are_finite_where_floats_are(
    device: Any, name: str, dtype: Any
) -> None:
    z, info = np.asarray(near_overflow(dtype)), np.finfo(dtype)
    x, y = z.real, z.imag
    if name == "exp2":  # im·log 2 is rounded
        z = np.asarray(lax.complex(x / np.log(2).astype(x.dtype), y))
        x, y = z.real, y * np.log(2).astype(x.dtype)
    turned = TURNED.get(name)
    got = np.asarray(ft.jit(getattr(fnp, name))(lax.complex(-y, x) if turned else z))
    odd = turned not in (None, "cosh")
    parts = (got.imag, -got.real) if odd else (got.real, got.imag)
    # Of exp2 NumPy rounds re·log 2.
    units = 2e3 if name == "exp2" and device.name == "interpreter" else 8
    with np.errstate(all="ignore"):
        wide = wide_value(turned or name, *(a.astype(np.longdouble) for a in (x, y)))
        for found, wanted in zip(parts, wide, strict=True):
            size = np.abs(wanted)
            same = found == wanted.astype(found.dtype)
            same |= np.abs(found - wanted) <= info.tiny + units * info.eps * size
            same |= np.abs(size / info.max - 1) < units * info.eps
            assert same.all(), (z[~same][:3], found[~same][:3], wanted[~same][:3])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_roots_beside_a_subnormal_part_lose_nothing(device: Any, dtype: Any) -> None:
    """sqrt(x + iy) is sqrt(x) + iy/(2·sqrt(x)) for a small y."""
    info = np.finfo(dtype)
    x = np.sqrt(info.tiny) * np.ldexp(1, np.arange(-9, 9))
    y = info.smallest_subnormal * np.arange(1, 19)
    got = np.asarray(ft.jit(fnp.sqrt)(lax.complex(*np.array([x, y], info.dtype))))
    np.testing.assert_allclose(got.real, np.sqrt(x), rtol=2 * info.eps)
    np.testing.assert_allclose(got.imag, y / (2 * np.sqrt(x)), rtol=4 * info.eps)
