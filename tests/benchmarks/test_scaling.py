"""Laws of the model of how steps would scale (`benchmarks/scaling.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

import ftrace as ft
from benchmarks import scaling
from ftrace.backends.base import set_system
from ftrace.lower.program import RunExchange

CLUSTER = scaling.CLUSTERS["100 Gb/s"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Layers of which there is little to compile, and sums that are still large."""
    for name, value in {"WIDTH": 256, "LAYERS": 2, "BATCH": 32, "TOTAL": 4096}.items():
        monkeypatch.setattr(scaling, name, value)
    yield
    assert ft.device_count() == ft.local_device_count()  # it is one system again


@pytest.mark.parametrize("name", scaling.ARRANGEMENTS)
@pytest.mark.parametrize("weak", [True, False])
def test_alone_is_all_of_it(name: str, weak: bool) -> None:
    least = scaling.ARRANGEMENTS[name][0]
    assert scaling.efficiency(name, least, weak, CLUSTER)[0] == 1
    shares = [scaling.efficiency(name, n, weak, CLUSTER)[0] for n in (16, 64, 256)]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[-1] < shares[0] <= 1.01


@pytest.mark.parametrize("name", scaling.ARRANGEMENTS)
def test_it_is_no_faster_on_a_slower_network(name: str) -> None:
    for what in ("latency", "overhead", "gap", "per_byte"):
        times = [
            scaling.run_of(
                name, 64, 2048, replace(CLUSTER, **{what: k * getattr(CLUSTER, what)})
            ).now
            for k in (0, 1, 10, 100)
        ]
        assert times == sorted(times), what
        assert times[-1] > times[0], what


@pytest.mark.parametrize("name", scaling.ARRANGEMENTS)
def test_the_bytes_are_those_that_explain_sharding_tells(name: str) -> None:
    ranks, batch = 16, 512
    run = scaling.run_of(name, ranks, batch, CLUSTER)
    set_system({"cpu": [1] * ranks})
    try:
        args = scaling.arguments(name, ranks, batch)
        text = ft.explain_sharding(scaling.train_step)(*args)
    finally:
        set_system({})
    (told,) = re.findall(r"each device receives ([\d,]+) bytes", text)
    assert run.nbytes == int(told.replace(",", ""))


def test_what_is_sent_meanwhile_costs_what_the_kernels_leave() -> None:
    set_system({"cpu": [1] * 64})
    try:
        args = scaling.arguments("data parallel", 64, 2048)
        program = scaling.program_of(scaling.train_step, *args)
    finally:
        set_system({})
    assert any(s.phase == "start" for s in program.steps if isinstance(s, RunExchange))
    run, free = scaling.Run(CLUSTER), scaling.Run(replace(CLUSTER, per_byte=0.0))
    run.walk(program)
    free.walk(program)
    alone, sent = sum(map(CLUSTER.kernel, program.kernels)), 0.0
    for step in program.steps:
        if isinstance(step, RunExchange) and step.phase != "wait":
            slots = [row[0] for row in step.split(step.operands)]
            nbytes = sum(program.slots[slot].nbytes for slot in slots)
            sent += CLUSTER.exchange(step.nodes[0].arg.kind, 64, nbytes)
    assert max(alone, sent) <= run.now < alone + sent
    assert run.now == pytest.approx(alone + sum(run.waits.values()))
    assert free.now < run.now


def test_what_waits_most_is_named_with_its_line() -> None:
    slow = replace(CLUSTER, per_byte=1e-6)
    text = scaling.report(slow, (8,))
    assert re.search(r"8 ranks .*%.* MB received .* ms: (sum|gather) over 'data'", text)
    assert "scaling.py:" in text
