"""Products of small integers in groups: every shape, layout and dtype is exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product as pairs_of
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.target import Target
from tests.support.covering import covering

Array = np.ndarray[Any, Any]
LINUX = "x86_64-unknown-linux-gnu"
WITH = Target.of(LINUX, "x86-64-v4", "+avx512vnni")
QUADS, PAIRS = "vpdpbusd", "vpdpwssd"
SMALL = ("int8", "uint8", "int16")
BOTH = list(pairs_of(SMALL, SMALL))
LAYOUTS = ("nn", "nt", "tn", "tt")


def integers(dtype: str, *shape: int, seed: int = 0) -> Array:
    """The whole range, and its ends more often than chance has them."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    found = rng.integers(info.min, info.max + 1, shape)
    found = np.where(rng.random(shape) < 0.2, info.min, found)
    return np.where(rng.random(shape) < 0.2, info.max, found).astype(dtype)


def product(a: Any, b: Any) -> Any:
    return fnp.matmul(a, b, preferred_element_type=fnp.int32)


def wanted(a: Array, b: Array) -> Array:
    """Sums that wrap, as those of int32 do."""
    whole = a.astype(np.float64) @ b.astype(np.float64)  # exact, far below 2⁵³
    return whole.astype(np.int64).astype(np.int32)


def run(function: Callable[..., Any], *arrays: Array) -> Array:
    return np.asarray(ft.jit(function, device="cpu")(*arrays))


def words(
    function: Callable[..., Any], *arrays: Array, target: Target = WITH
) -> set[str]:
    """The instructions for groups in the code of a program."""
    kernels = ft.jit(function, device="cpu").lower(*arrays).kernels
    text = "".join(render_kernel(kernel, target).text for kernel in kernels)
    return {word for word in (QUADS, PAIRS) if word in text}


SIZES = [
    (64, 64, 64), (33, 65, 47), (9, 1000, 33), (300, 64, 5), (31, 4, 300),
    (300, 1200, 600), (17, 131, 16), (1, 128, 128),
]  # fmt: skip


@covering(
    1, dtypes=BOTH, layout=["nn", "nt", "tn", "tt"], sizes=[SIZES[::2], SIZES[1::2]]
)
def test_products_are_exact(
    layout: str, dtypes: tuple[str, str], sizes: list[tuple[int, int, int]]
) -> None:
    def function(x: Any, y: Any) -> Any:
        x = x if layout[0] == "n" else x.T
        return product(x, y if layout[1] == "n" else y.T)

    for m, k, n in sizes:
        a, b = integers(dtypes[0], m, k), integers(dtypes[1], k, n, seed=1)
        left = a if layout[0] == "n" else np.ascontiguousarray(a.T)
        right = b if layout[1] == "n" else np.ascontiguousarray(b.T)
        found = run(function, left, right)
        np.testing.assert_array_equal(found, wanted(a, b), err_msg=f"{m} {k} {n}")


def test_batches_slices_and_several_axes() -> None:
    a, b = integers("int8", 3, 24, 40), integers("int8", 3, 40, 32, seed=1)
    np.testing.assert_array_equal(run(product, a, b), wanted(a, b))
    x, y = integers("int8", 4, 20, 7, 12), integers("int8", 7, 12, 48, seed=2)

    def sums(x: Any, y: Any) -> Any:
        return fnp.einsum("ijkl,klm->ijm", x, y, preferred_element_type=fnp.int32)

    found = run(sums, x, y).reshape(80, 48)
    exact = wanted(x.reshape(80, 84), y.reshape(84, 48))
    np.testing.assert_array_equal(found, exact)
    c, d = integers("int8", 40, 300), integers("int8", 300, 70, seed=1)
    for first, last in ((1, 257), (4, 260), (0, 201), (3, 104)):

        def function(x: Any, y: Any, i: int = first, j: int = last) -> Any:
            return product(x[:, i:j], y[i:j])

        exact = wanted(c[:, first:last], d[first:last])
        np.testing.assert_array_equal(run(function, c, d), exact)
    back = run(lambda x, y: product(x[:, ::-1], y[::-1]), c, d)
    np.testing.assert_array_equal(back, wanted(c, d))


def test_what_makes_operands_and_what_becomes_of_sums() -> None:
    a, b = integers("int8", 72, 128), integers("int8", 128, 80, seed=1)
    scale = np.linspace(0.1, 2, 80, dtype=np.float32)

    def layer(x: Any, y: Any, s: Any) -> Any:
        total = product(x // 2, -y)
        return fnp.maximum(total.astype(fnp.float32) * s, 0)

    exact = wanted(a // 2, -b).astype(np.float32) * scale
    np.testing.assert_array_equal(run(layer, a, b, scale), np.maximum(exact, 0))

    def heavy(x: Any, y: Any) -> Any:
        return ft.nn.gelu(product(x, y).astype(fnp.float32) / 1e4, approximate=False)

    with ft.config(disabled_rules={"integer_dot_product"}):
        plain = run(heavy, a, b)
    np.testing.assert_array_equal(run(heavy, a, b), plain)


def test_threads_do_not_change_a_bit() -> None:
    a, b = integers("int8", 300, 700), integers("int8", 700, 500, seed=1)
    f = ft.jit(product, device="cpu")
    for threads in (1, 2, 3, 5):
        with ft.set_threads(threads):
            np.testing.assert_array_equal(np.asarray(f(a, b)), wanted(a, b))


# Which code.


def test_the_dtypes_decide_the_groups() -> None:
    found = {
        pair: words(product, integers(pair[0], 72, 128), integers(pair[1], 128, 80))
        for pair in BOTH
    }
    quads = {("int8", "int8"), ("int8", "uint8"), ("uint8", "int8")}
    for pair, instructions in found.items():
        assert instructions == ({QUADS} if pair in quads else {PAIRS})


def test_groups_are_used_where_the_processor_has_them() -> None:
    a, b = integers("int8", 72, 128), integers("int8", 128, 80)
    others = (
        Target.of(LINUX, "x86-64-v4"),
        Target.of(LINUX, "x86-64-v3", "+avx512vnni"),
        Target.of("aarch64-unknown-linux-gnu"),
        replace(WITH, without=("integer_dot_product",)),
    )
    for target in others:
        assert words(product, a, b, target=target) == set()


def test_other_products_have_no_groups() -> None:
    a, b = integers("int8", 72, 128), integers("int8", 128, 80)
    wide = a.astype(np.int32)
    assert words(lambda x, y: x @ y, wide, b.astype(np.int32)) == set()
    assert words(lambda x, y: x @ y.astype(fnp.int32), wide, b) == set()
    assert words(lambda x, y: x @ y, a, b) == set()  # sums of 8 bits wrap at 8 bits
    unsigned = a.astype(np.uint16), b.astype(np.uint16)
    assert words(product, *unsigned) == set()

    def changed(x: Any, y: Any) -> Any:
        return (x.astype(fnp.int32) * 3) @ y.astype(fnp.int32)

    assert words(changed, a, b) == set()
    exact = (a.astype(np.int32) * 3) @ b.astype(np.int32)
    np.testing.assert_array_equal(run(changed, a, b), exact)


def test_sums_of_any_length_and_number_have_quads() -> None:
    for rows, k in ((72, 62), (72, 63), (72, 64), (72, 129), (4, 256)):
        a, b = integers("int8", rows, k), integers("int8", k, 80)
        assert words(product, a, b) == {QUADS}
        exact = a.astype(np.int32) @ b.astype(np.int32)
        np.testing.assert_array_equal(run(product, a, b), exact)
