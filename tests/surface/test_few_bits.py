"""Numbers of few bits: moved as bytes, cast by arithmetic, computed in wide ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes, errors, lax, nn
from tests.support.refusals import refuses

FEW = dtypes.NARROW
FLOATS = [name for name in FEW if name.startswith("float")]


def _numbers(name: str) -> Any:
    """All numbers of a dtype."""
    bits = dtypes.bits_of(FEW[name])
    return np.arange(1 << bits, dtype=np.uint8).view(FEW[name])


def _same(got: Any, wanted: Any) -> None:
    x, y = (np.asarray(a).astype(np.float32) for a in (got, wanted))
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(x, y)
    lost = np.isnan(y)
    np.testing.assert_array_equal(np.signbit(x)[~lost], np.signbit(y)[~lost])


@pytest.mark.parametrize("name", FEW)
def test_casts_are_those_of_ml_dtypes(name: str) -> None:
    dtype, codes = FEW[name], _numbers(name)
    _same(ft.jit(lambda x: x.astype("float32"))(codes), codes.astype(np.float32))
    if name not in FLOATS:
        whole = np.arange(-40, 40, dtype=np.int32)
        _same(ft.jit(lambda x: x.astype(dtype))(whole), whole.astype(dtype))
        return
    known = codes.astype(np.float32)
    known = np.sort(known[np.isfinite(known)])
    ties = (known[1:] + known[:-1]) / 2
    beside = [np.nextafter(ties, np.float32(end)) for end in (-np.inf, np.inf)]
    drawn = np.random.default_rng(0).integers(0, 0xFF000000, 4000, np.uint32)
    drawn = drawn[drawn << 1 < 0xFF000000].view(np.float32)
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32)
    x = np.concatenate([known, ties, *beside, drawn, ends])
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype)
    _same(fnp.asarray(x).astype(dtype), wanted)
    _same(ft.jit(lambda x: x.astype(dtype))(x), wanted)


def test_integers_of_few_bits_wrap() -> None:
    wrapped = fnp.array([7, 8, -9, 2], "int4")
    assert wrapped.astype("int32").tolist() == [7, -8, 7, 2]
    assert fnp.array([5, 2], "uint2").astype("int32").tolist() == [1, 2]


#: Recorded from JAX 0.10.2, of a and b below: in float8_e4m3fn, in int4.
A, B = [0.3, -1.75, 3.3, 1, 2, -0.0], [1, 2, 0.5, 3, -1, 2]
WHOLE_A, WHOLE_B = [0, 1, 2, 3, 3, 1], [1, 1, 2, 1, 3, 2]
TABLE: dict[str, tuple[Any, list[float], list[float]]] = {
    "add": (lambda a, b: a + b, [1.25, 0.25, 3.75, 4, 1, 2], [1, 2, 4, 4, 6, 3]),
    "mul": (
        lambda a, b: a * b, [0.3125, -3.5, 1.625, 3, -2, 0], [0, 1, 4, 3, -7, 2]
    ),
    "add_one": (lambda a, b: a + 1, [1.25, -0.75, 4, 2, 3, 1], [1, 2, 3, 4, 4, 2]),
    "dot": (lambda a, b: a @ b, [-0.5625], [3.0]),
    "cumsum": (lambda a, b: fnp.cumsum(b), [1, 3, 3.5, 6.5, 5.5, 7.5],
               [1, 2, 4, 5, -8, -6]),
    "sort": (lambda a, b: fnp.sort(a), [-1.75, -0.0, 0.3125, 1, 2, 3.25],
             [0, 1, 1, 2, 3, 3]),
    "where": (lambda a, b: fnp.where(a > b, a, b), [1, 2, 3.25, 3, 2, 2],
              [1, 1, 2, 3, 3, 2]),
    "set": (lambda a, b: a.at[1].set(b[0])[::-1], [-0.0, 2, 1, 3.25, 1, 0.3125],
            [1, 3, 3, 2, 1, 0]),
    "max": (lambda a, b: a.max(), [3.25], [3]),
    "scan": (lambda a, b: lax.scan(lambda c, x: (c + x, c), b[0], b)[1],
             [1, 2, 4, 4.5, 7.5, 6.5], [1, 2, 3, 5, 6, -7]),
    "relu": (lambda a, b: nn.relu(a), [0.3125, 0, 3.25, 1, 2, 0], [0, 1, 2, 3, 3, 1]),
    "stack": (lambda a, b: fnp.stack([a, b])[:, 1:3].T.ravel(), [-1.75, 2, 3.25, 0.5],
              [1, 1, 2, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", ["float8_e4m3fn", "int4"])
def test_operations_are_those_of_jax(name: str) -> None:
    kinds = (A, B) if name[0] == "f" else (WHOLE_A, WHOLE_B)
    a, b = (fnp.array(x, "float32").astype(name) for x in kinds)

    def compute(a: Any, b: Any) -> list[Any]:
        return [f(a, b) for f, _, _ in TABLE.values()]

    found = zip(TABLE.items(), compute(a, b), ft.jit(compute)(a, b), strict=True)
    for (row, (_, *recorded)), now, jitted in found:
        wanted = np.array(recorded[name[0] != "f"], np.float32)
        for got in (now, jitted):
            assert got.dtype == FEW[name], row
            values = np.ravel(np.asarray(got)).astype(np.float32)
            np.testing.assert_array_equal(values, wanted, row)


def test_derivatives_and_lanes_keep_the_dtype() -> None:
    x = fnp.array([1, 2, 3], "float32").astype("float8_e5m2")
    slope = ft.grad(lambda v: (v * v).sum().astype("float32"))(x)
    _same(slope, np.array([2, 4, 6]).astype(FEW["float8_e5m2"]))

    def quantized(v: Any) -> Any:  # rounds the cotangent, too
        return (v.astype("float8_e5m2").astype("float32") ** 2).sum()

    rounded = ft.jit(ft.grad(quantized))(fnp.array([0.3, 0.7]))
    assert rounded.tolist() == [0.625, 1.5]
    assert ft.vmap(lambda a, b: a * b)(x, x).dtype == x.dtype
    wide = lax.dot(x, x.astype("float8_e4m3fn"), preferred_element_type="float32")
    assert (wide.dtype.name, float(wide)) == ("float32", 14.0)
    np.testing.assert_array_equal(x.view("uint8"), [60, 64, 66])
    assert ft.jit(lambda: fnp.full(2, 3, "int4").sum())().tolist() == 6

    def doubled(v: Any) -> Any:
        def on_host(v: Any) -> Any:
            assert v.dtype == x.dtype
            return np.asarray(v).astype(np.float32) * 2

        result = ft.ShapeDtypeStruct(v.shape, "float32")
        return ft.pure_callback(on_host, result, v)

    assert doubled(x).tolist() == ft.jit(doubled)(x).tolist() == [2, 4, 6]
    for name in ("float4_e2m1fn", "int4"):
        few = np.asarray(fnp.asarray([-1, 2, 3], name))
        same = ft.vmap(lambda v, s=few[0]: ft.pure_callback(np.asarray, s, v))
        whole = ft.jit(lambda x: ft.io_callback(np.asarray, x, x))
        for run in (same, ft.jit(same), whole):
            np.testing.assert_array_equal(run(few), few)
    places = fnp.array([2, 0], "int4")
    for take in (lambda i: fnp.arange(3)[i], lambda i: fnp.take(fnp.arange(3), i)):
        assert take(places).tolist() == ft.jit(take)(places).tolist() == [2, 0]
    assert repr(x) == "Array([1, 2, 3], dtype=float8_e5m2)"


def test_what_dtypes_of_few_bits_do_not_join() -> None:
    x = fnp.ones(2, "float8_e4m3fn")
    for other in ("float32", "bfloat16", "float8_e5m2", "int4"):
        with refuses(errors.TypePromotionError, "of few bits have none in common"):
            x + fnp.ones(2, other)
    assert (x + fnp.ones(2, "int32")).dtype == x.dtype
    with refuses(errors.DtypeError, "not defined for float8_e4m3fn"):
        x & x
    with refuses(errors.ShapeError, "2 elements of int4 make one wider element"):
        lax.bitcast_convert_type(fnp.ones(3, "int4"), "uint8")


#: They take no array of numbers: files, or settings of NumPy's.
NO_ARRAYS = ("fromfile", "fromiter", "load", "save", "savez", "set_printoptions")


@pytest.mark.parametrize("name", [*FEW, "bfloat16"])
def test_a_function_takes_them_or_says_what_to_write(name: str) -> None:
    """Whatever raises is an error of ftrace's, and no other."""
    x = fnp.ones((2, 2), name)
    with refuses(errors.TracerArrayConversionError, "array_repr"):
        ft.jit(fnp.array_repr)(x)
    for function in dir(fnp):
        call = getattr(fnp, function)
        if function[0] == "_" or function in NO_ARRAYS or isinstance(call, type):
            continue
        for args in ((x,), (x, x)) if callable(call) else ():
            try:
                call(*args)
            except errors.FtraceError:
                pass
            except TypeError as error:
                if "argument" not in str(error):  # it takes another number of them
                    raise


