"""Eager samplers: the same bits by NumPy and by compiled code, at any call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace import random
from ftrace.trace import backend as backends, tiering
from ftrace.trace.avals import ShapedArray
from ftrace.trace.eager.composite import exact_subgraph, is_exact
from ftrace.trace.tracing.trace import trace
from tests.support.key_numbers import numbers

KEY = random.key(11)
ROW = np.arange(40, dtype=np.float32)

#: Draws of less than `DRAWS_LARGE` numbers; of these the exact part is compiled.
DRAWS: dict[str, Any] = {
    "split": lambda: random.split(KEY, 3),
    "split_none": lambda: random.split(KEY, 0),
    "fold_in": lambda: random.fold_in(KEY, 7),
    "bits8": lambda: random.bits(KEY, (5,), "uint8"),
    "bits32": lambda: random.bits(KEY, ()),
    "uniform": lambda: random.uniform(KEY, (3, 7)),
    "uniform_empty": lambda: random.uniform(KEY, (3, 0)),
    "uniform_range": lambda: random.uniform(KEY, (33,), minval=-0.3, maxval=2.0),
    "uniform_nan": lambda: random.uniform(KEY, (3,), minval=float("nan")),
    "uniform_bfloat16": lambda: random.uniform(KEY, (33,), "bfloat16"),
    "uniform_float16": lambda: random.uniform(KEY, (33,), "float16"),
    "bounds": lambda: random.uniform(KEY, (40,), minval=-ROW, maxval=ROW),
    "randint": lambda: random.randint(KEY, (7,), -3, 1000),
    "randint_full": lambda: random.randint(KEY, (7,), -(2**31), 2**31),
    "randint_empty_range": lambda: random.randint(KEY, (7,), 5, 5),
    "randint8": lambda: random.randint(KEY, (7,), 0, 256, "uint8"),
    "bernoulli": lambda: random.bernoulli(KEY, 0.3, (9,)),
    "rademacher": lambda: random.rademacher(KEY, (9,)),
    "normal": lambda: random.normal(KEY, (3, 2)),
    "normal_complex": lambda: random.normal(KEY, (5,), "complex64"),
    "truncated_normal": lambda: random.truncated_normal(KEY, -1, 2, (5,)),
    "exponential": lambda: random.exponential(KEY, (5,)),
    "gumbel": lambda: random.gumbel(KEY, (5,)),
    "categorical": lambda: random.categorical(KEY, ROW, shape=(4,)),
    "choice": lambda: random.choice(KEY, ROW, (4,)),
    "permutation": lambda: random.permutation(KEY, 50),
    "permutation_of": lambda: random.permutation(KEY, ROW),
}


class Prepared:
    """Counts the programs that are made."""

    def __init__(self) -> None:
        self.count = 0
        self.plain = backends.backend()

    def __call__(self, graph: Any) -> Any:
        self.count += self.plain.compiles()
        return self.plain.program_of(graph)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Prepared]:
    """Nothing is known yet, and nothing compiled that need not be."""
    counted = Prepared()
    backends.register(replace(counted.plain, program_of=counted))
    monkeypatch.setattr(tiering, "DRAWS_SPENT", 1 << 60)
    monkeypatch.setattr(tiering, "DRAWS_SPENT_IN_ALL", 0)
    with ft.config(native_calls=False):
        ft.clear_caches()
        yield counted
    backends.register(counted.plain)
    ft.clear_caches()


def bits_of(x: Any) -> tuple[Any, ...]:
    values = numbers(x)
    return values.shape, values.dtype, values.tobytes()


@pytest.mark.parametrize("name", DRAWS)
def test_compiled_parts_have_the_bits_of_numpy(
    name: str, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = DRAWS[name]
    by_numpy = bits_of(draw())
    assert prepared.count == 0
    monkeypatch.setattr(tiering, "DRAWS_SPENT", 0)
    compiled = bits_of(draw())
    assert prepared.count > 0
    assert compiled == by_numpy
    assert bits_of(draw()) == by_numpy


@pytest.mark.parametrize("draw", [random.normal, random.exponential, random.gumbel])
@pytest.mark.parametrize("more", [-1, 0])
def test_rounded_numbers_never_change(
    draw: Any, more: int, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a size on all is compiled, at once; below what rounds is never compiled."""
    shape = (tiering.DRAWS_LARGE + more,)
    first = bits_of(draw(KEY, shape))
    assert prepared.count == (0 if more else 1)
    monkeypatch.setattr(tiering, "DRAWS_SPENT", 0)
    assert bits_of(draw(KEY, shape)) == first


