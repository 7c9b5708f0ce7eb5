"""Matrix products in panels of strips: every layout, whatever the caches hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace import dtypes
from ftrace.backends.llvm.contraction.block_sizes import (
    Load,
    choose_blocks,
    share_units,
)
from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.schedule.loop_tiling import register_tile
from ftrace.backends.llvm.target import Target, host_target
from ftrace.ground import settings
from ftrace.lower.kernel.ir import (
    BufferSpec,
    Kernel,
    Store,
    load,
    make_range,
    param,
    reduce,
)
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const
from tests.support.covering import covering
from tests.support.run_llvm_kernel import at, buffer, check, make_kernel, run

Array = np.ndarray[Any, Any]
_strategies = import_module("ftrace.backends.llvm.contraction.strategies")
_sharing = import_module("ftrace.backends.llvm.contraction.block_sizes")


@pytest.fixture(autouse=True)
def _pack_panels(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Also where it does not pay."""
    monkeypatch.setattr(_strategies, "is_worthwhile", lambda *_: True)
    with settings.config(cache_dir=str(tmp_path_factory.mktemp("cache"))):
        yield


def _product(
    sizes: tuple[int, int, int, int],
    turned: str = "",
    batched: str = "ab",
    fused: bool = False,
    heavy: bool = False,
    dtype: Any = np.float32,
) -> tuple[Kernel, list[Array], Array]:
    """out[b, i, j] = f(the sum of a[b, i, k] · b[b, k, j]), and what it should be."""
    n, m, w, k = sizes
    rng = np.random.default_rng(0)
    a: Array = rng.integers(-4, 5, (n if "a" in batched else 1, m, k)).astype(dtype)
    b: Array = rng.integers(-4, 5, (n if "b" in batched else 1, k, w)).astype(dtype)
    x: Array = np.ascontiguousarray(a.swapaxes(1, 2)) if "a" in turned else a
    y: Array = np.ascontiguousarray(b.swapaxes(1, 2)) if "b" in turned else b
    out: Array = np.full((n, m, w), 77, dtype)
    arrays = [x, y, out]
    g, i, j = (make_range(number, size, False) for number, size in enumerate((n, m, w)))
    r = make_range(10, k, True)
    inside_a = [(r, m), (i, 1)] if "a" in turned else [(i, k), (r, 1)]
    inside_b = [(j, k), (r, 1)] if "b" in turned else [(r, w), (j, 1)]
    left = load(buffer(0, x), at((g, m * k * ("a" in batched)), *inside_a))
    right = load(buffer(1, y), at((g, k * w * ("b" in batched)), *inside_b))
    if fused:
        left, right = ew.add(left, const(1, left.dtype)), ew.mul(right, right)
        a, b = a + 1, b * b
    total = reduce("add", ew.mul(left, right), (r,))
    wanted: Array = a.astype(np.float64) @ b.astype(np.float64)
    wanted = np.broadcast_to(wanted, out.shape)
    if heavy:
        for number in range(5):
            total = ew.maximum(ew.add(total, total), const(number, total.dtype))
            wanted = np.maximum(wanted + wanted, number)
    store = Store(2, at((g, m * w), (i, w), (j, 1)), total)
    return make_kernel((g, i, j), (store,), arrays), arrays, wanted


def _targets() -> list[Target]:
    """This processor, one with small caches, and those with other vectors."""
    here = host_target()
    found = [here, replace(here, l2=1 << 13, cores=3)]
    if here.triple.startswith("x86_64"):
        others = [Target.of(here.triple, f"x86-64{v}") for v in ("", "-v3")]
        found += [replace(t, l2=1 << 15) for t in others if t.fma <= here.fma]
    return found


_SIZES = [
    (1, 8, 1, 1), (1, 33, 65, 17), (3, 17, 40, 33), (2, 100, 5, 300), (1, 70, 600, 130),
    (5, 9, 16, 1100),
]  # fmt: skip


