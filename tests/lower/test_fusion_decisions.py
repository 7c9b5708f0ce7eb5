"""Each decision on fusion: where it applies, where it must not, switched off.

Both programs of each row run on the interpreter with and without the decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ArgumentError, GraphError
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.lower.assembly.assemble import Sharing, ordered_steps
from ftrace.lower.build.index_view import DECISIONS as RANGES
from ftrace.lower.fusion.drafts import Draft, FusionPlan, Precedence
from ftrace.lower.fusion.plan_fusion import DECISIONS
from ftrace.lower.kernel.affine_index import (
    bounds,
    constant_index,
    divide,
    flatten_index,
    range_index,
    remainder,
    unflatten_index,
)
from ftrace.lower.program import ALIGNMENT, Lifetime, plan_memory
from ftrace.trace.evaluate import evaluate_graph
from tests.laws.test_random_programs import run_on

X = np.linspace(-1, 1, 24 * 30, dtype=np.float32).reshape(24, 30)
W = np.linspace(1, 2, 30 * 20, dtype=np.float32).reshape(30, 20)


@dataclass(frozen=True)
class Row:
    """A decision, and two functions of (X, W).

    Attributes:
      applies: takes more kernels, or other loops, without the decision.
      spared: is the same with and without it.
      splits: does the decision itself lead to more kernels?
    """

    applies: Any
    spared: Any
    splits: bool = False


def centred(x: Any, w: Any) -> Any:
    return x - fnp.mean(x, 1, keepdims=True)


ROWS: dict[str, Row] = {
    "fuse_elementwise": Row(lambda x, w: fnp.sin(x) * 2, lambda x, w: fnp.sum(x, 1)),
    "fuse_into_reduce": Row(
        lambda x, w: fnp.sum(fnp.exp(x), 1), lambda x, w: fnp.sum(x, 1)
    ),
    "fuse_after_reduce": Row(
        lambda x, w: fnp.exp(fnp.sum(x, 1)), lambda x, w: fnp.exp(x)
    ),
    "fuse_rows": Row(centred, lambda x, w: fnp.exp(fnp.sum(x, 1))),
    "split_columns": Row(
        lambda x, w: centred(x.T, w), lambda x, w: centred(x + x[::-1].T.T, w), True
    ),
    "recompute_cheap": Row(
        lambda x, w: (fnp.sum(x + 1, 0), (x + 1)[:, ::-1].T * 2), lambda x, w: x + 1
    ),
    "store_intermediates": Row(
        lambda x, w: ((y := fnp.exp(x)), fnp.sum(y, 0), y * 2), lambda x, w: fnp.exp(x)
    ),
    "fuse_siblings": Row(lambda x, w: (fnp.exp(x), x + 1), lambda x, w: (x @ w, x * 2)),
    "store_rows": Row(
        lambda x, w: (fnp.sum((y := centred(x, w)) * y, 1), fnp.exp(y)),
        lambda x, w: (fnp.sum((y := fnp.exp(x)), 0), y * 2),
    ),
    "split_ranges": Row(
        lambda x, w: w.T.reshape(-1) * fnp.arange(600.0),
        lambda x, w: x.T + 1,
    ),
    "merge_ranges": Row(lambda x, w: x * 2, lambda x, w: x.T + x.T),
}


def program_of(f: Any) -> tuple[Any, Any]:
    graph = ft.make_graph(f)(X, W)
    return graph, lower(graph).program


def shape_of(program: Any) -> list[tuple[int, ...]]:
    """The loops of all kernels: what a decision changes."""
    return [step.kernel.shape for step in program.kernels]


def test_every_decision_has_a_row() -> None:
    assert set(ROWS) == set(DECISIONS) | set(RANGES)


@pytest.mark.parametrize("name", ROWS)
def test_decision_applies_where_it_should_and_only_there(name: str) -> None:
    row = ROWS[name]
    for f, changes in ((row.applies, True), (row.spared, False)):
        graph, program = program_of(f)
        with ft.config(disabled_rules={name}):
            _, other = program_of(f)
            without = run_on("interpreter", graph, [X, W][: len(graph.inputs)])
        if changes and name not in RANGES:
            more, fewer = (program, other) if row.splits else (other, program)
            assert len(more.kernels) > len(fewer.kernels)
        elif changes:
            assert shape_of(other) != shape_of(program)
        else:
            assert shape_of(other) == shape_of(program)
        want = evaluate_graph(graph, *[X, W][: len(graph.inputs)])
        for got, value in zip(without, want, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5)


def softmax(x: Any) -> Any:
    y = fnp.exp(x - fnp.max(x, 1, keepdims=True))
    return y / fnp.sum(y, 1, keepdims=True)


def deviations(x: Any) -> Any:
    y = centred(x, None)
    return fnp.sum(y * y, 1), y


@pytest.mark.parametrize(
    "f", [softmax, deviations, lambda x: fnp.sum(deviations(x)[1], 1)]
)
@pytest.mark.parametrize("scale", [lambda x: x, lambda x: x + x[:, ::-1]])
def test_no_kernel_goes_down_columns_row_by_row(f: Any, scale: Any) -> None:
    """Work on each column is done in kernels that read the lines of memory once."""
    graph = ft.make_graph(lambda x: f(scale(x).T))(X)
    program = lower(graph).program
    for step in program.kernels:
        reads = [n for n in step.kernel.nodes if n.op.name == "reduce"]
        assert not reads or len(step.kernel.shape) == 1
    for got, want in zip(
        run_on("cpu", graph, [X]), evaluate_graph(graph, X), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_rows_of_both_kinds_stay_in_one_kernel() -> None:
    """What reads one array along and one across has no better order."""
    _, program = program_of(lambda x, w: softmax(x[:, :24] + x[:, :24].T))
    assert len(program.kernels) == 1


def test_two_products_of_one_shape_keep_their_epilogues() -> None:
    """Neither product is stored bare because the results have the same loops."""

    def f(x: Any, w: Any) -> Any:
        first, second = x @ w, x[::-1] @ w
        return fnp.tanh(first) + 1, fnp.exp(second)

    _, program = program_of(f)
    assert len(program.kernels) == 2
    assert program.arena == 0


def test_rows_and_their_elements_share_a_kernel_in_either_order() -> None:
    def loss(x: Any, w: Any) -> Any:
        y = x - fnp.max(x, 1, keepdims=True)
        return fnp.sum(fnp.exp(y), 1), fnp.tanh(y)

    def both(x: Any, w: Any) -> Any:
        return loss(x, w)[::-1]

    for f in (loss, both):
        graph, program = program_of(f)
        assert shape_of(program) == [(24, 30)]
        arrays = [X, W][: len(graph.inputs)]
        wanted = evaluate_graph(graph, *arrays)
        for name in ("interpreter", "cpu"):
            for got, want in zip(run_on(name, graph, arrays), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_kernel_with_too_many_buffers_is_split() -> None:
    arrays = [np.full(10, i, np.float32) for i in range(20)]
    graph = ft.make_graph(lambda xs: sum(fnp.sin(x) * i for i, x in enumerate(xs)))(
        arrays
    )
    assert len(lower(graph).program.kernels) == 1
    program = lower(graph, Limits(max_buffers=6)).program
    assert len(program.kernels) > 3
    assert max(len(step.slots) for step in program.kernels) <= 6
    (want,) = evaluate_graph(graph, *arrays)
    (got,) = run_on("interpreter", graph, arrays)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_kernels_that_wait_for_each_other_are_refused() -> None:
    first, second = Draft(0, (4,)), Draft(1, (4,))
    first.feeds.add(1)
    second.feeds.add(0)
    with pytest.raises(GraphError, match="wait for each other"):
        ordered_steps(FusionPlan([], [first, second]), Sharing(), {})


def test_kernels_come_after_what_they_read() -> None:
    def f(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = fnp.tanh((x @ w) @ w.T) + fnp.sum(x, 0)
        return x, fnp.max(x, 0)

    _, program = program_of(f)
    written = set(program.inputs)
    for step in program.kernels:
        outputs = [b.written for b in step.kernel.buffers]
        reads = [s for s, out in zip(step.slots, outputs, strict=True) if not out]
        assert written.issuperset(reads)
        written |= {s for s, out in zip(step.slots, outputs, strict=True) if out}
    assert written.issuperset(program.outputs)


def test_index_arithmetic_is_simplified_by_bounds_and_divisibility() -> None:
    i, j = range_index(0, 64), range_index(1, 8)
    assert divide(i * 8 + j, 8) == i
    assert remainder(i * 8 + j, 8) == j
    assert divide(i, 8) * 8 + remainder(i, 8) == i
    assert flatten_index(unflatten_index(i, (4, 2, 8)), (4, 2, 8)) == i
    assert divide(divide(i, 4), 2) == divide(i, 8)
    assert remainder(remainder(i, 16), 4) == remainder(i, 4)
    assert bounds(i * 3 + j * -2 + 1) == (-13, 190)
    assert divide(j + -8, 8) == constant_index(-1)


def test_memory_of_values_that_live_at_the_same_time_does_not_overlap() -> None:
    rng = np.random.default_rng(0)
    lives = [
        Lifetime(int(n), int(a), int(a + d))
        for n, a, d in zip(
            rng.integers(1, 5000, 200), rng.integers(0, 50, 200),
            rng.integers(0, 9, 200), strict=True,
        )
    ]  # fmt: skip
    plan = plan_memory(lives)
    spans = [(o, o + v.nbytes, v) for o, v in zip(plan.offsets, lives, strict=True)]
    for k, (start, end, life) in enumerate(spans):
        assert start % 128 == 0
        assert end <= plan.size
        for other_start, other_end, other in spans[:k]:
            alive = life.first <= other.last and other.first <= life.last
            assert not alive or end <= other_start or other_end <= start
    assert plan.size < sum(life.nbytes for life in lives) / 3


def test_values_of_one_size_take_the_lowest_place_that_is_free() -> None:
    spans = [(0, 3), (0, 1), (1, 2), (2, 5), (3, 4), (4, 6), (4, 4)]
    lives = [Lifetime(256, first, last) for first, last in spans]
    assert plan_memory(lives).offsets == (0, 256, 512, 256, 512, 0, 768)
    late = [Lifetime(256, 9, 9), *lives]  # it is placed before those it lives after
    assert plan_memory(late).offsets == (0, 0, 256, 512, 256, 512, 0, 768)


def test_precedence_is_that_of_all_ways() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        found, edges = Precedence(), np.zeros((12, 12), bool)
        found.add(0)
        for kernel in range(1, 12):
            found.add(kernel)
            for target in rng.permutation(kernel + 1)[:3].tolist():
                ways = np.linalg.matrix_power(np.eye(12) + edges, 12) > 0
                for start in range(kernel + 1):
                    assert found.is_before({start}, target) == ways[start, target]
                readers = {int(r) for r in rng.integers(0, kernel + 1, 2)}
                both = found.is_before(readers, target)
                assert both == ways[list(readers), target].any()
                if not both:  # an edge that closes no circle, also back to older ones
                    found.add(target, readers)
                    edges[target, list(readers)] = True


def test_large_values_side_by_side_begin_apart_in_their_pages() -> None:
    for nbytes in (1 << 15, 1 << 18, 100_000):
        first, second, third = plan_memory([Lifetime(nbytes, 0, 3)] * 3).offsets
        for distance in (second - first, third - second, third - first):
            assert distance % ALIGNMENT == 0
            assert 512 <= distance % 4096 <= 4096 - 512
        assert nbytes <= second - first < nbytes + 4096 + ALIGNMENT


def test_each_value_has_the_lowest_place_that_is_free_while_it_lives() -> None:
    rng = np.random.default_rng(1)
    for count in range(40):
        lives = [
            Lifetime(int(rng.choice([0, 1, 128, 700, 4096])), int(a), int(a + d))
            for a, d in zip(
                rng.integers(0, 30, count), rng.integers(0, 9, count), strict=True
            )
        ]
        plan = plan_memory(lives)
        taken: list[tuple[int, int, Lifetime]] = []
        for i in sorted(range(count), key=lambda i: -lives[i].nbytes):
            need = max(-(-lives[i].nbytes // ALIGNMENT), 1) * ALIGNMENT
            beside = [
                (start, end)
                for start, end, other in taken
                if other.last >= lives[i].first and other.first <= lives[i].last
            ]
            lowest = min(
                at
                for at in (0, *(end for _, end in beside))
                if all(at + need <= start or at >= end for start, end in beside)
            )
            assert plan.offsets[i] == lowest
            taken.append((lowest, lowest + need, lives[i]))


def test_a_rule_that_does_not_exist_cannot_be_switched_off() -> None:
    with pytest.raises(ArgumentError, match="did you mean 'merge_reshapes'"):
        ft.config(disabled_rules={"merge_reshape"}).__enter__()


def test_views_that_cannot_merge_are_stored_before_their_indices_explode() -> None:
    def f(x: Any) -> Any:
        for k in range(30):
            x = x.reshape((6, 4, 10) if k % 2 else (10, 6, 4)).transpose(2, 0, 1)
            x = x.reshape((8, 5, 6) if k % 3 else (3, 16, 5)).transpose(1, 2, 0)
        return x + 1

    x = np.arange(240, dtype=np.float32)
    graph = ft.make_graph(f)(x)
    kernels = lower(graph).program.kernels
    assert 1 < len(kernels) < 30
    (got,), (want,) = run_on("interpreter", graph, [x]), evaluate_graph(graph, x)
    np.testing.assert_array_equal(got, want)


def test_a_reduce_shares_the_loop_of_one_that_needs_a_range_around_it() -> None:
    def f(x: Any) -> Any:
        moved = [fnp.zeros((3, 3)).at[i].set(x * (i + 1)) for i in range(3)]
        return fnp.sum(
            fnp.sum(fnp.where(fnp.eye(3)[0][:, None] > 0, *moved[:2]), 0) * x
        )

    x = np.array([0.3, -0.6, 0.8], np.float32)
    both = ft.jit(lambda x: ft.jvp(f, (x,), (fnp.ones(3),)))(x)
    with ft.disable_jit():
        plain = ft.jvp(f, (fnp.asarray(x),), (fnp.ones(3),))
    np.testing.assert_allclose(both, plain, rtol=1e-5)


def test_what_frees_memory_runs_first() -> None:
    """The last to read a large value runs before others make large ones."""

    def f(x: Any, w: Any) -> Any:
        large = x @ w
        chain = large @ w.T[:, :4]
        for _ in range(3):
            chain = fnp.tanh(chain @ w[:4]) @ w.T[:, :4]
        return chain, large.T @ x

    def g(x: Any, w: Any) -> Any:
        return f(x, w)[::-1]

    arenas = {program_of(function)[1].arena for function in (f, g)}
    assert len(arenas) == 1
    assert arenas.pop() < 2 * 4 * X.shape[0] * W.shape[1]


def test_an_activation_is_computed_again_from_its_argument() -> None:
    """A gradient needs more of it than its value: none of that is stored."""

    def f(x: Any, w: Any) -> Any:
        return fnp.sum(fnp.sin(ft.nn.gelu(x @ w) @ w.T))

    def stores(program: Any) -> int:
        first = program.kernels[0].kernel
        return sum(spec.written for spec in first.buffers)

    _, program = program_of(ft.grad(f))
    assert stores(program) == 2  # the argument and the activation
    with ft.config(disabled_rules={"recompute_cheap"}):
        assert stores(program_of(ft.grad(f))[1]) > 2


def test_what_a_row_is_reduced_from_is_stored_by_the_same_kernel() -> None:
    """A row may have several axes; of few rows of several axes threads have little."""

    def of_stored(x: Any) -> Any:
        y = fnp.tanh(x)
        sums = fnp.sum(y, (2, 3), keepdims=True)
        return y + fnp.max(sums, 0), sums

    rng = np.random.default_rng(1)
    many = rng.standard_normal((8, 4, 6, 7)).astype(np.float32)
    few = rng.standard_normal((3, 4, 6, 7)).astype(np.float32)
    for function, x, kernels in ((of_stored, many, 3), (of_stored, few, 4)):
        graph = ft.make_graph(function)(x)
        program = lower(graph).program
        assert len(program.kernels) == kernels
        with ft.config(disabled_rules={"store_rows"}):
            assert len(lower(graph).program.kernels) == 4
        for name in ("interpreter", "cpu"):
            wanted = evaluate_graph(graph, x)
            for got, want in zip(run_on(name, graph, [x]), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def residual(depth: int) -> Any:
    """The gradient of layers whose results add up: the last is made of all products."""

    def loss(w: Any, x: Any) -> Any:
        for _ in range(depth):
            x = x + fnp.tanh(x @ w) / depth
        return fnp.sum(x * x)

    return ft.grad(loss)


def test_each_layer_of_a_deep_network_is_fused_alike() -> None:
    square, x = np.eye(6, dtype=np.float32) / 4, X[:5, :6]

    def kernels(depth: int) -> int:
        graph = ft.make_graph(residual(depth))(square, x)
        return len(lower(graph).program.kernels)

    counts = [kernels(depth) for depth in (4, 12, 20, 28)]
    each = {b - a for a, b in pairwise(counts[1:])}
    assert len(each) == 1
    assert counts[1] - counts[0] <= max(each) + 2
    graph = ft.make_graph(residual(20))(square, x)
    for name in ("interpreter", "cpu"):
        (slope,) = run_on(name, graph, [square, x])
        (expected,) = evaluate_graph(graph, square, x)
        np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5)
