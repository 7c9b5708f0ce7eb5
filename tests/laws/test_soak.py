"""The soak sees what grows; `python -m tests.soak` runs for as long as it is told."""

from __future__ import annotations

import pytest

from tests.soak.watch import EVERY, LONG, Memory


@pytest.mark.parametrize(
    ("growth", "minutes", "leaks"),
    [(2.0, 40, True), (2.0, 10, False), (0.2, 40, False)],
)
def test_memory_that_grows_in_a_long_run_is_a_fault(
    growth: float, minutes: float, leaks: bool
) -> None:
    memory = Memory()
    for sample in range(int(minutes * 60 / EVERY)):
        seconds = sample * EVERY
        memory.seconds.append(seconds)
        memory.held.append(200 + growth * seconds / 60)
    assert memory.slope() == pytest.approx(growth)
    assert memory.is_leaking() is leaks
    assert LONG < 3600  # the run that is recorded is long enough
