"""Products of bfloat16 in pairs: every shape and layout, special values, threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.target import Target
from ftrace.dtypes import bfloat16
from tests.support.covering import covering

Array = np.ndarray[Any, Any]
LINUX = "x86_64-unknown-linux-gnu"
WITH = Target.of(LINUX, "x86-64-v4", "+avx512bf16")
WORD = "dpbf16ps"


def normals(*shape: int, seed: int = 0) -> Array:
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return numbers.astype(np.float32).astype(bfloat16)


def wide(x: Any) -> Array:
    return np.asarray(x).astype(np.float32).astype(np.float64)


def product(a: Any, b: Any) -> Any:
    return fnp.matmul(a, b, preferred_element_type=fnp.float32)


def run(function: Callable[..., Any], *arrays: Array) -> Array:
    return np.asarray(ft.jit(function, device="cpu")(*arrays))


def run_without(function: Callable[..., Any], *arrays: Array) -> Array:
    with ft.config(disabled_rules={"bfloat16_dot_product"}):
        return run(function, *arrays)


def assert_product(found: Any, a: Array, b: Array) -> None:
    """Within the bound for sums of products in float32, whatever their order."""
    with np.errstate(all="ignore"):
        error = abs(wide(found) - wide(a) @ wide(b))
        bound = abs(wide(a)) @ abs(wide(b))
    assert (error <= 4 * 2.0**-24 * np.sqrt(a.shape[-1]) * bound + 1e-36).all()


def codes(
    function: Callable[..., Any], *arrays: Array, target: Target = WITH
) -> list[bool]:
    """Of each kernel of a program: does its code multiply pairs?"""
    kernels = ft.jit(function, device="cpu").lower(*arrays).kernels
    return [WORD in render_kernel(kernel, target).text for kernel in kernels]


SIZES = [
    (64, 64, 64), (33, 65, 47), (100, 301, 50), (9, 1000, 33), (300, 64, 5),
    (128, 129, 130), (31, 4, 300), (4, 2000, 64), (17, 66, 16), (2, 256, 300),
    (700, 900, 40), (1, 128, 128), (128, 128, 1), (64, 1, 64), (64, 63, 64),
]  # fmt: skip


@covering(1, layout=["nn", "nt", "tn", "tt"], size=SIZES)
def test_a_product_is_exact_but_for_its_sums(
    size: tuple[int, int, int], layout: str
) -> None:
    m, k, n = size
    a, b = normals(m, k), normals(k, n, seed=1)
    left = a if layout[0] == "n" else np.ascontiguousarray(a.T)
    right = b if layout[1] == "n" else np.ascontiguousarray(b.T)

    def function(x: Any, y: Any) -> Any:
        x = x if layout[0] == "n" else x.T
        return product(x, y if layout[1] == "n" else y.T)

    assert_product(run(function, left, right), a, b)
    single = run_without(function, left, right)
    assert_product(single, a, b)


def test_integers_are_exact() -> None:
    for k in (64, 255, 256, 1000):
        rng = np.random.default_rng(k)
        a = rng.integers(-16, 17, (70, k)).astype(np.float32)
        b = rng.integers(-16, 17, (k, 90)).astype(np.float32)
        found = run(product, a.astype(bfloat16), b.astype(bfloat16))
        np.testing.assert_array_equal(found, a @ b)


def test_every_product_has_its_own_place() -> None:
    """A unit matrix picks rows: none is left out, none is taken for its neighbour."""
    for k in (64, 101, 128):
        a, b = np.eye(k, dtype=np.float32).astype(bfloat16), normals(k, 70)
        np.testing.assert_array_equal(run(product, a, b), wide(b))
        np.testing.assert_array_equal(run(product, a.T, b), wide(b))
        c = np.ascontiguousarray(b.T)
        np.testing.assert_array_equal(run(product, c, a), wide(c))


def test_batches_and_several_axes() -> None:
    a, b = normals(3, 5, 24, 40), normals(3, 5, 40, 32, seed=1)
    assert_product(run(product, a, b), a, b)

    def sums(x: Any, y: Any) -> Any:
        return fnp.einsum("ijkl,klm->ijm", x, y, preferred_element_type=fnp.float32)

    x, y = normals(4, 20, 7, 10), normals(7, 10, 48, seed=2)
    assert codes(sums, x, y) == [True]
    found = run(sums, x, y).reshape(80, 48)
    assert_product(found, x.reshape(80, 70), y.reshape(70, 48))
    shared = normals(40, 32, seed=3)
    assert_product(run(product, a, shared), a, np.broadcast_to(shared, b.shape))


def test_slices_begin_at_any_place() -> None:
    a, b = normals(40, 200), normals(200, 70, seed=1)
    for first, last in ((1, 129), (2, 130), (0, 101), (3, 104)):

        def function(x: Any, y: Any, i: int = first, j: int = last) -> Any:
            return product(x[:, i:j], y[i:j])

        assert_product(run(function, a, b), a[:, first:last], b[first:last])
    back = run(lambda x, y: product(x[:, ::-1], y[::-1]), a, b)
    assert_product(back, a, b)


def test_what_lies_beside_a_slice_is_not_read_as_a_factor() -> None:
    a, b = normals(40, 66), normals(66, 70, seed=1)
    a[:, 65], b[65] = np.nan, np.nan
    found = run(lambda x, y: product(x[:, :65], y[:65]), a, b)
    assert_product(found, a[:, :65], b[:65])


@pytest.mark.parametrize("k", [64, 65, 128, 301])
def test_infinities_and_nans_stay_in_their_rows(k: int) -> None:
    a, b = normals(40, k), normals(k, 70, seed=1)
    a[3, 7], a[5, k - 1], b[k - 1, 9] = np.inf, np.nan, -np.inf
    a[6], b[:, 5], b[11] = 0.0, -0.0, 0.0
    a[8, 11] = np.inf
    found = run(product, a, b)
    with np.errstate(invalid="ignore"):
        wanted = wide(a) @ wide(b)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    infinite = np.isinf(wanted)
    np.testing.assert_array_equal(np.isinf(found), infinite)
    np.testing.assert_array_equal(found[infinite], wanted[infinite])


def test_sums_of_zeros_have_the_sign_that_they_had() -> None:
    for k in (64, 65):
        a = np.full((20, k), -0.0, np.float32).astype(bfloat16)
        b = normals(k, 40)
        found, wanted = run(product, a, b), run_without(product, a, b)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_subnormal_numbers_may_be_zeros_but_nothing_else_changes() -> None:
    a, b = normals(40, 64), normals(64, 70, seed=1)
    tiny = np.array(2.0**-130, np.float32).astype(bfloat16)
    a[:, 10] = tiny
    lost = 2.0**-126 * 64 * abs(wide(b)).max() + 2.0**-126 * 64
    error = abs(wide(run(product, a, b)) - wide(a) @ wide(b))
    bound = 32 * 2.0**-24 * abs(wide(a)) @ abs(wide(b)) + lost
    assert (error <= bound).all()
    small = (wide(a) * 2.0**-70).astype(np.float32).astype(bfloat16)
    other = (wide(b) * 2.0**-56).astype(np.float32).astype(bfloat16)
    error = abs(wide(run(product, small, other)) - wide(small) @ wide(other))
    assert (error <= 64 * 2.0**-126).all()


def test_what_makes_operands_and_what_becomes_of_sums() -> None:
    a, b = normals(72, 128), normals(128, 80, seed=1)
    bias = normals(80, seed=2)

    def layer(x: Any, y: Any, c: Any) -> Any:
        return ft.nn.gelu(x * 3 @ y + c, approximate=False)

    found, wanted = run(layer, a, b, bias), run_without(layer, a, b, bias)
    # Sums differ in the last bits of float32: a rounding of bfloat16 may, too.
    np.testing.assert_allclose(wide(found), wide(wanted), rtol=2.0**-7, atol=2.0**-7)
    for k in (127, 128):
        x, y = a[:, :k].copy(), b[:k].copy()
        both = run(lambda x, y: product(abs(x), -y), x, y)
        assert_product(both, abs(x), -y)


@pytest.mark.parametrize("change", [lambda x: x * 3, fnp.tanh, lambda x: x + x.mean()])
def test_producers_have_the_roundings_that_they_had(change: Any) -> None:
    """Pairs are of what is a bfloat16 without them, too."""
    a, b = normals(72, 128), normals(128, 80, seed=1)
    for function in (
        lambda x, y: product(change(x), y),
        lambda x, y: product(x, change(y)),
        lambda x, y: product(change(x.T).T, y) * 2,
    ):
        found, wanted = run(function, a, b), run_without(function, a, b)
        assert (abs(found - wanted) <= 1e-3).all()  # a rounding too many makes 0.03


def test_gradients() -> None:
    a, b = normals(72, 128), normals(128, 80, seed=1)
    c = normals(72, 80, seed=2)

    def loss(x: Any, y: Any) -> Any:
        return (product(x, y) * c.astype(np.float32)).sum()

    gradient = ft.jit(ft.grad(loss, argnums=(0, 1)), device="cpu")
    with ft.config(disabled_rules={"bfloat16_dot_product"}):
        wanted = ft.jit(ft.grad(loss, argnums=(0, 1)), device="cpu")(a, b)
    exact = wide(c) @ wide(b).T, wide(a).T @ wide(c)
    for found, other, true in zip(gradient(a, b), wanted, exact, strict=True):
        assert found.dtype == bfloat16
        np.testing.assert_allclose(wide(found), true, rtol=2.0**-7, atol=2.0**-4)
        np.testing.assert_allclose(wide(found), wide(other), rtol=2.0**-7, atol=1e-3)


def test_threads_do_not_change_a_bit() -> None:
    for m, k, n in ((300, 700, 500), (70, 3001, 90)):
        a, b = normals(m, k), normals(k, n, seed=1)
        f = ft.jit(product, device="cpu")
        found: set[bytes] = set()
        for threads in (1, 2, 3, 5):
            with ft.set_threads(threads):
                found.add(np.asarray(f(a, b)).tobytes())
        assert len(found) == 1


# Which code.


def test_pairs_are_used_where_the_processor_has_them() -> None:
    a, b = normals(72, 128), normals(128, 80)
    assert codes(product, a, b) == [True]
    assert codes(fnp.matmul, a, b) == [True]
    assert codes(lambda x, y: product(x.T, y.T), a.T.copy(), b.T.copy()) == [True]
    others = (
        Target.of(LINUX, "x86-64-v4"),
        Target.of(LINUX, "x86-64-v3", "+avx512bf16"),
        Target.of("aarch64-unknown-linux-gnu"),
        replace(WITH, without=("bfloat16_dot_product",)),
    )
    for target in others:
        assert codes(product, a, b, target=target) == [False]


def test_pairs_are_of_bfloat16_only() -> None:
    a, b = normals(72, 128), normals(128, 80)
    single = a.astype(np.float32), b.astype(np.float32)
    assert codes(product, *single) == [False]
    assert codes(product, single[0], b) == [False]
    assert not any(codes(product, a.astype(np.float16), b.astype(np.float16)))


def test_factors_that_were_not_rounded_to_bfloat16_are_no_pairs() -> None:
    a, b = normals(72, 128), normals(128, 80)

    def function(x: Any, y: Any) -> Any:
        return x.astype(fnp.float32) * 1.001 @ y.astype(fnp.float32)

    assert not any(codes(function, a, b))
    exact = (wide(a) * np.float32(1.001)).astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(run(function, a, b), exact @ wide(b), rtol=0, atol=1e-4)


def test_sums_of_any_length_are_pairs() -> None:
    for k in (9, 62, 63, 64, 65):
        assert codes(product, normals(72, k), normals(k, 80)) == [True]


def test_other_sums_are_no_pairs() -> None:
    a, b = normals(72, 128), normals(128, 80)

    def largest(x: Any, y: Any) -> Any:
        x, y = x.astype(fnp.float32), y.astype(fnp.float32)
        return (x[:, :, None] * y).max(1)

    assert not any(codes(largest, a, b))
    wanted = (wide(a)[:, :, None] * wide(b)).max(1)
    np.testing.assert_array_equal(run(largest, a, b), wanted)
