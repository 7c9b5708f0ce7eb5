"""Integers of Python's beside narrower ones: eagerly, in traces, as arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import ArgumentError, DtypeOverflowError

#: Of an array y of integers and a number v that they do not hold.
EXPRESSIONS = """
y + v; v * y; y // v; y % v; y & v; y << v; fnp.where(y > 0, y, v); fnp.maximum(y, v)
fnp.clip(y, v); fnp.clip(y, None, v); fnp.select([y > 5], [y], v); fnp.gcd(y, v)
y.at[0].set(v); y.at[0].add(v); y.at[0].max(v); y.at[:1].multiply(v)
y.at[fnp.array([0, 0])].add(v); y.at[9].get(mode="fill", fill_value=v)
fnp.full_like(y, v); fnp.full((2,), v, y.dtype); lax.full((2,), v, y.dtype)
fnp.array(v, y.dtype); fnp.asarray(v, dtype=y.dtype); fnp.array([v, 1], y.dtype)
fnp.pad(y, 1, constant_values=v); fnp.insert(y, 0, v); fnp.dot(y, v)
fnp.put(y, 0, v, inplace=False); fnp.place(y, y > 0, v, inplace=False)
fnp.fill_diagonal(fnp.outer(y, y), v, inplace=False); lax.add(y, v)
lax.pad(y, v, [(1, 0, 0)]); lax.fori_loop(0, 2, lambda i, c: c * v, y)
lax.cond(True, lambda a: a + v, lambda a: a, y); ft.vmap(lambda a: a * v)(y)
fnp.append(y, v); fnp.append(v, y); fnp.hstack([y, v]); fnp.stack([y[0], v])
fnp.block([y, v]); fnp.einsum("i,->i", y, v); fnp.choose(fnp.array([0, 1]), [y, v])
fnp.clip(v, y); fnp.ediff1d(y, v); fnp.diff(y, append=v)
fnp.polyadd(y, v); fnp.polysub(v, y); fnp.setdiff1d(v, y); lax.stack([y[0], v])
nn.leaky_relu(v, y); linalg.block_diag(y, v); linalg.toeplitz(v, y)
linalg.hankel(y, v); fnp.kron(y, v); fnp.inner(v, y); fnp.outer(y, v)
""".replace("\n", ";")
_ROWS = [e.strip() for e in EXPRESSIONS.split(";") if e.strip()]
#: What makes an array of numbers in a dtype, and of nothing else.
_MAKES = ("array(v, y.dtype)", "asarray(v", "array([v")
_SPACE = {"fnp": fnp, "lax": lax, "ft": ft, "nn": ft.nn, "linalg": ft.scipy.linalg}
#: Beside arrays of a dtype: ints that wrap to it, and ints that no wrapping makes fit.
_OUTSIDE = {
    "uint8": ((256, -1), (2**31, -(2**40))), "int8": ((128, -129), (2**40,)),
    "uint32": ((-1, -(2**31)), (2**32, 2**63)), "int32": ((), (2**31, 2**63)),
}  # fmt: skip


def _refused(run: Any, *arguments: Any) -> None:
    for _ in range(9):
        with pytest.raises(DtypeOverflowError):
            run(*arguments)


@pytest.mark.parametrize("dtype", _OUTSIDE)
@pytest.mark.parametrize("expression", _ROWS)
def test_an_int_wraps_where_int32_holds_it_and_else_raises(
    expression: str, dtype: str
) -> None:
    run = eval(f"lambda y, v: {expression}", _SPACE)
    y = fnp.ones(2, dtype)
    wrapping, refused = _OUTSIDE[dtype]
    if any(start in expression for start in _MAKES):
        wrapping, refused = (), wrapping + refused
    for number in refused:
        _refused(run, y, number)
        _refused(ft.jit(lambda x, v=number: run(x, v)), y)
        if not -(2**31) <= number < 2**31:
            _refused(ft.jit(run), y, number)
    for number in wrapping:
        wanted = run(y, int(np.asarray(number).astype(dtype)))
        for v in (number,) * 5 + (np.int64(number),):
            found = run(y, v)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        if "setdiff1d" not in expression:
            for found in (ft.jit(run)(y, number), ft.jit(lambda y: run(y, number))(y)):  # noqa: B023
                np.testing.assert_array_equal(found, wanted)


def test_with_64_bits_an_int_wraps_where_int64_holds_it() -> None:
    y = fnp.arange(3, dtype="uint8")
    with ft.config(enable_x64=True):
        for call in (fnp.add, ft.jit(fnp.add), ft.jit(lambda y, v: y + 2**40 + 3)):
            assert call(y, 2**40 + 3).tolist() == [3, 4, 5]
        _refused(fnp.add, y, 2**63)


@pytest.mark.parametrize("number", [2**31, -(2**40), np.int64(2**40)])
def test_an_argument_that_int32_does_not_hold_keeps_its_value(number: Any) -> None:
    f = ft.jit(lambda n: (n, n + 1, n * 1.0))
    for _ in range(9):
        same, more, single = f(number)
        assert (int(same), int(more)) == (number, number + 1)
        assert single == np.float32(number)
        assert (
            ft.jit(fnp.add)(np.ones(2, np.int64), number).tolist() == [number + 1] * 2
        )
        assert ft.jit(fnp.add)(fnp.ones(2), number)[0] == np.float32(number)


def test_a_number_that_does_not_fit_is_equal_to_nothing() -> None:
    y = fnp.full(2, 44, "int8")
    assert not fnp.array_equiv(y, 300)
    assert not ft.jit(lambda y: fnp.array_equiv(y, 300))(y)
    assert fnp.array_equiv(y, 44)


def test_small_arguments_do_not_hide_large_ones() -> None:
    multiply = ft.jit(lambda a, b: a * b)
    x = fnp.ones(2, "int32")
    for _ in range(9):
        assert multiply(x, 3).tolist() == multiply(x, np.int64(3)).tolist() == [3, 3]
        for large in (2**31, np.int64(2**40)):
            with pytest.raises(DtypeOverflowError, match="int32"):
                multiply(x, large)


_MADE = {
    "array": lambda v, dtype: fnp.array(v, dtype),
    "array of a list": lambda v, dtype: fnp.array([v], dtype),
    "full": lambda v, dtype: fnp.full((2,), v, dtype),
    "full_like": lambda v, dtype: fnp.full_like(fnp.zeros(2), v, dtype),
    "lax.full": lambda v, dtype: lax.full((2,), v, dtype),
    "lax.full_like": lambda v, dtype: lax.full_like(fnp.zeros(2), v, dtype),
}


@pytest.mark.parametrize("value", [1e40, -1e40, 300.0, -1.5, 3e9, np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("name", _MADE)
def test_a_float_becomes_an_integer_in_one_way(
    name: str, dtype: str, value: float
) -> None:
    wanted = int(fnp.array([value], fnp.float32).astype(dtype)[0])
    for made in (_MADE[name], ft.jit(_MADE[name], static_argnums=(0, 1))):
        assert set(np.ravel(made(value, dtype)).tolist()) == {wanted}


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("name", _MADE)
def test_a_complex_number_fills_no_real_array(name: str, dtype: str) -> None:
    with pytest.raises(ArgumentError, match="complex"):
        _MADE[name](2j, dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("name", ["cumsum", "nancumsum", "cumprod", "cumulative_sum"])
def test_running_totals_begin_with_what_a_cast_gives(name: str, dtype: str) -> None:
    x = fnp.array([np.inf, 2.7], fnp.float32)
    function = getattr(fnp, name)
    wanted = function(x.astype(dtype), dtype=dtype)
    for call in (function, ft.jit(function, static_argnames="dtype")):
        assert call(x, dtype=dtype).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "value", [2**31, -(2**40), np.int64(1 << 31), np.int64(-1 << 40)]
)
def test_no_integer_in_a_list_is_cut_off(value: Any) -> None:
    for made in ([value], [[1, value]], (value, fnp.arange(2)[0])):
        with pytest.raises(DtypeOverflowError, match="int32"):
            fnp.array(made, "int32")
        with (
            ft.config(jax_enable_x64=False),
            pytest.raises(DtypeOverflowError, match="int32"),
        ):
            fnp.array(made)
    assert fnp.array([value, 0]).tolist() == [int(value), 0]
    assert fnp.array([value, 0], float).dtype == np.float32
