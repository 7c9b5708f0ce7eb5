"""Short axes that take turns in memory: the same numbers, in whole vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.backends.llvm.ir.writer import Type, Writer
from ftrace.backends.llvm.scalar.ops import Operations
from ftrace.backends.llvm.schedule.index_facts import Facts, facts_of
from ftrace.backends.llvm.schedule.known_positions import (
    move,
    without_short_axes,
    without_short_reduces,
)
from ftrace.backends.llvm.target import host_target
from ftrace.lower.kernel.affine_index import (
    constant_index,
    range_index,
    render_index,
)
from ftrace.lower.kernel.ir import (
    INDEX,
    BufferSpec,
    Kernel,
    Store,
    load,
    make_range,
    param,
    reduce,
)
from ftrace.testing import assert_same_bits
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add, div, eq, ge, mul, rem, sub
from ftrace.trace.primitives.sources import const
from tests.support.covering import covering

Function = Callable[..., Any]
DTYPES = ["float32", "uint8", "bool", "float64", "float16", "int64", "complex64"]


def numbers(*shape: int, dtype: str = "float32") -> Any:
    found = np.random.default_rng(len(shape)).integers(0, 100, shape)
    return (found % 2 if dtype == "bool" else found).astype(dtype)


LONGEST = host_target().most_strided
CASES = [("float32", n, (1, 77)[n % 2]) for n in range(2, LONGEST + 2)]
CASES += [(dtype, n, rows) for dtype in DTYPES for n in (3, 6) for rows in (9, 4099)]


@pytest.mark.parametrize(("dtype", "size", "rows"), CASES)
def test_points_and_colours_are_moved_as_they_are(
    dtype: str, size: int, rows: int
) -> None:
    x, y = numbers(rows, size, dtype=dtype), numbers(size, rows, dtype=dtype)
    last, first = numbers(size, dtype=dtype), numbers(rows, dtype=dtype)

    def turned(x: Any) -> Any:
        return x.T | x.T if dtype == "bool" else x.T + x.T

    def weighted(x: Any, last: Any) -> Any:
        return x & last if dtype == "bool" else x * last

    def stacked(first: Any, lines: Any) -> Any:
        return fnp.stack([first, *[lines[n] for n in range(1, size)]], -1)

    assert_same_bits(ft.jit(turned)(x), turned(x))
    assert_same_bits(ft.jit(turned)(y), turned(y))
    assert_same_bits(ft.jit(weighted)(x, last), weighted(x, last))
    assert_same_bits(
        ft.jit(stacked)(first, y),
        np.stack([first, *[y[n] for n in range(1, size)]], -1),
    )
    repeat: Function = lambda x: fnp.repeat(x, size)  # noqa: E731
    assert_same_bits(ft.jit(repeat)(first), np.repeat(first, size))


@pytest.mark.parametrize("step", range(2, LONGEST + 3))
@pytest.mark.parametrize("phase", [0, 1])
def test_every_so_manyth_element(step: int, phase: int) -> None:
    """Also where no whole window is left at the end."""
    for size in (step * 64, step * 64 - step + phase + 1, 40 * step + 1):
        x = np.arange(size, dtype=np.float32)
        wanted = x[phase::step] * 2
        found = ft.jit(lambda x: x[phase::step] * 2)(x)
        np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("count", range(2, LONGEST + 1))
def test_what_is_picked_from_what_was_interleaved_is_as_before(count: int) -> None:
    """The shuffles themselves, lane by lane."""
    t = Type.of(dtypes.float32, 8)
    writer = Writer()
    ops = Operations(writer, host_target())
    parts = [f"%part{n}" for n in range(count)]
    whole = ops.interleave(t, parts)
    lanes: dict[str, list[Any]] = {p: [(p, k) for k in range(8)] for p in parts}
    lanes["poison"] = [None] * 8

    def run() -> None:
        for line in writer.stack[0].lines:
            name, text = line.strip().split(" = ")
            a, b, places = text.removeprefix("shufflevector ").split(", ", 2)
            both = lanes[a.split()[-1]] + lanes[b.split()[-1]]
            numbers = places.split("<")[-1].rstrip(">").split(", ")
            lanes[name] = [both[int(n.split()[-1])] for n in numbers]

    run()
    flat = [lane for part in whole for lane in lanes[part]]
    assert flat == [(parts[n % count], n // count) for n in range(8 * count)]
    picked = [ops.pick(t, whole, count, phase) for phase in range(count)]
    run()
    assert [lanes[p] for p in picked] == [lanes[p] for p in parts]


def kernel(long: int, short: int, step: int, checks: bool = False) -> Kernel:
    """out[step·i + c] = x[i] for c < short, or for c = 1 alone."""
    i, c = make_range(0, long, False), make_range(1, short, False)
    place = add(mul(i, const(step, INDEX)), c)
    valid: Node | None = eq(c, const(1, INDEX)) if checks else None
    value = load(param(0, dtypes.float32, long), i, valid)
    specs = (
        BufferSpec(dtypes.float32, long, False),
        BufferSpec(dtypes.float32, long * step, True),
    )
    return Kernel((i, c), (Store(1, place, value),), specs)


def stores_of(given: Kernel) -> int:
    return len(without_short_axes(given, facts_of(given), host_target()).stores)


def test_axes_are_written_out_where_they_fill_all_places() -> None:
    assert stores_of(kernel(100, 3, 3)) == 3
    assert stores_of(kernel(100, LONGEST, LONGEST)) == LONGEST
    assert stores_of(kernel(100, LONGEST + 1, LONGEST + 1)) == 1  # long
    assert stores_of(kernel(7, 3, 3)) == 1  # few
    assert stores_of(kernel(100, 3, 4)) == 1  # places between them stay as they are


def test_questions_of_position_are_answered() -> None:
    given = kernel(100, 3, 3, checks=True)
    found = without_short_axes(given, facts_of(given), host_target())
    loads = [node for node in found.nodes if node.op.name == "load"]
    assert [len(node.src) for node in loads] == [2]
    values = [store.value.op.name for store in found.stores]
    assert values == ["const", "load", "const"]


def test_what_a_range_decides_is_known_where_it_has_moved() -> None:
    i, k = make_range(0, 100, False), make_range(1, 3, True)
    place = sub(add(mul(i, const(2, INDEX)), k), const(1, INDEX))
    third, rest = div(place, const(3, INDEX)), rem(place, const(2, INDEX))
    inside = ge(place, const(0, INDEX))
    facts = Facts([third, rest, inside])

    def moved(node: Node, first: int, step: int = 1) -> Node | None:
        new = range_index(0, 8) * step + first
        return move(node, facts, {i: new, k: constant_index(2)})

    assert moved(inside, 0) is const(True, dtypes.bool_)
    assert moved(rest, 0) is const(1, INDEX)
    assert moved(rest, -8) is None  # it is negative, and would be rounded up
    assert moved(third, 1, 3) is render_index(range_index(0, 8) * 2 + 1)
    assert move(inside, facts, {i: range_index(0, 8)}) is None
    assert move(inside, facts, {}) is None
    cut = {i: constant_index(0)}
    assert move(inside, facts, cut) is None
    assert move(inside, facts, {k: constant_index(0)}) == ge(i, const(1, INDEX))


def test_a_cross_product_of_many_points() -> None:
    a, b = numbers(1003, 3) - 50, numbers(1003, 3)[::-1] - 20
    found = ft.jit(fnp.cross)(a, b)
    np.testing.assert_array_equal(np.asarray(found), np.cross(a, b))


REDUCED: dict[str, Function] = {
    "length": lambda np, x: np.sqrt((x * x).sum(-1)),
    "unit": lambda np, x: x / np.sqrt((x * x).sum(-1, keepdims=True)),
    "greatest": lambda np, x: x.max(-1) - x.min(-1),
    "product": lambda np, x: x.prod(-1),
    "spread": lambda np, x: x.var(-1),
    "place": lambda np, x: np.argmax(x, -1),
    "whole": lambda np, x: (x * 8).astype("int32").sum(-1),
    "shares": lambda np, x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
}


@covering(2, rows=[5, 77, 3001], size=[2, 3, 4, 7, 8, 9, 12, 13], name=REDUCED)
def test_reduces_over_few_elements(name: str, size: int, rows: int) -> None:
    x = np.random.default_rng(size).standard_normal((rows, size)).astype(np.float32)
    function = REDUCED[name]
    found = np.asarray(ft.jit(lambda x: function(fnp, x))(x))
    np.testing.assert_allclose(found, function(np, x), rtol=2e-5, atol=1e-6)


def test_sums_and_maxima_beside_nan_and_infinity() -> None:
    x = np.full((64, 3), -0.0, np.float32)
    x[1, 1], x[2, 0] = np.nan, np.inf
    found = np.asarray(ft.jit(lambda x: x.sum(1))(x))
    np.testing.assert_array_equal(found, x.sum(1))
    found = np.asarray(ft.jit(lambda x: x.max(1))(x))
    np.testing.assert_array_equal(found, x.max(1))


def test_reduces_are_written_out_where_all_between_is_read() -> None:
    def reduced(size: int, step: int, long: int = 100) -> int:
        i, c = make_range(0, long, False), make_range(1, size, True)
        place = add(mul(i, const(step, INDEX)), c)
        value = reduce("add", load(param(0, dtypes.float32, long * step), place), (c,))
        specs = (
            BufferSpec(dtypes.float32, long * step, False),
            BufferSpec(dtypes.float32, long, True),
        )
        given = Kernel((i,), (Store(1, i, value),), specs)
        found = without_short_reduces(given, facts_of(given), host_target())
        return sum(node.op.name == "load" for node in found.nodes)

    assert reduced(3, 3) == 3
    assert reduced(3, 4) == 3
    assert reduced(4, 3) == 1  # windows that overlap
    assert reduced(3, 13) == 1  # far apart
    assert reduced(13, 13) == 1  # long
    assert reduced(3, 3, long=7) == 1  # few


@pytest.mark.parametrize("name", ["sum", "max", "mean"])
@pytest.mark.parametrize(("side", "written_out"), [(2, True), (4, True), (5, False)])
def test_means_over_squares_are_written_out(
    name: str, side: int, written_out: bool
) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (6, 3, 20 * side, 13 * side))
    x = x.astype(np.float32)
    x[0, 0, side] = [np.nan, np.inf] * 6 + [0.0] * (13 * side - 12)

    def pooled(x: Any) -> Any:
        squares = x.reshape(6, 3, 20, side, 13, side)
        return getattr(squares, name)((3, 5))

    f = ft.jit(pooled)
    with ft.config(disabled_rules=("unroll_short_axes",)):
        plain = f.lower(x).sources
    assert (f.lower(x).sources != plain) is written_out
    np.testing.assert_allclose(np.asarray(f(x)), pooled(x), rtol=1e-6, atol=1e-6)


def _window(x: Any, w: Any, step: int, grow: int, pad: tuple[int, int]) -> Any:
    """Each channel with a window of its own, NCHW: two dimensions, by NumPy alone."""
    side = (w.shape[-1] - 1) * grow + 1
    x = np.pad(x, ((0, 0), (0, 0), pad, pad))
    views = np.lib.stride_tricks.sliding_window_view(x, (side, side), (2, 3))
    views = views[:, :, ::step, ::step, ::grow, ::grow]
    return np.einsum("nchwij,cij->nchw", views, w[:, 0])


@covering(
    1,
    rule=["", "unroll_short_axes", "split_index_sets"],
    case=[
        (3, 2, 1, (1, 1), 56),
        (3, 2, 1, (1, 1), 55),
        (3, 3, 1, (1, 2), 61),
        (2, 2, 1, (1, 0), 57),
        (3, 2, 2, (2, 2), 49),
        (3, 4, 1, (1, 1), 90),
        (1, 2, 1, (0, 0), 50),
        (5, 2, 1, (2, 2), 48),
        (3, 2, 1, (0, 0), 53),
    ],
)
def test_windows_that_move_by_more_than_one_element(
    case: tuple[int, int, int, tuple[int, int], int], rule: str
) -> None:
    side, step, grow, pad, size = case
    rng = np.random.default_rng(size)
    x = rng.standard_normal((2, 16, size, size)).astype(np.float32)
    w = rng.standard_normal((16, 1, side, side)).astype(np.float32)

    def apply(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, (step, step), [pad, pad], rhs_dilation=(grow, grow),
            feature_group_count=16,
        )  # fmt: skip

    with ft.config(disabled_rules={rule} - {""}):
        found = np.asarray(ft.jit(apply)(x, w))
        expected = _window(x, w, step, grow, pad)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
        y = rng.standard_normal(expected.shape).astype(np.float32)
        back = ft.jit(lambda x, w, y: ft.vjp(apply, x, w)[1](y))
        dx, dw = (np.asarray(a, np.float64) for a in back(x, w, y))
    # It is linear in x and in w: <y, f(v, w)> is <dx, v>, and <dw, v> with x.
    v = rng.standard_normal(x.shape)
    product = (_window(v, w.astype(np.float64), step, grow, pad) * y).sum()
    np.testing.assert_allclose((dx * v).sum(), product, rtol=1e-4, atol=1e-2)
    for place in [(0, 0), (side - 1, 0), (side // 2, side - 1)]:
        one = np.zeros(w.shape)
        one[(3, 0, *place)] = 1
        product = (_window(x.astype(np.float64), one, step, grow, pad) * y).sum()
        np.testing.assert_allclose(dw[(3, 0, *place)], product, rtol=1e-4, atol=1e-3)
    # Each element of dx by itself, at the borders as well.
    for i in (0, 1, 2, size // 2, size - 2, size - 1):
        for j in (0, 1, size - 1):
            point = np.zeros((2, 16, size, size))
            point[1, 5, i, j] = 1
            product = (_window(point, w.astype(np.float64), step, grow, pad) * y).sum()
            np.testing.assert_allclose(dx[1, 5, i, j], product, rtol=1e-4, atol=1e-4)


def test_windows_are_written_out_where_they_end_at_borders() -> None:
    def written(taps: int, step: int, long: int = 20000, *, border: bool = True) -> int:
        i, k = make_range(0, long, False), make_range(1, taps, True)
        place = add(mul(i, const(step, INDEX)), k)
        valid = (ge(place, const(1, INDEX)),) if border else ()
        value = load(param(0, dtypes.float32, long * step + taps), place, *valid)
        specs = (
            BufferSpec(dtypes.float32, long * step + taps, False),
            BufferSpec(dtypes.float32, long, True),
        )
        given = Kernel((i,), (Store(1, i, reduce("add", value, (k,))),), specs)
        found = without_short_reduces(given, facts_of(given), host_target())
        return sum(node.op.name == "load" for node in found.nodes)

    assert written(3, 2) == 3
    assert written(9, 8) == 9
    assert written(3, 1) == 3
    assert written(25, 2, long=30_000) == 25
    assert written(3, 2, border=False) == 1  # no questions
    assert written(26, 2, long=30_000) == 1  # long
    assert written(25, 2) == 1  # few for as much code
    assert written(3, 13) == 1  # far apart
    assert written(3, 2, long=1000) == 1  # few
