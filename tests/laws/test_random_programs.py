"""Random programs give the same values on every device as node by node in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from ftrace.backends.base import get_device
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.graph import Graph
from tests.support.programs import programs

EXAMPLES = {"interpreter": 160, "cpu": 100, "opencl": 15}


def run_on(name: str, graph: Graph, arrays: list[Any]) -> list[Any]:
    device = get_device(name)
    program = lower(graph, Limits(device.limits.max_buffers)).program
    buffers = device.compile(program)([device.copy_in(a) for a in arrays])
    return [
        device.copy_out(b, n.dtype, n.size).reshape(n.shape)
        for b, n in zip(buffers, graph.outputs, strict=True)
    ]


def check(name: str, graph: Graph, arrays: list[Any]) -> None:
    wanted = evaluate_graph(graph, *arrays)
    for got, want in zip(run_on(name, graph, arrays), wanted, strict=True):
        scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("name", EXAMPLES)
def test_random_programs_agree_with_evaluation(name: str) -> None:
    @settings(
        max_examples=EXAMPLES[name], deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs())
    def law(case: tuple[Graph, list[Any]]) -> None:
        check(name, *case)

    law()