def test_a_kind_is_compiled_once_it_was_drawn_often(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiering, "DRAWS_SPENT", 2000)
    drawn = {bits_of(random.split(KEY, 5)) for _ in range(20)}
    assert len(drawn) == 1
    assert prepared.count == 1


def test_learned_calls_are_compiled_as_well(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that was made while NumPy drew does not stay with it."""
    shape = (9,)
    with ft.config(native_calls=True):
        ft.jit(lambda x: x + 1)(ROW)  # the native code is there
        keys = list(random.split(KEY, 30))
        by_numpy = [bits_of(random.bits(key, shape)) for key in keys]
        assert prepared.count == 0
        monkeypatch.setattr(tiering, "DRAWS_SPENT", 0)
        assert [bits_of(random.bits(key, shape)) for key in keys] == by_numpy
        assert prepared.count > 0


@pytest.mark.parametrize("settings", [{"device": "interpreter"}, {"disable_jit": True}])
def test_nothing_is_compiled_elsewhere(
    settings: dict[str, Any], prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiering, "DRAWS_SPENT", 0)
    expected = bits_of(random.uniform(KEY, (9,)))
    assert prepared.count == 1
    ft.clear_caches()
    with ft.config(**settings):
        assert bits_of(random.uniform(KEY, (9,))) == expected
    assert prepared.count == 1


def test_who_draws_a_few_numbers_loads_no_compiler() -> None:
    code = (
        "import sys, ftrace as ft\n"
        "key = ft.random.key(0)\n"
        "for _ in range(30):\n"
        "    key, one = ft.random.split(key)\n"
        "    ft.random.normal(one, (8,)), ft.random.uniform(one, (300,))\n"
        "assert 'llvmlite' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# What is exact.


def graph_of(function: Any, *dtypes: str) -> Any:
    avals = [ShapedArray.of((4,), np.dtype(d), False) for d in dtypes]
    return trace("test", lambda *xs: [function(*xs)], avals)


EXACT: dict[str, Any] = {
    "sum of integers": (lambda x, y: x * y + x, "int32", "int32"),
    "order": (lambda x, y: ft.numpy.where(x < y, x, y), "float32", "float32"),
    "difference": (lambda x, y: x - y, "float64", "float64"),
    "product of 48 bits": (
        lambda x, y: x.astype("float64") * y.astype("float64") + 0.1,
        "float32",
        "float32",
    ),
    "half of float32": (lambda x: x.astype("float64") * 0.5 - 0.1, "float32"),
    "rounded once": (lambda x: ft.numpy.maximum(x.astype("float32"), 0), "float64"),
    "sorted": (lambda x: ft.numpy.argsort(x), "uint32"),
}
ROUNDED: dict[str, Any] = {
    "product": (lambda x, y: x * y + x, "float32", "float32"),
    "product of 77 bits": (lambda x: x.astype("float64") * 0.1 - 1, "float32"),
    "product of halves": (
        lambda x, y: x.astype("float64") * y.astype("float64") + 0.1,
        "float32",
        "float64",
    ),
    "to integers": (lambda x: x.astype("int32"), "float32"),
    "logarithm": (lambda x: ft.numpy.log(x), "float32"),
    "narrow": (lambda x, y: x - y, "float16", "float16"),
    "complex": (lambda x, y: x + y, "complex64", "complex64"),
    "quotient": (lambda x, y: x / y, "int32", "int32"),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_graphs_are_exact_to_the_end(name: str) -> None:
    graph = graph_of(*EXACT[name])
    assert exact_subgraph(graph) == (graph.outputs, True)
    assert is_exact(graph.outputs[0])


@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounds_is_not_exact(name: str) -> None:
    graph = graph_of(*ROUNDED[name])
    assert not exact_subgraph(graph)[1]


def test_an_exact_part_ends_before_what_rounds() -> None:
    def function(x: Any) -> Any:
        return ft.numpy.log(x - 1) + x

    graph = graph_of(function, "float32")
    ends, whole = exact_subgraph(graph)
    assert not whole
    assert [node.op.name for node in ends] == ["sub"]
