"""What is much larger than all around it is computed slice by slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import nn
from ftrace.backends.base import get_device
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.lower.analysis import axes_in_step, slice_op, split_count
from ftrace.lower.program import Program, RunLoop, programs_of
from ftrace.trace.avals import ShapedArray
from ftrace.trace.evaluate import evaluate, evaluate_graph
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives import movement as m
from ftrace.trace.primitives.broadcast import expand, reduce_sum
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.sources import iota, variable
from tests.support.covering import covering

P: Any = pytest.param
RULE = "tile_regions"
#: Bytes of a cache so small that small arrays are large.
CACHE = 4096
RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def attention(q: Any, k: Any, v: Any, mask: Any = None, bias: Any = None) -> Any:
    scores = fnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.3
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = fnp.where(mask, scores, -np.inf)
    return fnp.einsum("bhqk,bhkd->bhqd", nn.softmax(scores), v)


def causal(q: Any, k: Any, v: Any) -> Any:
    rows, columns = q.shape[2], k.shape[2]
    seen = fnp.arange(rows)[:, None] >= fnp.arange(columns)[None, :]
    return attention(q, k, v, seen)


def projected(x: Any, w: Any) -> Any:
    """Attention between products: the gradient comes back from outside."""
    q, k, v = ((x @ w[i])[None, None] for i in range(3))
    return x + causal(q, k, v)[0, 0] @ w[3]


def stacked(x: Any, w: Any) -> Any:
    return projected(projected(x, w), w[::-1])


def cross_entropy(x: Any, w: Any, labels: Any) -> Any:
    chances = nn.log_softmax(x @ w)
    return -fnp.mean(fnp.take_along_axis(chances, labels[:, None], 1))


def distances(x: Any, y: Any) -> Any:
    return fnp.sum((x[:, None, :] - y[None, :, :]) ** 2, -1)


def regression(x: Any, y: Any, v: Any) -> Any:
    return nn.softmax(-distances(x, y)) @ v


def gaussian(x: Any, y: Any, v: Any) -> Any:
    squares = fnp.sum(x**2, -1)[:, None] + fnp.sum(y**2, -1)[None]
    return fnp.exp(-0.1 * (squares - 2 * x @ y.T)) @ v


def nearest(x: Any, y: Any) -> Any:
    return fnp.argmin(distances(x, y), 1), fnp.min(distances(x, y), 1)


def qkv(batch: int, heads: int, rows: int, columns: int, size: int) -> list[Any]:
    shapes = (rows, columns, columns)
    return [normal(batch, heads, n, size) for n in shapes]


LABELS = (np.arange(150) * 37 % 700).astype(np.int32)
MATRICES = normal(4, 8, 8) / 3
PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "plain": (attention, qkv(2, 3, 70, 70, 8)),
    "causal": (causal, qkv(2, 2, 128, 128, 8)),
    "odd": (attention, qkv(1, 1, 257, 131, 5)),
    "many heads": (causal, qkv(3, 5, 40, 40, 3)),
    "few rows": (attention, qkv(1, 2, 65, 400, 4)),
    "rows and columns of one": (
        lambda x: attention(x, x, x), [normal(1, 2, 140, 4)]
    ),
    "bias of heads": (
        lambda q, k, v, b: attention(q, k, v, None, b),
        [*qkv(2, 2, 130, 130, 4), normal(1, 2, 130, 130)],
    ),
    "bias of batches": (
        lambda q, k, v, b: attention(q, k, v, None, b),
        [*qkv(2, 2, 130, 130, 4), normal(2, 1, 130, 130)],
    ),
    "bias of columns": (
        lambda q, k, v, b: attention(q, k, v, None, b),
        [*qkv(2, 2, 130, 130, 4), normal(130)],
    ),
    "layout of nn": (
        lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True),
        [normal(2, 140, 4, 8), normal(2, 140, 2, 8), normal(2, 140, 2, 8)],
    ),
    "between products": (projected, [normal(140, 8), MATRICES]),
    "two of them": (stacked, [normal(140, 8), MATRICES]),
    "under vmap": (
        ft.vmap(lambda q, k, v: nn.softmax(q @ k.T) @ v),
        [normal(3, 140, 4), normal(3, 140, 4), normal(3, 140, 4)],
    ),
    "in a loop": (
        lambda x, w: ft.lax.scan(
            lambda c, w: (c + nn.softmax((c @ w) @ c.T) @ c, None), x, w
        )[0],
        [normal(150, 4) / 4, normal(3, 4, 4) / 4],
    ),
    "noise": (
        lambda q, k, v: fnp.where(
            ft.random.bernoulli(ft.random.key(3), 0.5, (2, 130, 150)),
            nn.softmax(fnp.einsum("hqd,hkd->hqk", q, k)), 0
        ) @ v,
        [normal(2, 130, 4), normal(2, 150, 4), normal(2, 150, 4)],
    ),
    "cross-entropy": (cross_entropy, [normal(150, 6), normal(6, 700) / 3, LABELS]),
    "regression": (regression, [normal(200, 3), normal(150, 3), normal(150, 2)]),
    "gaussian": (gaussian, [normal(200, 3), normal(150, 3), normal(150, 2)]),
    "greatest of columns": (
        lambda x, y: fnp.max(x @ y.T, 0), [normal(200, 3), normal(150, 3)]
    ),
    "of columns": (
        lambda x, y: (w := fnp.exp(x @ y.T)) / fnp.sum(w, 0) @ y,
        [normal(200, 3) / 3, normal(150, 3) / 3],
    ),
}  # fmt: skip


def with_gradient(f: Callable[..., Any], arrays: list[Any]) -> Callable[..., Any]:
    floats = tuple(i for i, a in enumerate(arrays) if a.dtype == np.float32)
    return ft.value_and_grad(lambda *a: fnp.sum(fnp.sin(f(*a))), floats)


def run(program: Program, name: str, graph: Graph, arrays: list[Any]) -> list[Any]:
    device = get_device(name)
    buffers = device.compile(program)([device.copy_in(a) for a in arrays])
    return [
        np.array(device.copy_out(b, n.dtype, n.size)).reshape(n.shape)
        for b, n in zip(buffers, graph.outputs, strict=True)
    ]


def loops(program: Program) -> int:
    found = 0
    for step in program.steps:
        found += isinstance(step, RunLoop)
        found += sum(loops(inner) for inner in programs_of(step))
    return found


def largest(program: Program) -> int:
    """Elements of the largest value, of those that are no result and no scratch."""
    inside = [p for step in program.steps for p in programs_of(step)]
    own = [s.size for s in program.slots if s.value != "scratch"]
    return max([*own, *(largest(p) for p in inside)], default=0)


@covering(1, program=PROGRAMS, gradient=[False, True])
def test_slices_have_the_values_of_the_whole(program: str, gradient: bool) -> None:
    f, arrays = PROGRAMS[program]
    graph = ft.make_graph(with_gradient(f, arrays) if gradient else f)(*arrays)
    whole = lower(graph).program
    cut = lower(graph, Limits(cache=CACHE)).program
    for name in ("cpu", "interpreter"):
        found, wanted = (run(p, name, graph, arrays) for p in (cut, whole))
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    # The other oracle, of what the interpreter has found.
    for got, want in zip(found, evaluate_graph(graph, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


#: Programs whose gradients are not cut: what is reduced along both axes.
WHOLE = {"of columns", "cross-entropy", "in a loop"}


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p != "of columns"])
def test_large_values_are_not_stored(program: str) -> None:
    f, arrays = PROGRAMS[program]
    for function in (f, with_gradient(f, arrays)):
        if function is not f and program in WHOLE:
            continue
        graph = ft.make_graph(function)(*arrays)
        whole, cut = lower(graph).program, lower(graph, Limits(cache=CACHE)).program
        assert loops(cut) > loops(whole)
        assert largest(cut) < largest(whole)


def test_the_scores_of_attention_are_not_stored() -> None:
    """[8, 2048, 2048] scores are 134 MB, forward; twice that and more in reverse."""
    arrays = [normal(1, 8, 2048, 64) for _ in range(3)]
    forward = ft.jit(causal).lower(*arrays).program
    step = ft.jit(with_gradient(causal, arrays)).lower(*arrays).program
    device = get_device("cpu")
    assert device.limits.cache > 0
    for program, most in ((forward, 32 << 20), (step, 96 << 20)):
        assert program.arena < most
        assert largest(program) <= 8 * 2048 * 64
    with ft.config(disabled_rules={RULE}):
        assert ft.jit(causal).lower(*arrays).program.arena >= 8 * 2048 * 2048 * 4


@pytest.mark.parametrize("program", [gaussian, regression])
def test_few_results_of_large_values_store_none_of_them(program: Any) -> None:
    """Parts of so long a sum would be sums of what is stored."""
    arrays = [normal(2048, 4), normal(2048, 4), normal(2048, 2)]
    assert largest(ft.jit(program).lower(*arrays).program) < 2048 * 2048 / 8


def test_gradients_that_come_from_outside_compute_the_scores_again() -> None:
    f, arrays = PROGRAMS["between products"]
    graph = ft.make_graph(with_gradient(f, arrays))(*arrays)
    program = lower(graph, Limits(cache=CACHE)).program
    outer = [step for step in program.steps if isinstance(step, RunLoop)]
    assert len(outer) == 2  # forward, and in reverse
    assert largest(program) < 140 * 140


@dataclass(frozen=True)
class Row:
    """A program, and whether it is cut."""

    f: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    applies: bool


ROWS = {
    "much larger than its operands": Row(
        lambda x, y, v: nn.softmax(x @ y) @ v, ((150, 4), (4, 150), (150, 4)), True
    ),
    "as large as its operands": Row(
        lambda x, y, v: nn.softmax(x @ y) @ v, ((150, 150), (150, 150), (150, 4)), False
    ),
    "small": Row(
        lambda x, y, v: nn.softmax(x @ y) @ v, ((40, 4), (4, 40), (40, 4)), False
    ),
    "a result": Row(lambda x, y: nn.softmax(x @ y), ((150, 4), (4, 150)), False),
    "each row needs all": Row(
        lambda x, y: fnp.linalg.svd(x @ y)[1], ((150, 4), (4, 150)), False
    ),
    "rows that meet columns": Row(
        lambda x, y, v: ((w := x @ y) + w.T) @ v,
        ((150, 4), (4, 150), (150, 4)),
        False,
    ),
    "rows that add up": Row(
        lambda x, y, v: fnp.cumsum(x @ y, 0) @ v,
        ((150, 4), (4, 150), (150, 4)),
        False,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_cut(name: str) -> None:
    row = ROWS[name]
    arrays = [normal(*shape) / 4 for shape in row.shapes]
    graph = ft.make_graph(row.f)(*arrays)
    program = lower(graph, Limits(cache=CACHE)).program
    assert bool(loops(program)) == row.applies
    with ft.config(disabled_rules={RULE}):
        assert not loops(lower(graph, Limits(cache=CACHE)).program)
    wanted = evaluate_graph(graph, *arrays)
    for got, want in zip(run(program, "cpu", graph, arrays), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_long_sum_is_not_computed_again() -> None:
    """The hidden layer of a network is stored where its gradient needs it."""

    def loss(x: Any, v: Any, w: Any) -> Any:
        return fnp.sum(nn.relu(x @ v) @ w @ w.T)

    arrays = [normal(300, 200), normal(200, 1200), normal(1200, 4)]
    graph = ft.make_graph(ft.grad(loss, (0, 1, 2)))(*arrays)
    assert not loops(lower(graph, Limits(cache=CACHE)).program)


def test_what_is_compared_is_not_computed_again() -> None:
    """The greatest of a row must be found again where its gradient goes."""

    def loss(x: Any, y: Any, w: Any) -> Any:
        return fnp.sum(fnp.sin(fnp.max(x @ y, 1) @ w))

    arrays = [normal(300, 5), normal(5, 300), normal(300, 7) / 20]
    graph = ft.make_graph(ft.grad(loss, (0, 1)))(*arrays)
    program = lower(graph, Limits(cache=CACHE)).program
    assert not loops(program)
    got = run(program, "cpu", graph, arrays)
    for value, want in zip(got, evaluate_graph(graph, *arrays), strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-4)


def test_rows_without_anything_to_see_are_nan() -> None:
    q, k, v = qkv(1, 2, 130, 130, 4)
    mask = np.ones((130, 130), bool)
    mask[[0, 64, 129]] = False
    graph = ft.make_graph(lambda q, k, v, mask: attention(q, k, v, mask))(q, k, v, mask)
    program = lower(graph, Limits(cache=CACHE)).program
    assert loops(program)
    (got,) = run(program, "cpu", graph, [q, k, v, mask])
    assert np.isnan(got[:, :, [0, 64, 129]]).all()
    assert np.isfinite(np.delete(got, [0, 64, 129], axis=2)).all()


@pytest.mark.parametrize(
    "shape", [(0, 2, 70, 70, 4), (2, 2, 0, 70, 4), (2, 2, 70, 70, 0), (1, 1, 1, 1, 1)]
)
def test_nothing_and_one_are_sizes(shape: tuple[int, ...]) -> None:
    arrays = qkv(*shape)
    f = with_gradient(attention, arrays)
    graph = ft.make_graph(f)(*arrays)
    got = run(lower(graph, Limits(cache=16)).program, "cpu", graph, arrays)
    for value, want in zip(got, evaluate_graph(graph, *arrays), strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-5)


def test_short_floats_are_rounded_once() -> None:
    """Sums over all rows are added in float32, whatever the blocks."""
    x, y, v = (normal(n, 4).astype(ft.dtypes.bfloat16) for n in (1000, 150, 1000))

    def f(x: Any, y: Any, v: Any) -> Any:
        return nn.sigmoid(x @ y.T).T @ v

    graph = ft.make_graph(f)(x, y, v)
    program = lower(graph, Limits(cache=CACHE)).program
    assert loops(program)
    (got,) = run(program, "cpu", graph, [x, y, v])
    (want,) = run(lower(graph).program, "cpu", graph, [x, y, v])
    error = np.abs(got.astype(np.float32) - want.astype(np.float32))
    assert error.max() <= 2**-8 * np.abs(want.astype(np.float32)).max()


@pytest.mark.parametrize("program", ["causal", "odd", "two of them", "gaussian"])
def test_threads_change_no_bit(program: str) -> None:
    f, arrays = PROGRAMS[program]
    graph = ft.make_graph(with_gradient(f, arrays))(*arrays)
    lowered = lower(graph, Limits(cache=CACHE)).program
    found: list[list[Any]] = []
    for threads in (1, 2, 3):
        with ft.config(threads=threads):
            found.append(run(lowered, "cpu", graph, arrays))
    for other in found[1:]:
        for got, want in zip(other, found[0], strict=True):
            assert got.tobytes() == want.tobytes()


# Random programs around a product.


def random_program(seed: int) -> Callable[..., Any]:
    """Steps over values as large as x @ y.T, and what is reduced from them."""
    choose = np.random.default_rng(seed).integers

    def step(high: list[Any], columns: Any, rows: Any) -> Any:
        h, other = high[choose(len(high))], high[choose(len(high))]
        n, m = h.shape[-2:]
        seen = fnp.arange(n)[:, None] + 3 >= fnp.arange(m)[None, :]
        return (
            lambda: fnp.tanh(h),
            lambda: h * other,
            lambda: h - fnp.max(h, -1, keepdims=True),
            lambda: h / (1 + fnp.sum(h * h, -1, keepdims=True)),
            lambda: nn.softmax(h),
            lambda: fnp.where(seen, h, other),
            lambda: h + columns,
            lambda: h * fnp.exp(-(rows**2)),
            lambda: fnp.swapaxes(fnp.swapaxes(h, -1, -2) * rows.mT, -1, -2),
            lambda: h.reshape(*h.shape[:-1], 2, m // 2)[..., ::-1, :].reshape(h.shape),
            lambda: h[..., ::-1] * 0.5,
            lambda: fnp.roll(h, 1, -2) + h,
            lambda: fnp.cumsum(h, -1) / m,
            lambda: h - fnp.mean(h, (-1, -2), keepdims=True),
        )[choose(14)]()

    def f(x: Any, y: Any, v: Any, u: Any) -> Any:
        high = [fnp.einsum("bnd,bmd->bnm", x, y) / 3]
        if choose(3) == 0:  # a second product, of what the first has led to
            mixed = fnp.tanh(nn.softmax(high[0]) @ v @ v.swapaxes(-1, -2))
            high.append(mixed[..., :1] * high[0])
        for _ in range(choose(1, 5)):
            high.append(step(high, v[:, None, :, 0], u[..., :1]))
        h, other = high[-1], high[choose(len(high))]
        return (
            h @ v,
            fnp.einsum("bnm,bnd->bmd", other, u),
            fnp.sum(h * other, -1),
            fnp.sum(other, (0, 1)) / 9,
            fnp.max(h, choose(1, 3)),
            fnp.einsum("bnm,bnm->b", h, other) / 9,
        )[choose(6)]

    return f


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_have_the_values_of_the_whole(seed: int) -> None:
    arrays = [normal(2, n, 3) for n in (130, 70, 70, 130)]
    for f in (random_program(seed), with_gradient(random_program(seed), arrays)):
        graph = ft.make_graph(f)(*arrays)
        whole, cut = lower(graph).program, lower(graph, Limits(cache=2048)).program
        for got, want in zip(
            run(cut, "cpu", graph, arrays),
            run(whole, "cpu", graph, arrays),
            strict=True,
        ):
            scale = max(1.0, np.abs(want).max(initial=0))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5 * scale)


# Axes in step.

X = variable(ShapedArray.of((6, 1, 4), np.dtype(np.float32)), 0, 0)
ALIGNED: dict[str, tuple[Node, int]] = {
    "elementwise": (add(X, X), 0),
    "sum": (reduce_sum(X, (2,)), 0),
    "permute": (m.permute(X, (2, 0, 1)), 1),
    "reshape": (m.reshape(X, (6, 2, 2)), 0),
    "reshape of ones": (m.reshape(X, (1, 6, 4)), 1),
    "expand": (expand(X, (6, 3, 4)), 0),
    "pad": (m.pad(X, ((0, 0, 0), (0, 0, 0), (1, 0, 0))), 0),
    "shrink": (m.shrink(X, ((0, 6), (0, 1), (1, 3))), 0),
    "stride": (m.stride(X, (1, 1, -1)), 0),
    "gather along another axis": (
        gather(X, [iota(np.dtype(np.int32), (2,), 0)], (2,)), 1
    ),
    "gather at its own position": (
        gather(
            X, [iota(np.dtype(np.int32), (6, 2), a) for a in (0, 1)], (0, 2)
        ), 0,
    ),
}  # fmt: skip
NOT_ALIGNED = {
    "sum": reduce_sum(X, (0,)),
    "reshape": m.reshape(X, (3, 2, 4)),
    "merging": m.reshape(X, (24,)),
    "pad": m.pad(X, ((1, 0, 0), (0, 0, 0), (0, 0, 0))),
    "shrink": m.shrink(X, ((0, 5), (0, 1), (0, 4))),
    "flip": m.flip(X, (0,)),
    "shear": m.shear_p(X, arg=m.Shear(0, 2, 1, 1, 3)),
    "gather": gather(X, [iota(np.dtype(np.int32), (2,), 0)], (0,)),
}


@pytest.mark.parametrize("name", ALIGNED)
def test_axes_in_step_give_slices(name: str) -> None:
    node, axis = ALIGNED[name]
    steps = axes_in_step(node)
    assert all(s[0] == axis for s, x in zip(steps, node.src, strict=True) if x is X)
    cut = m.shrink_axis(X, 0, 2, 5)
    src = [
        cut if x is X else m.shrink_axis(x, s.index(axis), 2, 5) if axis in s else x
        for s, x in zip(steps, node.src, strict=True)
    ]
    shape = tuple(3 if a == axis else n for a, n in enumerate(node.shape))
    x = normal(6, 1, 4)
    want, got = evaluate([node, slice_op(node, src, shape)], {X: x})
    index = (slice(None),) * axis + (slice(2, 5),)
    np.testing.assert_array_equal(got, want[index])


def test_positions_are_counted_axis_by_axis() -> None:
    counted = m.reshape(iota(np.dtype(np.uint32), (60,), 0), (3, 1, 4, 5))
    by_axes = split_count(counted)
    assert by_axes is not None
    want, got = evaluate([counted, by_axes], {})
    np.testing.assert_array_equal(got, want)
    assert split_count(m.reshape(X, (4, 6))) is None
    floats = iota(np.dtype(np.float32), (60,), 0)
    assert split_count(m.reshape(floats, (3, 20))) is None


@pytest.mark.parametrize("name", NOT_ALIGNED)
def test_axes_that_are_not_in_step(name: str) -> None:
    (steps, *_) = axes_in_step(NOT_ALIGNED[name])
    assert steps[0] is None