@pytest.mark.parametrize("sizes", _SIZES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_products_are_numpys(sizes: tuple[int, int, int, int], turned: str) -> None:
    kernel, arrays, wanted = _product(sizes, turned)
    for target in _targets():
        check(kernel, arrays, wanted, target, 3)


@covering(2, fused=[False, True], heavy=[False, True], batched=["", "a", "b", "ab"])
def test_what_is_before_and_after_a_product_is_part_of_it(
    fused: bool, heavy: bool, batched: str
) -> None:
    for turned in ("", "a", "b"):
        kernel, arrays, wanted = _product(
            (3, 30, 50, 40), turned, batched, fused, heavy
        )
        for target in _targets()[:2]:
            check(kernel, arrays, wanted, target, 4)


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wherever operands can be read where they stand they are."""
    monkeypatch.setattr(_sharing, "_SURE", 0)
    monkeypatch.setattr(_sharing, "_SURE_CLOSE", 0)
    choose_blocks.cache_clear()
    yield
    choose_blocks.cache_clear()


@pytest.mark.usefixtures("in_place")
@covering(
    2,
    sizes=[*_SIZES, (1, 60, 1024, 70), (1, 50, 512, 130)],
    turned=["", "a"],
    heavy=[False, True],
)
def test_products_need_no_panels_of_operands(
    sizes: tuple[int, int, int, int], turned: str, heavy: bool
) -> None:
    kernel, arrays, wanted = _product(sizes, turned, heavy=heavy)
    for target in _targets():
        check(kernel, arrays, wanted, target, 3)


def test_few_rows_need_no_panels_of_operands() -> None:
    """Panels would cost more than they save; masked or turned operands need them."""
    target = replace(host_target(), l1=48 << 10, l2=1 << 20, cores=1)
    load = Load(24, 4000 // target.vector_bytes, 2000, 4, conflict_free=32)
    assert choose_blocks(target, load).shallow
    assert not choose_blocks(target, replace(load, conflict_free=0)).shallow
    assert not choose_blocks(target, replace(load, rows=2000)).shallow


def test_rows_that_push_each_other_out_stay_in_panels_unless_they_are_few() -> None:
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4", cores=2)
    target = replace(target, l1=48 << 10, l2=1 << 20, l3=32 << 20)
    load = Load(32, 64, 1024, 4, conflict_free=8, together=6)
    assert choose_blocks(target, load).shallow
    assert not choose_blocks(target, replace(load, rows=128)).shallow


def _asks_ahead(kernel: Any, arrays: Any, wanted: Any, enough: int) -> None:
    """Memory is asked for ahead, but not where this much of L2 holds it."""
    small = replace(host_target(), l1=32 << 10, l2=256 << 10)
    check(kernel, arrays, wanted, small, 3)
    assert "llvm.prefetch" in render(kernel, small).text
    for target in (
        replace(small, l2=enough),
        replace(small, without=("prefetch",)),
    ):
        assert "llvm.prefetch" not in render(kernel, target).text


@pytest.mark.parametrize("rows", [2, 3, 5, 7, 13])
def test_few_rows_go_through_a_large_matrix_once(rows: int) -> None:
    """Rows far apart are asked for before they are needed; near ones need not be."""
    kernel, arrays, wanted = _product((1, rows, 530, 700))
    _asks_ahead(kernel, arrays, wanted, enough=4 << 20)


@pytest.mark.parametrize("sizes", [(1, 40, 33, 20), (3, 30, 50, 40), (1, 9, 100, 300)])
def test_long_expressions_of_small_products_need_no_panels_of_operands(
    sizes: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_strategies, "is_worthwhile", lambda *_: False)
    kernel, arrays, wanted = _product(sizes, heavy=True)
    light = _product(sizes)[0]
    for target in _targets():
        check(kernel, arrays, wanted, target, 3)
        long, short = (render(k, target).text for k in (kernel, light))
        assert len(long) < 3 * len(short)  # not once for each register of a tile


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
def test_products_of_other_types(dtype: Any) -> None:
    for turned in ("", "a", "b"):
        kernel, arrays, wanted = _product((2, 21, 37, 29), turned, dtype=dtype)
        for target in _targets():
            run(kernel, arrays, 2, target)
            np.testing.assert_array_equal(arrays[-1], wanted)


@pytest.mark.parametrize("turned", [False, True])
def test_both_operands_may_stand_in_one_array(turned: bool) -> None:
    """x @ x, and the sums of x.T @ x."""
    x = np.random.default_rng(0).integers(-4, 5, (40, 40)).astype(np.float32)
    out = np.zeros((40, 40), np.float32)
    i, j = (make_range(number, 40, False) for number in range(2))
    r = make_range(10, 40, True)
    place = at((r, 40), (i, 1)) if turned else at((i, 40), (r, 1))
    buffer = param(0, x.dtype, x.size)
    product = ew.mul(load(buffer, place), load(buffer, at((r, 40), (j, 1))))
    store = Store(1, at((i, 40), (j, 1)), reduce("add", product, (r,)))
    specs = (BufferSpec(x.dtype, 1600, False), BufferSpec(x.dtype, 1600, True))
    run(Kernel((i, j), (store,), specs), [x, out], 2)
    np.testing.assert_array_equal(out, (x.T if turned else x) @ x)


@pytest.mark.parametrize("depth", [100, 1500])
@pytest.mark.usefixtures("in_place")
def test_bits_in_place_do_not_depend_on_how_units_are_shared(depth: int) -> None:
    test_bits_do_not_depend_on_how_units_are_shared(depth)


@pytest.mark.parametrize("depth", [100, 1500])
def test_bits_do_not_depend_on_how_units_are_shared(depth: int) -> None:
    kernel, arrays, _ = _product((2, 40, 90, depth))
    rng = np.random.default_rng(1)
    for x in arrays[:2]:
        x[...] = rng.standard_normal(x.shape)
    results: list[Array] = []
    for pieces in (1, 2, 7, 1000):
        for target in _targets()[:1]:
            run(kernel, arrays, pieces, target)
            results.append(np.array(arrays[-1]))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_blocks_fit_into_the_caches() -> None:
    target = replace(host_target(), l2=1 << 20, cores=2)
    for depth in (64, 700, 3000, 20_000):
        blocks = choose_blocks(target, Load(2000, 120, depth, 4))
        width = blocks.tile.vectors * target.vector_bytes
        assert blocks.strips * width * blocks.depth <= target.l2


def test_every_core_has_as_much_to_do() -> None:
    target = replace(host_target(), cores=2)
    for rows, vectors in ((512, 32), (700, 32), (1024, 64), (333, 35), (4096, 256)):
        blocks = choose_blocks(target, Load(rows, vectors, 512, 4))
        across = -(-vectors // (blocks.strips * blocks.tile.vectors))
        tiles = -(-rows // blocks.tile.rows)
        down = -(-tiles // blocks.tiles)
        pieces, size = share_units(across * down, target.cores)
        busiest = -(-pieces // target.cores) * size
        assert busiest <= 0.6 * across * down


def test_panels_of_sums_fit_into_the_caches() -> None:
    target = replace(host_target(), l2=1 << 20, cores=2)
    for rows, depth in ((1_000_000, 64), (5000, 9000), (300, 100)):
        load = Load(rows, 40, depth, 4, heavy=True)
        blocks = choose_blocks(target, load)
        width = blocks.strips * blocks.tile.vectors * target.vector_bytes
        assert blocks.tiles * blocks.tile.rows * width <= target.l2 / 2


@covering(
    1, columns=[17, 33, 49, 65, 97], dtype=["bfloat16", "float16", "int8", "int16"]
)
def test_the_last_column_does_not_spill_into_the_next_row(
    dtype: str, columns: int
) -> None:
    """LLVM stores the one element at the end of a row as wide as it was before."""
    a = np.ones((7, 5)).astype(dtypes.as_dtype(dtype))
    b = (np.arange(5 * columns).reshape(5, columns) % 7).astype(a.dtype)
    with ft.config(device="cpu"):
        found = ft.jit(lambda a, b: a @ b)(a, b)
        turned = ft.jit(lambda a, b: (b.T @ a.T).astype(a.dtype))(a, b)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(np.asarray(found, np.float64), expected)
    np.testing.assert_array_equal(np.asarray(turned, np.float64), expected.T)


def test_wide_tiles_are_chosen_where_the_left_operand_is_far() -> None:
    """Each strip reads all of it again; small products have it in the first cache."""
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4", cores=2)
    sizes = target.registers, target.costs, 14
    large = choose_blocks(target, Load(1200, 96, 700, 4))
    assert not large.shallow
    assert large.tile.vectors > register_tile(1200, 96, *sizes).vectors
    assert large.depth == 700


def test_how_terms_are_added_does_not_depend_on_cores() -> None:
    for rows, vectors, depth in ((700, 32, 900), (1024, 64, 4096), (96, 300, 9000)):
        target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")
        depths = {
            choose_blocks(replace(target, cores=n), Load(rows, vectors, depth, 4)).depth
            for n in (1, 2, 5, 64)
        }
        assert len(depths) == 1


def test_left_operands_are_filled_for_wide_blocks() -> None:
    """Deep blocks of few columns would fill them again and again."""
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4", cores=2)
    target = replace(target, l2=1 << 20, l3=32 << 20)
    plain = choose_blocks(target, Load(512, 32, 8192, 4))
    filled = choose_blocks(target, Load(512, 32, 8192, 4, left=1))
    width = plain.strips * plain.tile.vectors
    assert filled.strips * filled.tile.vectors >= 4 * width
    assert filled.depth < plain.depth
    # What each unit fills is used many times.
    assert filled.tiles * filled.tile.rows >= 128


def test_a_left_operand_that_lies_across_needs_panels() -> None:
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4", cores=2)
    target = replace(target, l1=48 << 10, l2=1 << 20, l3=32 << 20)
    for rows, vectors, depth, apart in ((784, 16, 4096, 32), (512, 32, 8192, 8)):
        load = Load(rows, vectors, depth, 4, left=1, conflict_free=apart)
        assert not choose_blocks(target, load).shallow


@pytest.mark.parametrize("turned", ["", "a"])
def test_rows_of_panels_are_asked_for_ahead(turned: str) -> None:
    kernel, arrays, wanted = _product((1, 90, 530, 1400), turned)
    _asks_ahead(kernel, arrays, wanted, enough=16 << 20)