@pytest.mark.parametrize("name", [*FLOATS, "bfloat16"])
def test_parts_of_a_float_make_it_again(name: str) -> None:
    if name in ("float4_e2m1fn", "float6_e2m3fn"):
        with refuses(errors.DtypeError, "few numbers between 1/2 and 1; convert with"):
            fnp.frexp(fnp.ones(2, name))
        return
    x = _numbers(name) if name in FEW else np.arange(-9, 9).astype(dtypes.bfloat16)
    mantissa, exponent = fnp.frexp(x)
    wide, wanted = np.frexp(x.astype(np.float32))
    _same(mantissa, wide.astype(x.dtype))
    finite = np.isfinite(wide)
    np.testing.assert_array_equal(np.asarray(exponent)[finite], wanted[finite])
    _same(fnp.ldexp(mantissa, exponent), x)


def test_limits_of_another_kind_of_dtype_say_which_function_has_them() -> None:
    for dtype in ("int4", "int32"):
        with refuses(errors.DtypeError, f"got {dtype}; use iinfo"):
            fnp.finfo(dtype)
    for dtype in ("float8_e5m2", "bfloat16", "float32"):
        with refuses(errors.DtypeError, f"got {dtype}; use finfo"):
            fnp.iinfo(dtype)


def test_bits_are_read_as_elements_of_fewer_bits_and_back() -> None:
    x = np.arange(-64, 64, dtype=np.int8).reshape(4, 32)
    for f in (
        lax.bitcast_convert_type,
        ft.jit(lax.bitcast_convert_type, static_argnums=1),
    ):
        halves = f(x, FEW["int4"])
        assert halves.shape == (4, 32, 2)
        assert np.array_equal(halves[..., 1].astype(np.int8), x >> 4)
        assert np.array_equal(f(halves, np.dtype("int8")), x)
        assert f(halves, FEW["uint2"]).shape == (4, 32, 2, 2)
    assert np.array_equal(fnp.array(x).view("int4").view("int32"), x.view("int32"))
