"""Programs over a mesh: what each rule divides, what it moves, and the same numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn
from ftrace.sharding import AbstractMesh, PartitionSpec as P
from ftrace.trace.graph import Graph, toposort
from ftrace.trace.primitives.sources import is_variable
from ftrace.transforms.partition.propagate import divisions_of
from ftrace.transforms.partition.rules import RULES, whole
from ftrace.transforms.partition.specs import bytes_received, moves
from tests.support.device_lanes import collectives, divided, partitioned
from tests.support.random_graphs import random_graph

MESH = AbstractMesh((2, 4), ("x", "y"))
RANDOM = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


A, B, C, S = draw(8, 16), draw(16, 12), draw(4, 8, 8), draw(8, 4, 4)
POSITIVE = S @ S.swapaxes(1, 2) + np.eye(4, dtype=np.float32)
SQUARE = draw(8, 8) + 8 * np.eye(8, dtype=np.float32)
PLACES = np.array([3, 0, 7, 3, 1, 1, 2, 6], np.int32)


def arange_of(x: Any, i: Any) -> Any:
    return x[fnp.arange(8), i]


def scan_of(x: Any) -> Any:
    return lax.scan(lambda c, r: (c + r, c * r), fnp.zeros(16), x)


def scan_of_sums(x: Any) -> Any:
    return lax.scan(lambda c, r: (c + r.sum(), r), 0.0, x)


def while_of(x: Any) -> Any:
    return lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, x)


def cond_of(x: Any, b: Any) -> Any:
    return lax.cond(b, lambda x: x * 2, lambda x: x.T.T + 1, x)


def callback_of(x: Any) -> Any:
    return ft.pure_callback(np.sin, ft.ShapeDtypeStruct((8, 16), np.float32), x)


def pooled(x: Any, window: Any, padding: Any, dilation: Any = (1, 1)) -> Any:
    return lax.reduce_window(
        x, 0.0, lax.add, window, (1, 1), padding, window_dilation=dilation
    )


def stencil(x: Any) -> Any:
    inner = x[:-2] - 2 * x[1:-1] + x[2:]
    return fnp.pad(inner, ((1, 1), (0, 0)))


def ends(x: Any, mode: str) -> Any:
    y = fnp.pad(x, ((1, 1), (0, 0)), mode=mode)
    return y[2:] - y[:-2]


def with_slopes(x: Any) -> Any:
    y = fnp.sin(x.astype("int8").astype("float32"))
    return y, ends(y, "constant")


EDGES = [("ppermute", "x"), ("ppermute", "x")]
RING = [("ppermute", "y"), ("ppermute", "x")]
Row = tuple[str, Callable[..., Any], list[Any], list[Any], list[Any], list[Any]]
#: name, function, arguments, their specs, those of results, collectives
APPLIES: list[Row] = [
    ("elementwise", lambda x: fnp.exp(x) + 1, [A], [P("x", "y")], [P("x", "y")], []),
    ("source", lambda x: x + fnp.arange(16.0), [A], [P("x", "y")], [P("x", "y")], []),
    ("expand", lambda b: b + fnp.zeros((3, 16)), [A[0]], [P("y")], [P(None, "y")], []),
    ("permute", lambda x: x.T, [A], [P("x", "y")], [P("y", "x")], []),
    ("reshape", lambda x: x.reshape(8, 4, 4), [A], [P("x", "y")], [P("x", "y")], []),
    ("reshape", lambda x: x.reshape(128), [A], [P(("x", "y"))], [P(("x", "y"))], []),
    ("pad", lambda x: fnp.pad(x, ((0, 0), (1, 2))), [A], [P("x")], [P("x")], []),
    ("pad", lambda x: fnp.pad(x, (1, 1)), [A], [P("x")], [P("x")], []),
    ("pad", lambda x: fnp.pad(x, (3, 1)), [A], [P("x")], [P("x")], EDGES[1:]),
    ("pad", lambda x: fnp.pad(x, ((8, 8), (0, 0))), [A], [P("x")], [P("x")], []),
    ("pad", with_slopes, [9 * A], [P("x")], [P("x")] * 2, EDGES),
    ("pad", lambda x: lax.pad(x, 0.0, [(1, 0, 1), (0, 0, 0)]), [A], [P("x")], [P("x")],
     []),
    ("shrink", lambda x: x[:, 3:9], [A], [P("x")], [P("x")], []),
    ("shrink", lambda x: x[2:4], [A], [P("x")], [P("x")], EDGES[1:]),
    ("shrink", lambda x: x[5], [A], [P("x")], [P()], [("psum", "x")]),
    ("shrink", lambda x: x[2:5], [A], [P("x")], [P()], [("psum", "x")]),
    ("shrink", lambda x: x[0] + x[-1], [A], [P("x")], [P()], [("psum", "x")] * 2),
    ("shrink", lambda x: x[3, 2:5], [A], [P("x", "y")], [P()],
     [("psum", "x"), ("psum", "y")]),
    ("shrink", lambda x: x[:, 4], [A], [P(None, ("x", "y"))], [P()],
     [("psum", "x"), ("psum", "y")]),
    (
        "concatenate", lambda x: fnp.concatenate([x, x + 1]), [A], [P("x")], [P("x")],
        EDGES,
    ),
    (
        "concatenate", lambda x: fnp.concatenate([x, x + 1]), [A.T], [P("y")], [P("y")],
        RING[:1] * 4,
    ),
    (
        "concatenate", lambda x: fnp.concatenate([x, x + 1, x]), [A.T], [P("y")],
        [P("y")], RING[:1] * 7,
    ),
    ("edge", lambda x: ends(x, "edge"), [A], [P("x")], [P("x")],
     [("psum", "x"), *EDGES]),
    ("wrap", lambda x: ends(x, "wrap"), [A], [P("x")], [P("x")], EDGES * 2),
    (
        "shrink", lambda x: x[1:].sum(), [A], [P("x")], [P()],
        [*EDGES[1:], ("psum", "x")],
    ),
    ("stride", lambda x: x[:, ::-2], [A], [P("x")], [P("x")], []),
    ("stride", lambda x: x[::2], [A], [P("x")], [P("x")], []),
    ("stride", lambda x: x[::-1], [A], [P("y")], [P("y")], RING[:1]),
    ("shear", lambda x: pooled(x, (1, 3), "VALID"), [A], [P("x")], [P("x")], []),
    ("shear", lambda x: pooled(x, (3, 1), "SAME"), [A], [P("x")], [P("x")], EDGES),
    (
        "shear", lambda x: pooled(x, (3, 3), "SAME"), [A], [P("x", "y")],
        [P("x", "y")], [*EDGES, ("ppermute", "y"), ("ppermute", "y")],
    ),
    (
        "unshear", ft.grad(lambda x: (pooled(x, (3, 1), "SAME") ** 2).sum()), [A],
        [P("x")], [P("x")], EDGES * 2,
    ),
    ("stencil", stencil, [A], [P("x")], [P("x")], EDGES),
    ("stencil", lambda x: stencil(stencil(x)), [A.T], [P("y")], [P("y")], RING[:1] * 2),
    ("roll", lambda x: fnp.roll(x, 1, 0), [A], [P("x")], [P("x")], EDGES),
    (
        "roll", lambda x: fnp.roll(x, -1, 0), [A], [P(("x", "y"))], [P(("x", "y"))],
        [*RING, *RING, RING[1]],
    ),
    (
        "diff", lambda x: (fnp.diff(x, axis=0) ** 2).sum(), [A], [P("x")], [P()],
        [*EDGES[1:], ("psum", "x")],
    ),
    ("reduction", lambda x: x.sum(1), [A], [P("x", "y")], [P("x")], [("psum", "y")]),
    ("reduction", lambda x: x.max(0), [A], [P("x", "y")], [P("y")], [("pmax", "x")]),
    ("reduction", lambda x: x.min(), [A], [P("x")], [P()], [("pmin", "x")]),
    ("reduction", lambda x: x.prod(1), [A], [P("x")], [P("x")], []),
    ("product", lambda x, w: x @ w, [A, B], [P("x"), P(None, "y")], [P("x", "y")], []),
    (
        "product", lambda x, w: x @ w, [A, B], [P("x", "y"), P("y")], [P("x")],
        [("psum", "y")],
    ),
    (
        "gather", lambda x, i: x[i], [A, PLACES],
        [P(None, "y"), P("x")], [P("x", "y")], [],
    ),
    ("gather", arange_of, [A, PLACES], [P("x"), P("x")], [P("x")], []),
    ("gather", arange_of, [A, PLACES], [P(None, "y"), None], [P()], [("psum", "y")]),
    ("gather", lambda x, i: x[i], [B, PLACES], [P("x"), None], [P()], [("psum", "x")]),
    (
        "scatter", lambda x, i, u: x.at[i].add(u), [A, PLACES, A],
        [P(None, "y"), P("x"), P("x", "y")], [P(None, "y")], [("psum", "x")],
    ),
    (
        "scatter", lambda x, i, u: x.at[i].max(u), [A, PLACES, A],
        [None, P("x"), P("x")], [P()], [("pmax", "x")],
    ),
    (
        "scatter", lambda x, i: x.at[fnp.arange(8), i].set(0.0), [A, PLACES],
        [P("x"), P("x")], [P("x")], [],
    ),
    (
        "scatter", lambda x, i: x.at[i].set(0.0), [A, PLACES],
        [P("x"), None], [P("x")], [],
    ),
    (
        "scatter", lambda x, i: x.at[i].mul(2.0), [A, PLACES.astype(np.uint8)],
        [P(("x", "y")), None], [P(("x", "y"))], [],
    ),
    ("sort", lambda x: fnp.sort(x, axis=1), [A], [P("x")], [P("x")], []),
    (
        "running", lambda x: fnp.cumsum(x, axis=0), [A],
        [P(None, "y")], [P(None, "y")], [],
    ),
    (
        "running", lambda x: fnp.cumsum(x, axis=0), [A], [P("x")], [P("x")],
        [("all_gather", "x")],
    ),
    (
        "running", lambda x: fnp.cumprod(x, axis=0), [A], [P("x")], [P("x")],
        [("all_gather", "x")],
    ),
    ("top_k", lambda x: lax.top_k(x, 3), [A], [P("x")], [P("x"), P("x")], []),
    ("fft", lambda x: fnp.fft.rfft(x), [A], [P("x")], [P("x")], []),
    ("linalg", fnp.linalg.cholesky, [POSITIVE], [P("y")], [P("y")], []),
    ("linalg", fnp.linalg.solve, [S, S], [P("x"), P("x")], [P("x")], []),
    ("linalg", lambda a: fnp.linalg.slogdet(a)[1], [S], [P("x")], [P("x")], []),
    ("scan", scan_of, [A], [P(None, "y")], [P("y"), P(None, "y")], []),
    ("scan", scan_of_sums, [A], [P(None, "y")], [P(), P(None, "y")], [("psum", "y")]),
    ("while", while_of, [A], [P("x")], [P("x")], [("psum", "x")]),
    ("cond", cond_of, [A, True], [P("x", "y"), None], [P("x", "y")], []),
    (
        "barrier", lax.optimization_barrier, [(A, A[0])], [P("x"), P("y")],
        [P("x"), P("y")], [],
    ),
    (
        "collective", ft.vmap(lambda x: lax.psum(x, "i") + x, axis_name="i"), [A],
        [P("x")], [P("x")], [("psum", "x")],
    ),
]  # fmt: skip
#: What is not divided along the axis that is: it is gathered first.
SPARES: list[Row] = [
    ("reshape", lambda x: x.reshape(16, 8), [A], [P(None, "y")], [P()], ["y"]),
    ("reshape", lambda x: x.reshape(3, 4), [draw(4, 3)], [P("y")], [P()], ["y"]),
    ("pad", lambda x: fnp.pad(x, ((1, 2), (0, 0))), [A], [P("x")], [P()], ["x"]),
    ("shrink", lambda x: x[1:], [A], [P("x")], [P()], ["x"]),
    ("shrink", lambda x: x[5], [A > 0], [P("x")], [P()], ["x"]),
    (
        "concatenate", lambda x: fnp.concatenate([x, x[:1]]), [A], [P("x")], [P()],
        ["x"],
    ),
    ("stride", lambda x: x[::-1][1:], [A], [P("x")], [P()], ["x"]),
    (
        "shear", lambda x: pooled(x, (3, 1), "VALID", dilation=(3, 1)), [A], [P("y")],
        [P()], ["y"],
    ),  # 2 of 8 are left for 4 devices
    (
        "shear", lambda x: pooled(x, (3, 1), ((7, 7), (0, 0)), dilation=(7, 1)), [A],
        [P("y")], [P("y")], ["y"],
    ),  # a window is wider than all parts
    (
        "unshear",
        ft.grad(lambda x: (pooled(x, (3, 1), "VALID", dilation=(3, 1)) ** 2).sum()),
        [A], [P("y")], [P()], ["y"],
    ),
    ("reduction", lambda x: x.prod(0), [A], [P("x", "y")], [P("y")], ["x"]),
    ("gather", lambda x, i: x[i], [A[:4], PLACES], [P("x"), None], [P()], ["x"]),
    ("gather", lambda x, i: x[i], [A > 0, PLACES], [P("x"), None], [P()], ["x"]),
    (
        "scatter", lambda x, i, u: x.at[i].set(u), [A, PLACES[:2], A[:2]],
        [None, None, P("x")], [P()], ["x"],
    ),
    ("sort", lambda x: fnp.sort(x, axis=0), [A], [P("x")], [P("x")], ["x"]),
    ("running", lambda x: lax.cumlogsumexp(x), [A], [P("x")], [P("x")], ["x"]),
    ("fft", lambda x: fnp.fft.fft2(x), [A], [P("x")], [P("x")], ["x"]),
    ("linalg", fnp.linalg.inv, [SQUARE], [P("x")], [P("x")], ["x"]),
    ("scan", scan_of, [A], [P("x")], [P(), P()], ["x"]),
    ("callback", callback_of, [A], [P("x")], [P("x")], ["x"]),
]  # fmt: skip


def plain(spec: Any) -> Any:
    """Without what it says of axes that are not divided, at its end."""
    parts = list(spec)
    while parts and not parts[-1]:
        parts.pop()
    return P(*parts)


def held(row: Row) -> Any:
    _, f, args, specs, outs, _ = row
    made = partitioned(f, MESH, specs, *args)
    assert [plain(P(*spec)) for spec in made.out_specs] == [plain(s) for s in outs]
    return made


@pytest.mark.parametrize("row", APPLIES, ids=lambda row: row[0])
def test_a_rule_divides_and_combines(row: Row) -> None:
    assert collectives(held(row)) == row[-1]


@pytest.mark.parametrize("row", SPARES, ids=lambda row: row[0])
def test_a_rule_gathers_what_it_cannot_divide(row: Row) -> None:
    assert collectives(held(row)) == [("all_gather", name) for name in row[-1]]


def test_the_table_has_a_row_for_each_family() -> None:
    tested = {row[0] for row in (*APPLIES, *SPARES)}
    named = {"sort", "running", "top_k", "fft", "linalg", "callback"}
    named |= {
        "stencil",
        "roll",
        "diff",
        "scan",
        "while",
        "cond",
        "product",
        "elementwise",
        "collective",
        "concatenate",
        "edge",
        "wrap",
    }
    listed = {what for row in RULES for what in row.what}
    own = {"sharding_constraint", "unshear", "unary", "binary", "compare"}
    own |= {"exchange", "shard", "whole"}  # of several processes: tests/distributed
    assert listed - tested - own <= {
        "select",
        "cast",
        "identity",
        "host",
        "control",
        "cumulate",
    }
    assert tested - listed <= named


# Programs.


def mlp(x: Any, w: Any, b: Any, v: Any) -> Any:
    return fnp.tanh(x @ w + b) @ v


def gradients(*args: Any) -> Any:
    return ft.grad(lambda *args: (mlp(*args) ** 2).mean(), (1, 2, 3))(*args)


def step(x: Any, *weights: Any) -> Any:
    rows = zip(weights, gradients(x, *weights), strict=True)
    return [w - 0.1 * g for w, g in rows]


WEIGHTS = draw(64, 16), draw(16, 32), draw(32), draw(32, 16)
DATA = [P("x"), None, None, None]
TENSOR = [P("x"), P(None, "y"), P("y"), P("y")]
SHARDED = [P("x"), P("x"), P("x"), P("x")]


def test_data_parallel_gradients_are_summed_once_each() -> None:
    made = partitioned(gradients, MESH, DATA, *WEIGHTS)
    assert collectives(made) == [("psum", "x")] * 3


def test_tensor_parallel_layers_take_one_sum_forward() -> None:
    made = partitioned(mlp, MESH, TENSOR, *WEIGHTS)
    assert collectives(made) == [("psum", "y")]
    assert made.out_specs == ((("x",), ()),)


def test_sharded_weights_are_gathered_and_their_gradients_scattered() -> None:
    made = partitioned(step, MESH, SHARDED, *WEIGHTS)
    assert [plain(P(*spec)) for spec in made.out_specs] == [P("x")] * 3
    kinds = [kind for kind, _ in collectives(made)]
    assert kinds == ["all_gather"] * 3 + ["psum_scatter"] * 3


@pytest.mark.parametrize(
    ("f", "kinds", "nbytes"),
    [
        (lambda x, y: x.sum(0, keepdims=True).sum(1), [("psum", "x")], 4),
        (lambda x, y: x.sum(0) + y.sum(0), [("psum", "x")], 64),
        (lambda x, y: (x.sum(0) + y.sum(0)).sum(), [("psum", "x")], 4),
        (lambda x, y: x.sum(0) + y[0], [("psum", "x")], 64),
        # They are read as a sum too, or are no sums.
        (lambda x, y: (lambda s: s + s.sum())(x.sum(0)), [("psum", "x")], 64),
        (lambda x, y: x.max(0) + y.max(0), [("pmax", "x")] * 2, 128),
        (lambda x, y: x.max(0).sum(), [("pmax", "x")], 64),
    ],
)
def test_sums_of_sums_are_combined_at_the_end(f: Any, kinds: Any, nbytes: int) -> None:
    made = partitioned(f, AbstractMesh((2,), ("x",)), [P("x"), P("x")], A, A + 1)
    assert collectives(made) == kinds
    assert sum(entry.nbytes for entry in made.ledger) == nbytes


def test_softmax_and_normalization_over_a_divided_axis_take_two_sums_each() -> None:
    specs = [P("x", "y")]
    made = partitioned(lambda x: nn.softmax(x, -1), MESH, specs, A)
    assert collectives(made) == [("pmax", "y"), ("psum", "y")]
    made = partitioned(lambda x: x - x.mean(-1, keepdims=True), MESH, specs, A)
    assert collectives(made) == [("psum", "y")]


# A block of a transformer; what XLA makes of it on eight devices (JAX 0.10.2).


def normalize(x: Any, gain: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / fnp.sqrt(x.var(-1, keepdims=True)) * gain


def block(x: Any, p: Any) -> Any:
    batch, length, width = x.shape
    h = normalize(x, p["g1"])
    q, k, v = [
        (h @ p[name]).reshape(batch, length, 4, width // 4) for name in ("q", "k", "v")
    ]
    scores = fnp.einsum("bthd,bshd->bhts", q, k)
    causal = fnp.tril(fnp.ones((length, length), bool))
    weights = nn.softmax(fnp.where(causal, scores, -1e9), -1)
    heads = fnp.einsum("bhts,bshd->bthd", weights, v).reshape(batch, length, width)
    x = x + heads @ p["o"]
    return x + nn.gelu(normalize(x, p["g2"]) @ p["up"]) @ p["down"]


def block_gradients(x: Any, p: Any) -> Any:
    return ft.grad(lambda p: (block(x, p) ** 2).mean())(p)


def block_step(x: Any, p: Any) -> Any:
    return ft.tree.map(lambda w, g: w - 0.1 * g, p, block_gradients(x, p))


D = 16
BLOCK = {
    "down": draw(4 * D, D) / 8, "g1": draw(D), "g2": draw(D), "k": draw(D, D) / 4,
    "o": draw(D, D) / 4, "q": draw(D, D) / 4, "up": draw(D, 4 * D) / 4,
    "v": draw(D, D) / 4,
}  # fmt: skip
BY_HEADS = [
    P("y"), P(), P(), P(None, "y"), P("y"), P(None, "y"), P(None, "y"), P(None, "y"),
]  # fmt: skip
#: function, specs of the weights and of results, the most collectives
BLOCKS: list[tuple[Any, Any, Any, int]] = [
    (block, BY_HEADS, [P("x")], 2),  # XLA: all-reduce 2
    (block_gradients, [P()] * 8, [P()] * 8, 8),  # all-reduce 8
    (block_gradients, BY_HEADS, BY_HEADS, 14),  # all-reduce 14
    (block_step, [P("x")] * 8, [P("x")] * 8, 16),  # all-gather 9, all-reduce 8
]  # fmt: skip


@pytest.mark.parametrize(("f", "specs", "outs", "most"), BLOCKS)
def test_a_transformer_block_takes_no_more_than_xla(
    f: Any, specs: Any, outs: Any, most: int
) -> None:
    made = partitioned(f, MESH, [P("x"), *specs], draw(8, 8, D), BLOCK)
    assert [plain(P(*spec)) for spec in made.out_specs] == outs
    assert len(made.ledger) <= most


def test_results_are_as_they_are_asked_for() -> None:
    ask = [P(None, "x")]
    made = partitioned(lambda x: x * 2, MESH, [P("x")], A, outs=ask)
    assert collectives(made) == [("all_to_all", "x")]
    assert made.out_specs == (((), ("x",)),)


def test_a_loop_counts_its_collectives_for_each_turn() -> None:
    made = partitioned(scan_of_sums, MESH, [P(None, "y")], A)
    assert [entry.times for entry in made.ledger] == [8]


def stacked(x: Any, weights: Any) -> Any:
    """A step of training of layers in a scan."""

    def loss(weights: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return fnp.tanh(x @ w), None

        return (lax.scan(layer, x, weights)[0] ** 2).mean()

    value, grad = ft.value_and_grad(loss)(weights)
    return value, weights - 0.1 * grad


def test_layers_in_a_scan_are_gathered_and_scattered_one_by_one() -> None:
    # By hand one gathers a layer for the loss and for the gradient, and scatters that.
    specs, layers = [P("x"), P(None, "x")], draw(5, 16, 16)
    made = partitioned(stacked, MESH, specs, draw(64, 16), layers)
    found = [(e.kind, e.times) for e in made.ledger if e.times > 1]
    assert found == [("all_gather", 5), ("all_gather", 5), ("psum_scatter", 5)]
    assert made.out_specs == ((), ((), ("x",), ()))


def test_a_branch_leaves_its_results_as_they_are_read() -> None:
    def f(b: Any, x: Any, y: Any) -> Any:
        return y + lax.cond(b, lambda x: x.sum(0), lambda x: -x.sum(0), x)

    made = partitioned(f, MESH, [None, P("x"), P("x")], np.bool_(True), A, A[0])
    assert collectives(made) == [("psum_scatter", "x")] * 2
    assert made.out_specs == ((("x",),),)


def test_entries_name_the_line_and_the_bytes() -> None:
    made = partitioned(lambda x: fnp.sort(x, axis=0), MESH, [P("x")], A)
    (entry,) = made.ledger
    assert entry.nbytes == 4 * 16 * 4
    assert "test_partition.py" in str(entry.origin)
    assert str(entry) == "all_gather over 'x' of f32[4,16] for sort: 256 bytes"


# Laws.


SPECS = st.sampled_from(
    [None, P("x"), P("y"), P(None, "x"), P(None, "y"), P("x", "y"), P("y", "x"),
     P(("x", "y")), P(None, ("y", "x"))]
)  # fmt: skip
PROGRAMS: list[Callable[..., Any]] = [
    lambda x, w: x @ w @ x, lambda x, w: (x * w.T).sum(0) + x[0],
    lambda x, w: nn.softmax(x + w, 0) @ w, lambda x, w: x.reshape(2, 32)[:, ::2] * 2,
    lambda x, w: fnp.where(x > w, x, w).T[2:6],
    lambda x, w: fnp.cumsum(x, 1) - w.max(1),
    lambda x, w: ft.grad(lambda x: (fnp.sin(x @ w) ** 2).sum())(x),
    lambda x, w: fnp.concatenate([x, w])[3:11], lambda x, w: fnp.sort(x @ w, 0),
    lambda x, w: lax.scan(lambda c, r: (c @ w, c * r), x, w)[1].sum((0, 1)),
    lambda x, w: ft.vmap(lambda a, i: a[i])(x, fnp.argmax(w, 1)),
    lambda x, w: fnp.einsum("ij,kj->ki", x, w).reshape(4, 2, 8).mean(1),
]  # fmt: skip


@given(
    st.sampled_from(PROGRAMS), SPECS, SPECS, st.sampled_from([(2, 4), (4, 2), (8, 1)])
)
@settings(max_examples=60, deadline=None)
def test_parts_together_are_the_whole(f: Any, x: Any, w: Any, sizes: Any) -> None:
    mesh = AbstractMesh(sizes, ("x", "y"))
    partitioned(f, mesh, [x, w], SQUARE, A[:, :8])


def spec_of(pick: Any, shape: tuple[int, ...], sizes: dict[str, int]) -> Any:
    """A spec by which an array of a shape can be divided."""
    left, entries = list(sizes), list[Any]()
    for n in shape:
        names = [name for name in left if n % sizes[name] == 0 and pick((0, 1))]
        left = [name for name in left if name not in names[:1]]
        entries.append(names[0] if names else None)
    return P(*entries)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_random_graphs_in_parts_are_the_whole(data: st.DataObject) -> None:
    def pick(options: Any) -> Any:
        return data.draw(st.sampled_from(list(options)))

    outputs = random_graph(pick, pick(range(3, 12)))
    inputs = [node for node in toposort(outputs) if is_variable(node)]
    sizes = {"x": 2, "y": 3}
    specs = [spec_of(pick, node.shape, sizes) for node in inputs]
    outs = [spec_of(pick, n.shape, sizes) if pick((0, 1)) else None for n in outputs]
    draws = np.random.default_rng(len(outputs))
    arrays = [draws.integers(-4, 5, n.shape).astype(np.float32) for n in inputs]
    mesh = AbstractMesh(tuple(sizes.values()), tuple(sizes))
    divided(Graph(tuple(inputs), tuple(outputs)), mesh, specs, arrays, outs)


PARTS = st.lists(st.sampled_from(["x", "y", "z"]), unique=True, max_size=3)


@st.composite
def specs_of_two(pick: st.DrawFn) -> Any:
    names = pick(PARTS)
    cut = pick(st.integers(0, len(names)))
    return tuple(names[:cut]), tuple(names[cut:])


@given(specs_of_two(), specs_of_two())
def test_moves_lead_from_one_spec_to_the_other(have: Any, want: Any) -> None:
    now = [list(names) for names in have]
    for step in moves(have, want):
        if step.kind != "slice":
            assert now[step.axis].pop() == step.name
        if step.kind != "all_gather":
            now[step.to if step.kind == "all_to_all" else step.axis].append(step.name)
    assert tuple(map(tuple, now)) == want


def test_bytes_are_those_that_arrive() -> None:
    sizes = {"x": 4}
    for have, want, nbytes in [
        (("x",), (), 300), ((), ("x",), 0), (("x",), ("x",), 0),
    ]:  # fmt: skip
        assert bytes_received(moves((have,), (want,)), 100, sizes) == nbytes
    assert bytes_received(moves(((),), ((),), ("x",)), 100, sizes) == 150
    assert bytes_received(moves(((),), (("x",),), ("x",)), 100, sizes) == 75
    assert bytes_received(moves((("x",), ()), ((), ("x",))), 100, sizes) == 75


def test_what_has_no_rule_is_whole() -> None:
    node = ft.jit(lambda x: x + 1).trace(A).graph.outputs[0]
    rule = whole(node)
    assert rule.whole == {
        f for axes in (*rule.operands, *rule.results) for (f,) in axes
    }
    assert str(rule) == "*k *l, *m *n -> *o *p"


def test_divisions_use_an_axis_once_and_their_number_is_limited() -> None:
    """In the order of all products, of which most divide by an axis twice."""
    few = {0: [("a", "b"), ("b",)], 1: [("a",)], 2: [("c",)]}
    rows = [
        [(0, ("a", "b")), (0, ("a",)), (0, ("b",)), (0, ())],
        [(1, ("a",)), (1, ())], [(2, ("c",)), (2, ())],
    ]  # fmt: skip
    expected = [
        {factor: names for factor, names in row if names}
        for row in itertools.product(*rows)
        if not ({*row[0][1]} & {*row[1][1]})
    ]
    assert divisions_of(few) == expected
    many = divisions_of({factor: [("a",), ("b",)] for factor in range(40)})
    assert many[0] == {0: ("a",), 1: ("b",)}
    assert len(many) == 64
