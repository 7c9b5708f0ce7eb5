"""Laws of scans and running reductions: any dtype, any length, forwards and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings as budget, strategies as st

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp

NAMES: dict[str, Any] = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
}
DTYPES = (np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.float64)
#: Around the sizes of vectors, of blocks, and of what is kept in a cache.
LENGTHS = (0, 1, 2, 15, 16, 17, 255, 1023, 4099, 40_001)


@st.composite
def columns(draw: Any) -> tuple[Any, int]:
    """An array of whole numbers, and the axis along which it is long."""
    length, width = draw(st.sampled_from(LENGTHS)), draw(st.sampled_from([1, 3, 16]))
    dtype = draw(st.sampled_from(DTYPES))
    axis = draw(st.integers(0, 1))
    shape = (length, width) if axis == 0 else (width, length)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    return random.integers(0, 3, shape).astype(dtype), axis


def ways(function: Any, *arguments: Any) -> list[Any]:
    """At once, jitted, and by the interpreter."""
    with ft.config(device="interpreter"):
        interpreted = ft.jit(function)(*arguments)
    found = (function(*map(fnp.asarray, arguments)), ft.jit(function)(*arguments))
    return [np.asarray(x) for x in (*found, interpreted)]


@pytest.mark.parametrize("name", NAMES)
@budget(max_examples=12)
@given(given_columns=columns(), reverse=st.booleans())
def test_running_reductions_are_numpys_in_any_dtype(
    name: str, given_columns: Any, reverse: bool
) -> None:
    x, axis = given_columns
    ordered = np.flip(x, axis) if reverse else x
    dtype = x.dtype
    if dtype.kind == "b" and name in ("cumsum", "cumprod"):
        ordered = ordered.astype(np.int32)
        dtype = np.dtype(np.int32)
    with np.errstate(over="ignore"):
        wanted = NAMES[name].accumulate(ordered, axis, dtype=dtype)
    wanted = np.flip(wanted, axis) if reverse else wanted
    given_x = x.astype(dtype)
    for found in ways(
        lambda x: getattr(lax, name)(x, axis=axis, reverse=reverse), given_x
    ):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)


@budget(max_examples=12)
@given(
    flags=st.lists(st.booleans(), max_size=70),
    start=st.booleans(),
    reverse=st.booleans(),
)
def test_a_scan_of_bools_is_the_loop(
    flags: list[bool], start: bool, reverse: bool
) -> None:
    def step(c: Any, x: Any) -> Any:
        return fnp.logical_xor(c, x), (fnp.logical_and(c, x), ~c)

    def whole(c: Any, x: Any) -> Any:
        last, (both, other) = lax.scan(step, c, x, reverse=reverse)
        return fnp.concatenate([both, other, last[None]])

    carry, both, other = start, list[bool](), list[bool]()
    for flag in reversed(flags) if reverse else flags:
        both.append(carry and flag)
        other.append(not carry)
        carry = carry != flag
    if reverse:
        both, other = both[::-1], other[::-1]
    for found in ways(whole, np.array(start), np.array(flags, bool)):
        assert found.dtype == bool
        assert found.tolist() == [*both, *other, carry]


@budget(max_examples=4)
@given(length=st.sampled_from([1, 7, 1000, 20_000]), unroll=st.sampled_from([1, 3, 16]))
def test_a_long_scan_of_integers_wraps_around_as_the_loop(
    length: int, unroll: int
) -> None:
    def step(c: Any, x: Any) -> Any:
        c = c * 1664525 + x
        return c, c >> 3

    def whole(x: Any) -> Any:
        start = fnp.asarray(1, np.uint32)
        last, ys = lax.scan(step, start, x, unroll=unroll)
        return fnp.concatenate([ys, last[None]])

    x = np.arange(length, dtype=np.uint32)
    c, wanted = 1, list[int]()
    for value in range(length):
        c = (c * 1664525 + value) % (1 << 32)
        wanted.append(c >> 3)
    for found in ways(whole, x):
        np.testing.assert_array_equal(found, np.array([*wanted, c], np.uint32))


@budget(max_examples=8)
@given(length=st.sampled_from([0, 1, 33, 500]), data=st.data())
def test_derivatives_of_running_sums_are_running_sums_back(
    length: int, data: Any
) -> None:
    seed = data.draw(st.integers(0, 50))
    x, ct = np.random.default_rng(seed).standard_normal((2, length))

    def pulled(x: Any, ct: Any) -> Any:
        return ft.vjp(lambda x: lax.cumsum(x), x)[1](ct)[0]

    wanted = np.flip(np.cumsum(np.flip(ct)))
    for found in ways(pulled, x, ct):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@budget(max_examples=3)
@given(rows=st.sampled_from([1, 9, 70]), size=st.sampled_from([3, 130, 1000]))
def test_tuned_schedules_give_what_the_usual_ones_do(rows: int, size: int) -> None:
    """Bits may differ within sums only: another width, another order."""
    x = np.random.default_rng(size).standard_normal((rows, size)).astype(np.float32)
    functions = (
        lambda x: fnp.exp(x) * 2 + x,
        lambda x: ft.nn.softmax(x, axis=1),
        lambda x: x @ x.T,
        lambda x: fnp.cumsum(x, axis=0),
    )
    for f in functions:
        usual = np.asarray(ft.jit(f)(x))
        with ft.config(tune=True):
            tuned = np.asarray(ft.jit(f)(x))
        np.testing.assert_allclose(tuned, usual, rtol=2e-5, atol=2e-5)


#: A first carry, what a body makes of it, and the types of: a loop, the ys of a scan
#: that are its carries, and a branch beside the carry, as the last and as the first. A
#: star is a weak type. They are JAX's, which refuses branches of two dtypes.
TYPES: list[tuple[Any, Any, str]] = [
    (3, lambda c: c + 1, "i4* i4* i4* i4*"),
    (3, lambda c: c + 1.5, "f4 f4 - -"),
    (3, lambda c: c * np.float32(2), "f4 f4 f4 f4"),
    (3, lambda c: c + np.int8(2), "i1 i1 i1 i1"),
    (3, lambda c: c + np.int32(2), "i4 i4* i4* i4"),
    (3, lambda c: 2.5, "f4* f4 - -"),
    (1.5, lambda c: c * 2, "f4* f4* f4* f4*"),
    (1.5, lambda c: fnp.float32(c), "f4 f4* f4* f4"),
    (1.5, lambda c: c * np.float16(2), "f2 f2 f2 f2"),
    (np.int32(3), lambda c: 2, "i4* i4 i4 i4*"),
    (np.float32(3), lambda c: 2.5, "f4* f4 f4 f4*"),
    (np.float32(3), lambda c: c / 2, "f4 f4 f4 f4"),
    (True, lambda c: fnp.logical_not(c), "b1 b1 b1 b1"),
]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("row", range(len(TYPES)))
def test_weak_types_of_loops_and_branches_are_jaxs(row: int, compiled: bool) -> None:
    first, body, wanted = TYPES[row]
    way = ft.jit if compiled else lambda f: f

    def loop(c: Any) -> Any:
        whole = lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, body(s[1])), (0, c)
        )
        count = lax.fori_loop(0, 3, lambda i, c: body(c), c)
        last, before = lax.scan(lambda c, _: (body(c), c), c, None, length=3)
        return whole[1], count, last, before

    def either(c: Any) -> Any:
        return (
            lax.cond(True, body, lambda c: c, c),
            lax.switch(0, [body, lambda c: c, body], c),
        )

    one, ys, beside, other = wanted.split()
    found = [*way(loop)(first), *(way(either)(first) if beside != "-" else ())]
    types = [x.dtype.str[1:] + "*" * x.weak_type for x in found]
    assert types == [one] * 3 + [ys] + ([beside, other] if beside != "-" else [])


def test_known_bounds_count_as_numbers_of_pythons_do() -> None:
    """Traced ones have their own dtypes: as in JAX."""
    seen: list[Any] = []

    def body(i: Any, c: Any) -> Any:
        seen.append((i.dtype, i.weak_type))
        return c * i

    for kind in (int, np.int8, np.int64, fnp.uint8, fnp.int32):
        last = lax.fori_loop(kind(1), kind(4), body, np.int8(2))
        assert (last.dtype, int(last), seen[-1]) == (np.int8, 12, (np.int32, True))
    ft.jit(lambda n: lax.fori_loop(fnp.int8(0), n, body, np.int8(2)))(fnp.int8(3))
    assert seen[-1] == (np.int8, False)
