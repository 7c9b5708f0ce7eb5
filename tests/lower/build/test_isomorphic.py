"""Drafts of one structure: one kernel is built, and it is the right one for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.lower.build import build_kernel as building
from ftrace.lower.build.build_kernel import build_kernel, build_kernels
from ftrace.lower.fusion.drafts import FusionPlan
from ftrace.trace.graph import Graph, Node, substitute
from ftrace.trace.primitives.sources import variable
from tests.support.programs import programs


def twice(graph: Graph) -> Graph:
    """The graph beside itself, of other inputs: all its drafts have partners."""
    count = len(graph.inputs)
    others: dict[Node, Node] = {
        node: variable(node.aval, 0, count + i) for i, node in enumerate(graph.inputs)
    }
    outputs = substitute(graph.outputs, others)
    inputs = (*graph.inputs, *others.values())
    return Graph(inputs, (*graph.outputs, *outputs))


def check(plan: FusionPlan) -> None:
    """Each kernel is the one that is built of its draft alone."""
    found = dict(build_kernels(plan))
    drafts = [d for d in plan.drafts if d.step is None]
    assert found.keys() == {d.number for d in drafts}
    for draft in drafts:
        alone, shared = build_kernel(draft, plan), found[draft.number]
        assert shared.kernel == alone.kernel
        assert shared.stores == alone.stores
        assert shared.loads == alone.loads
        assert shared.info == alone.info


@given(programs())
def test_a_kernel_of_a_pattern_is_that_of_the_draft(drawn: tuple[Graph, Any]) -> None:
    check(lower(twice(drawn[0])).plan)
    check(lower(twice(drawn[0]), Limits(recurrences=True, cache=1 << 20)).plan)


def network(x: Any, weights: Any) -> Any:
    for w in weights:
        x = x + fnp.tanh((x - x.mean(0)) @ w)
        x = x / (1 + fnp.abs(x).max(1, keepdims=True))
    return (x * x).sum()


def built_for(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many kernels a graph has, each of them right, and how many are built."""
    built = 0

    def counted(draft: Any, plan: Any) -> Any:
        nonlocal built
        built += 1
        return build_kernel(draft, plan)

    monkeypatch.setattr(building, "build_kernel", counted)
    plan = lower(graph).plan
    check(plan)
    built = 0
    return len(dict(build_kernels(plan))), built


def test_a_kernel_is_built_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 8)).astype(np.float32)
    counts: list[int] = []
    for depth in (40, 60):
        weights = rng.normal(size=(depth, 8, 8)).astype(np.float32)
        graph = ft.make_graph(ft.grad(network, (0, 1)))(x, [*weights])
        kernels, built = built_for(graph, monkeypatch)
        assert kernels > 4 * depth
        counts.append(built)
    assert counts[0] == counts[1]  # the first and last dozen have some of their own


@pytest.mark.parametrize(
    "step",
    [
        lambda x: fnp.sin(x) * 1.25 + x,
        lambda x: fnp.tanh(x) * x + x,
        lambda x: x + 0.1 * (fnp.cos(x) - x * x),
    ],
)
def test_kernels_of_an_unrolled_loop_end_between_its_steps(
    step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loop(x: Any) -> Any:
        for _ in range(600):
            x = step(x)
        return x.sum()

    graph = ft.make_graph(ft.grad(loop))(np.ones(64, np.float32))
    kernels, built = built_for(graph, monkeypatch)
    assert kernels > 80
    assert built <= 6
