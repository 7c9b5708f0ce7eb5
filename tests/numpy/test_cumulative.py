"""Running reductions and associative_scan: values, derivatives, batching, devices.

The values are those of JAX: data/sorting_cases.py.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.test_util import check_grads
from ftrace.trace.bind import bind_compound
from ftrace.trace.graph import toposort
from ftrace.trace.primitives.library import scan
from ftrace.trace.primitives.library.scan import Along, recurrence_p
from ftrace.trace.primitives.primitive import compound_of
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from tests.support import ordered_effects

CASES = [e for e in ordered_effects.RECORDED if "cum" in e or "associative" in e]

NAMES = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
UFUNCS: dict[str, Any] = dict(
    zip(NAMES, (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp), strict=True)
)
#: Distinct numbers, far apart for finite differences.
DISTINCT = (np.random.default_rng(5).permutation(36).reshape(3, 12) / 18 - 0.9).astype(
    np.float32
)


@pytest.mark.parametrize("expression", CASES)
def test_values_are_those_of_jax(expression: str) -> None:
    ordered_effects.check_recorded(expression)


@pytest.mark.parametrize("expression", CASES)
def test_traced_values_are_those_of_jax(expression: str) -> None:
    ordered_effects.check_traced(expression)


def running_of(name: str, axis: int, reverse: bool) -> Callable[[Any], Any]:
    return lambda x: getattr(lax, name)(x, axis=axis, reverse=reverse)


# Short and long axes are computed in different ways.
SIZES = (2, 8, 9, 12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_finite_differences(
    name: str, size: int, reverse: bool
) -> None:
    with ft.disable_jit():
        check_grads(running_of(name, 1, reverse), (DISTINCT[:, :size],), 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("zeros", [(0,), (1, 4), (0, 1, 2), (7,)])
def test_cumprod_has_derivatives_at_zeros(size: int, zeros: tuple[int, ...]) -> None:
    x = np.linspace(0.5, 1.7, size)
    for place in zeros:
        x[place % size] = 0
    with ft.disable_jit():
        check_grads(fnp.cumprod, (x,), 2)
        jacobian = np.asarray(ft.jacrev(fnp.cumprod)(x))
    for i in range(size):
        for j in range(size):
            others = [x[k] for k in range(i + 1) if k != j]
            expected = np.prod(others) if j <= i else 0.0
            np.testing.assert_allclose(jacobian[i, j], expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cumlogsumexp"])
def test_complex_derivatives_are_finite_differences(name: str, dtype: str) -> None:
    x = (DISTINCT[0] + 1j * DISTINCT[1]).astype(dtype)
    with ft.disable_jit():
        check_grads(running_of(name, 0, False), (x,), 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_vmap_is_a_loop(name: str, size: int, reverse: bool) -> None:
    with ft.disable_jit():
        ordered_effects.check_batched(running_of(name, 0, reverse), DISTINCT[:, :size])
        slope = ft.grad(lambda x: (running_of(name, 0, reverse)(x) ** 2).sum())
        ordered_effects.check_batched(slope, DISTINCT[:, :size])


@pytest.mark.parametrize("size", [5, 12])
@pytest.mark.parametrize("name", NAMES)
def test_devices_agree(name: str, size: int, device: Any) -> None:
    function = running_of(name, 1, True)
    x = DISTINCT[:, :size]

    def slope(x: Any) -> Any:
        return ft.grad(lambda x: (function(x) ** 2).sum())(x)

    with ft.disable_jit():
        wanted, steep = function(fnp.asarray(x)), slope(fnp.asarray(x))
    ordered_effects.close(ft.jit(function)(x), wanted)
    ordered_effects.close(ft.jit(slope)(x), steep)
    ordered_effects.close(ft.jit(ft.vmap(running_of(name, 0, True)))(x), wanted)


@given(
    st.sampled_from(NAMES), st.integers(0, 40), st.integers(1, 3), st.booleans(),
    st.sampled_from(["int8", "uint16", "int32", "float16", "bfloat16", "float32"]),
)  # fmt: skip
def test_values_agree_with_numpy(
    name: str, size: int, width: int, reverse: bool, kind: str
) -> None:
    if name == "cumlogsumexp" and "float" not in kind:
        kind = "float64"
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    x = (np.arange(size * width) * 7 % 5 - (kind[0] != "u") * 2).reshape(size, width)
    x = x.astype(dtype)
    wide = x.astype(np.float64) if "float" in kind else x
    wanted: Any = UFUNCS[name].accumulate(
        wide[::-1] if reverse else wide, 0, dtype=wide.dtype
    )
    wanted = (wanted[::-1] if reverse else wanted).astype(dtype)
    found = np.asarray(getattr(lax, name)(fnp.asarray(x), reverse=reverse))
    assert found.dtype == dtype
    assert found.shape == x.shape
    ordered_effects.close(found, wanted)


def test_sums_of_many_numbers_keep_their_digits() -> None:
    x = np.full(1_000_000, 0.1, np.float32)
    last = float(np.asarray(fnp.cumsum(fnp.asarray(x)))[-1])
    assert last == pytest.approx(float(x[0]) * x.size, rel=1e-7)


def test_a_running_reduction_is_one_step_of_linear_size() -> None:
    for name in NAMES:
        aval = aval_of(np.zeros(100_000, np.float32))
        function = getattr(lax, name)
        graph = trace("test", lambda x, f=function: [f(x)], [aval])
        steps = [node for node in toposort(graph.outputs) if compound_of(node)]
        assert len(steps) == 1
        assert sum(n.size for n in toposort(graph.outputs)) <= 3 * 100_000


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32", "complex64"])
def test_running_sums_and_products_are_those_of_wide_numbers(
    dtype: str, axis: int
) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = (np.arange(2 * 13 * 5).reshape(2, 13, 5) * 7 % 5 - 2).astype(kind)
    cases: list[tuple[str, Any]] = [("sum", np.add), ("prod", np.multiply)]
    for name, ufunc in cases:
        wide = {"i": kind, "c": np.complex128}.get(kind.kind, np.float64)
        exact = x.astype(wide)
        wanted = ufunc.accumulate(exact, axis, dtype=exact.dtype)
        for reverse in (False, True):
            y = np.flip(x, axis) if reverse else x
            found = scan.accumulate(scan.Running(name, axis, reverse), y)
            assert found.dtype == kind
            found = np.flip(found, axis) if reverse else found
            ordered_effects.close(found, wanted)


@pytest.mark.parametrize("size", SIZES)
def test_a_product_of_two_complex_numbers_has_the_bits_of_numpy(
    size: int, device: Any
) -> None:
    parts = (0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan)
    numbers = np.array([complex(x, y) for x in parts for y in parts], np.complex64)
    x = np.ones((len(numbers) ** 2, size), np.complex64)
    x[:, :2] = np.stack(np.meshgrid(numbers, numbers), -1).reshape(-1, 2)
    running, whole = running_of("cumprod", 1, False), lambda x: fnp.prod(x[:, :2], 1)
    found = np.asarray(ft.jit(running)(x))[:, :2]
    with np.errstate(invalid="ignore"):
        wanted = np.multiply.accumulate(x, 1)[:, :2]
    product = np.asarray(ft.jit(whole)(x))
    for a, b in ((found, wanted), (product, wanted[:, 1])):
        for p, q in ((a.real, b.real), (a.imag, b.imag)):
            np.testing.assert_array_equal(p, q)
            assert ((np.signbit(p) == np.signbit(q)) | np.isnan(q)).all()


@pytest.mark.parametrize("size", [0, 1, 3, 100, 1000])
def test_a_product_of_complex_numbers_is_rounded_like_one(
    size: int, device: Any
) -> None:
    angles = np.random.default_rng(size).uniform(-3, 3, (3, size, 2))
    x = np.exp(1j * angles).astype(np.complex64)
    found = np.asarray(ft.jit(lambda x: fnp.prod(x, (1, 2)))(x))
    wanted = x.astype(np.complex128).prod((1, 2))
    np.testing.assert_allclose(found, wanted, atol=4e-7 * max(size, 1) ** 0.5)


@given(st.integers(1, 40), st.integers(1, 12), st.booleans())
def test_recurrences_are_the_same_in_blocks(
    size: int, block: int, reverse: bool
) -> None:
    rng = np.random.default_rng(size)
    a, b = rng.standard_normal((2, size, 3))
    wanted = scan.recur(Along(0, reverse), a, b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "BLOCK", block)
        np.testing.assert_allclose(
            scan.recur(Along(0, reverse), a, b), wanted, rtol=1e-9
        )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", ["max", "min"])
@given(st.integers(1, 30), st.integers(1, 3), st.booleans(), st.booleans())
def test_extrema_without_ties_have_the_derivative_of_their_places(
    kind: str, transposed: bool, size: int, lanes: int, reverse: bool, is_complex: bool
) -> None:
    rng = np.random.default_rng(size)
    x = rng.permutation(size * lanes).reshape(size, lanes).astype(np.float64)
    t = rng.standard_normal((size, lanes)) + (1j if is_complex else 0)
    ordered = x[::-1] if reverse else x
    y = (np.maximum if kind == "max" else np.minimum).accumulate(ordered)
    y = y[::-1] if reverse else y
    matrix = (y[:, None] == x[None]).astype(float)
    wanted = np.einsum("ijl,il->jl" if transposed else "ijl,jl->il", matrix, t)
    found = scan.extremum_tangent(scan.Share(kind, 0, reverse, transposed), x, t)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("size", [6, 12])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extrema_have_no_slope_from_nan_on(name: str, size: int) -> None:
    """Along short axes, which are windows, and along those that are steps."""
    x = np.array([1.0, 1, np.nan, *range(3, size)])
    weights = np.arange(1.0, size + 1)

    def f(x: Any) -> Any:
        return (getattr(ft.lax, name)(x) * weights).sum()

    for slope in (ft.grad(f), ft.jit(ft.grad(f))):
        np.testing.assert_array_equal(slope(x), [2, 1] + [0] * (size - 2))


# Linear recurrences.


@given(st.integers(0, 30), st.integers(1, 3), st.booleans())
def test_recurrences_are_loops(size: int, width: int, reverse: bool) -> None:
    rng = np.random.default_rng(size)
    a, b = rng.standard_normal((2, size, width))
    y, wanted = np.zeros(width), np.zeros((size, width))
    for i in reversed(range(size)) if reverse else range(size):
        y = wanted[i] = a[i] * y + b[i]
    np.testing.assert_allclose(scan.recur(Along(0, reverse), a, b), wanted, rtol=1e-9)


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrences_have_derivatives_of_any_order(reverse: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 3, 7))

    def function(a: Any, b: Any) -> Any:
        return bind_compound(recurrence_p, a, b, arg=Along(1, reverse))[0]

    with ft.disable_jit():
        check_grads(function, (a, b), 3)


# associative_scan


def _affine(left: Any, right: Any) -> Any:
    return {"a": left["a"] * right["a"], "b": left["b"] * right["a"] + right["b"]}


@given(st.integers(0, 20), st.booleans())
def test_associative_scan_is_a_loop(size: int, reverse: bool) -> None:
    rng = np.random.default_rng(size)
    a, b = rng.standard_normal((2, 2, size))
    elems = {"a": fnp.asarray(a), "b": fnp.asarray(b)}
    found = lax.associative_scan(_affine, elems, reverse=reverse, axis=1)
    wanted: dict[str, Any] = {"a": a.copy(), "b": b.copy()}
    order = list(reversed(range(size))) if reverse else list(range(size))
    for before, here in pairwise(order):
        left = {key: wanted[key][:, before] for key in wanted}
        right = {"a": a[:, here], "b": b[:, here]}
        for key, value in _affine(left, right).items():
            wanted[key][:, here] = value
    for key, value in wanted.items():
        np.testing.assert_allclose(np.asarray(found[key]), value, rtol=1e-9)


def test_associative_scan_has_derivatives_and_lanes(device: Any) -> None:
    def function(x: Any) -> Any:
        return lax.associative_scan(_affine, {"a": x, "b": x + 1})["b"]

    row = DISTINCT[0, :7]
    with ft.disable_jit():
        check_grads(function, (row,), 2)
        wanted = [np.asarray(function(fnp.asarray(x[:7]))) for x in DISTINCT]
    ordered_effects.close(ft.jit(ft.vmap(function))(DISTINCT[:, :7]), np.stack(wanted))


def test_associative_scan_calls_its_function_a_logarithm_of_times() -> None:
    calls: list[int] = []

    def combine(a: Any, b: Any) -> Any:
        calls.append(a.shape[0])
        return a + b

    lax.associative_scan(combine, fnp.arange(1000))
    assert len(calls) <= 20
    assert sum(calls) <= 2000


# Messages.

X = fnp.arange(6.0).reshape(2, 3)
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lax.cumsum(X, axis=2), errors.AxisError, "axis 2 is out of bounds"),
    (lambda: lax.cumsum(X > 1), errors.DtypeError, "cumsum is not defined for bool"),
    (lambda: lax.cumprod(fnp.ones(20, bool)), errors.DtypeError, "defined for bool"),
    (lambda: lax.cumlogsumexp(fnp.arange(3)), errors.DtypeError, "with .astype(float)"),
    (lambda: fnp.cumulative_sum(X), errors.ValueRangeError, "needs axis="),
    (lambda: lax.associative_scan(3, X), errors.ArgumentError, "takes a function"),
    (
        lambda: lax.associative_scan(fnp.add, (X, X[0])),
        errors.ShapeError,
        "one size along axis",
    ),
    (
        lambda: lax.associative_scan(lambda a, b: (a, b), X),
        errors.TreeError,
        "as many leaves as it takes",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_messages_say_what_was_required(case: int) -> None:
    call, kind, part = WRONG[case]
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, errors.FtraceError)
    assert part in caught.value.message


@pytest.mark.parametrize("name", ["cumprod", "cummax", "cummin", "cumlogsumexp"])
@pytest.mark.parametrize("size", [4, 400])
def test_only_running_sums_are_linear(name: str, size: int) -> None:
    x = np.ones(size, np.float32)
    (back,) = ft.linear_transpose(ft.lax.cumsum, x)(x)
    np.testing.assert_array_equal(back, np.arange(size, 0, -1))
    with pytest.raises(errors.DerivativeError, match="not linear in its argument"):
        ft.linear_transpose(getattr(ft.lax, name), x)(x)
