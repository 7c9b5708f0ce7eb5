"""Sums over rows, added up by kernels that pass over these rows anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.backends.base import get_device
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.lower.program import Program
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.graph import Graph

RULE = "fuse_sums_over_rows"
#: Bytes of a cache so small that small arrays are large.
CACHE = 4096
RNG = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def layer_norm(x: Any, scale: Any, shift: Any, y: Any) -> Any:
    mean = fnp.mean(x, axis=-1, keepdims=True)
    variance = fnp.var(x, axis=-1, keepdims=True)
    return fnp.sum(((x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift) * y)


def rms_norm(x: Any, scale: Any, y: Any) -> Any:
    mean = fnp.mean(x * x, axis=-1, keepdims=True)
    return fnp.sum(x * lax.rsqrt(mean + 1e-6) * scale * y)


def stored_and_summed(x: Any, y: Any) -> Any:
    product = x * y + x
    return product, fnp.sum(product, 0), fnp.sum(x * x, 0)


def softmax_of_columns(x: Any) -> Any:
    powers = fnp.exp(x - fnp.max(x, 0))
    return powers / fnp.sum(powers, 0)


def of_two_axes(x: Any, y: Any) -> Any:
    return fnp.tanh(x) * y, fnp.sum(x * y, (0, 1)), fnp.max(x, -1)


def of_a_middle_axis(x: Any, y: Any) -> Any:
    return x + y, fnp.sum(x * y, 1)


def of_integers(x: Any, y: Any) -> Any:
    return stored_and_summed((5 * x).astype("int32"), (5 * y).astype("int32"))


def of_short_floats(x: Any, y: Any) -> Any:
    return stored_and_summed(x.astype("bfloat16"), y.astype("bfloat16"))


def sum_of_squares(x: Any) -> Any:
    return fnp.sum(x * x, 0)


def centred(x: Any) -> Any:
    """The result waits for the sum: both cannot be one kernel."""
    return x - fnp.sum(x, 0)


@dataclass(frozen=True)
class Row:
    """A program, the shapes of its arguments, and how many kernels add to sums."""

    f: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    adding: int


def rows(size: int, width: int, adding: int) -> dict[str, Row]:
    whole, one = (size, width), (width,)
    of_layer, of_rms = ft.grad(layer_norm, (0, 1, 2)), ft.grad(rms_norm, (0, 1))
    return {
        f"layer norm {size}": Row(of_layer, (whole, one, one, whole), adding),
        f"rms norm {size}": Row(of_rms, (whole, one, whole), adding),
        f"stored and summed {size}": Row(stored_and_summed, (whole,) * 2, adding),
    }


PROGRAMS = {
    **rows(1024, 64, 1),
    **rows(480, 77, 1),
    **rows(509, 128, 0),  # a prime number of rows has no blocks
    **rows(1024, 16, 0),  # rows too short
    "two axes": Row(of_two_axes, ((16, 30, 80),) * 2, 1),
    "middle axis": Row(of_a_middle_axis, ((32, 20, 70),) * 2, 1),
    "few blocks": Row(of_a_middle_axis, ((4, 100, 70),) * 2, 0),
    "centred": Row(centred, ((1024, 64),), 0),
    "softmax of columns": Row(softmax_of_columns, ((1024, 64),), 1),
    "alone": Row(sum_of_squares, ((1024, 64),), 0),
    "integers": Row(of_integers, ((640, 96),) * 2, 1),
    "bfloat16": Row(of_short_floats, ((640, 256),) * 2, 1),
}  # fmt: skip


def run(program: Program, name: str, graph: Graph, arrays: list[Any]) -> list[Any]:
    device = get_device(name)
    buffers = device.compile(program)([device.copy_in(a) for a in arrays])
    found: list[Any] = []
    for buffer, node in zip(buffers, graph.outputs, strict=True):
        flat: Any = np.array(device.copy_out(buffer, node.dtype, node.size))
        found.append(flat.reshape(node.shape))
    return found


def adding(program: Program) -> int:
    """Kernels that add to what they have stored."""
    kernels = [step.kernel for step in program.kernels]
    return sum(bool(k.ordered) and not k.scatters for k in kernels)


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_beside_rows_are_those_of_the_whole(name: str, device: str) -> None:
    row = PROGRAMS[name]
    arrays = [normal(*shape) for shape in row.shapes]
    graph = ft.make_graph(row.f)(*arrays)
    program = lower(graph, Limits(cache=CACHE)).program
    found = run(program, device, graph, arrays)
    wanted: list[Any] = evaluate_graph(graph, *arrays)
    for got, want in zip(found, wanted, strict=True):
        wide = 2e-2 if got.dtype.itemsize == 2 else 3e-5
        scale = np.max(np.abs(want.astype(np.float64)))
        np.testing.assert_allclose(
            got.astype(np.float64),
            want.astype(np.float64),
            rtol=wide,
            atol=wide * scale,
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_add_where_they_need_the_rows(name: str) -> None:
    row = PROGRAMS[name]
    graph = ft.make_graph(row.f)(*[normal(*shape) for shape in row.shapes])
    assert adding(lower(graph, Limits(cache=CACHE)).program) == row.adding
    assert adding(lower(graph).program) == 0
    with ft.config(disabled_rules={RULE}):
        assert adding(lower(graph, Limits(cache=CACHE)).program) == 0


def test_what_stays_in_the_cache_is_read_twice() -> None:
    row = PROGRAMS["rms norm 1024"]
    graph = ft.make_graph(row.f)(*[normal(*shape) for shape in row.shapes])
    assert adding(lower(graph, Limits(cache=1 << 20)).program) == 0


@pytest.mark.parametrize("f", [layer_norm, rms_norm])
def test_threads_do_not_change_a_bit_of_sums_beside_rows(f: Any) -> None:
    x, y = normal(2400, 700), normal(2400, 700)
    ones = [normal(700)] * (2 if f is layer_norm else 1)
    gradient = ft.jit(ft.grad(f, tuple(range(len(ones) + 1))))
    found: list[list[Any]] = []
    for threads in (1, 2, 3, 7):
        with ft.config(threads=threads):
            found.append([np.asarray(g) for g in gradient(x, *ones, y)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_special_values_stay_in_their_column() -> None:
    x, y = normal(1024, 64), normal(1024, 64)
    x[5, 3], x[700, 3], x[6, 9], x[64, 11] = np.inf, -np.inf, np.inf, np.nan
    x[:, 20], y[:, 20] = 0, -1  # sums of -0
    graph = ft.make_graph(stored_and_summed)(x, y)
    program = lower(graph, Limits(cache=CACHE)).program
    assert adding(program) == 1
    _, sums, squares = run(program, "cpu", graph, [x, y])
    with np.errstate(all="ignore"):
        want: Any = np.sum(x * y + x, 0, dtype=np.float64)
    np.testing.assert_array_equal(np.isnan(sums), np.isnan(want))
    assert [n for n in range(64) if squares[n] == np.inf] == [3, 9]
    assert sums[20] == 0
    np.testing.assert_allclose(
        sums[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-4, atol=1e-3
    )


def test_sums_of_what_a_product_gives_stay_whole() -> None:
    """The gradient of a bias is a sum of what the kernel of a product stores."""

    def loss(w: Any, b: Any, v: Any, x: Any) -> Any:
        return fnp.sum(fnp.tanh(fnp.tanh(x @ w + b) @ v) ** 2)

    arrays = [normal(32, 96), normal(96), normal(96, 40), normal(800, 32)]
    graph = ft.make_graph(ft.grad(loss, (0, 1, 2)))(*arrays)
    program = lower(graph, Limits(cache=CACHE)).program
    with ft.config(disabled_rules={RULE}):
        apart = lower(graph, Limits(cache=CACHE)).program
        assert len(apart.kernels) == len(program.kernels)
    for got, want in zip(
        run(program, "cpu", graph, arrays), evaluate_graph(graph, *arrays), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
