"""The examples of many devices compute what one device does, however they start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.test_processes import ROOT, environment, start, started

RUNNER = Path(__file__).with_name("run_examples.py")
#: In how many steps it is seen whether the numbers are those of one device.
STEPS = {
    "data_parallel": 3, "tensor_parallel": 2, "fsdp": 3, "pipeline": 2, "stencil": 20,
}  # fmt: skip
#: Of several processes, where a share is asked for: three kinds of exchanges; and those
#: whose devices are arranged otherwise where there are twice as many.
SOME = {2: ("fsdp", "pipeline", "stencil"), 4: ("tensor_parallel", "stencil")}


def words(request: pytest.FixtureRequest, count: int) -> list[str]:
    """What the runner is told: a few steps of each, or all of them."""
    every = request.config.option.all_rows
    if every and count < 4:
        return [word for name in STEPS for word in (name, "-")]
    names = STEPS if every or count == 1 else SOME[count]
    return [word for name in names for word in (name, f"{STEPS[name]}")]


def check(text: str, told: list[str], count: int) -> None:
    for name in told[::2]:
        assert text.count(f"{name}: 0 wrong") == count, text
    assert "field: the same bits as on one device" in text or "stencil" not in told


def test_many_devices_of_a_process_compute_what_one_does(
    request: pytest.FixtureRequest,
) -> None:
    told = words(request, 1)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(RUNNER), *told], env=environment(),
        text=True, timeout=300, check=False, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "8 devices, 1 process" in done.stdout
    check(done.stdout, told, 1)


@started
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_processes_compute_what_one_device_does(
    request: pytest.FixtureRequest, count: int
) -> None:
    told = words(request, count)
    done = start(count, *told, script=RUNNER, TERM="dumb")
    assert done.returncode == 0, done.stdout
    check(done.stdout, told, count)
