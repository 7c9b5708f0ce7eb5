"""Several processes, which `mpirun` starts on the checks of `in_each_process.py`."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace import errors
from ftrace.ground import process_groups
from ftrace.trace.primitives.exchange import FOLDS
from tests.docs.pages import agrees, outputs_of

ROOT = Path(__file__).parents[2]
CHECKS = Path(__file__).with_name("in_each_process.py")
_BESIDE = str(Path(sys.executable).parent)
MPIRUN = shutil.which("mpirun", path=os.pathsep.join([_BESIDE, os.environ["PATH"]]))

started = pytest.mark.skipif(
    MPIRUN is None or importlib.util.find_spec("mpi4py") is None,
    reason="mpirun or mpi4py is missing: pip install 'ftrace[mpi]'",
)


def environment(**variables: str) -> dict[str, str]:
    """Where a program finds the ftrace that is tested."""
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places), **variables}


def start(count: int, *words: str, script: Path = CHECKS, **variables: str) -> Any:
    """What so many processes have written, and whether all ended well."""
    command = [
        str(MPIRUN), "-n", f"{count}", "--oversubscribe", "--allow-run-as-root",
        sys.executable, "-W", "error", str(script), *words,
    ]  # fmt: skip
    return subprocess.run(
        command, env=environment(**variables), text=True, timeout=300, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


@started
@pytest.mark.parametrize(
    ("count", "variables"),
    [
        pytest.param(2, {"FTRACE_CPU_DEVICES": "2"}, id="2 processes of 2 devices"),
        pytest.param(
            4,
            {"FTRACE_DEVICE": "interpreter"},
            marks=pytest.mark.thorough,
            id="4 processes of the interpreter",
        ),
    ],
)
def test_what_holds_in_each_process(
    count: int, variables: dict[str, str], tmp_path: Path
) -> None:
    x = np.arange(64 * 512.0).reshape(64, 512)
    ft.save(tmp_path / "of_one", {"x": x, "y": x})
    done = start(count, FOLDER=str(tmp_path), **variables)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("all hold") == count, done.stdout
    found = ft.load(tmp_path / f"of_{count}")  # what several have saved, in one
    np.testing.assert_array_equal(found["rows"], found["both"])
    np.testing.assert_array_equal(found["rows"].astype("bfloat16"), found["columns"])
    assert ft.Checkpoints(tmp_path / f"steps_{count}").restore()["step"] == 3


@started
def test_programs_of_the_page_of_errors() -> None:
    page = ROOT / "docs" / "errors.md"
    done = start(2, str(page), "2", script=ROOT / "tests" / "docs" / "pages.py")
    assert done.returncode == 0, done.stdout
    # Libraries of MPI write there too, as UCX does where there is no /sys.
    written = [line for line in done.stdout.splitlines() if line.startswith('["')]
    lines = [json.loads(line) for line in written]
    assert len(lines) == 2
    blocks = outputs_of(page.read_text(encoding="utf-8"), "2")
    for (_, shown), *both in zip(blocks, *lines, strict=True):
        for text in both:
            assert shown is None or agrees(shown.text, text), text


def ended(way: str, seconds: str, folder: str = ".") -> str:
    """What two processes have written that end before their time."""
    begin = time.perf_counter()
    done = start(2, way, FTRACE_DISTRIBUTED_TIMEOUT=seconds, FOLDER=folder)
    assert done.returncode != 0
    assert time.perf_counter() - begin < 120
    return done.stdout


#: What goes wrong, in how many seconds it is noticed, and what is told.
WAYS: dict[tuple[str, str], list[str]] = {
    ("raises", "200"): [
        "process 1 of 2 ended by ValueError: not this one; process 0",
    ],
    ("leaves", "200"): ["process 1 of 2 left: its program has ended; process 0"],
    ("differs", "200"): ["+int64[4]"],
    ("fails", "200"): [
        "ended by ValueError: not in the program; process 0 was waiting for the others "
        "in sum along x: 2 processes"
    ],
    ("unequal", "200"): [
        "has waited for the others in sum along x: 2 processes, axis 0, in vain",
        "process 1 waits for the others to run a program (0, 1)\n  graph (a:f32[3]):",
    ],
    ("reversed", "200"): [
        "in vain: not all of process 0, 1 came there",
        " waits for ",
    ],
    ("interrupted", "200"): ["ended soon", "KeyboardInterrupt"],
    ("sleeps", "200"): [
        "has waited 1 seconds for all processes of a mesh",
        "has waited 1 seconds for the others to run assert_equal",
        "has left in the middle what it did with others",
        "process 0 of 2 is at its end, and has waited 1 seconds for process 1",
    ],
    ("never", "1"): ["process 0 ends: ProcessError: it has waited 1 seconds in dist"],
}


@started
def test_a_process_that_does_not_come_ends_the_others() -> None:
    with ThreadPoolExecutor(5) as pool:  # they mostly wait
        texts = pool.map(ended, *zip(*WAYS, strict=True))
        for places, text in zip(WAYS.values(), texts, strict=True):
            for place in places:
                assert place in text, text


@started
@pytest.mark.parametrize("kind", ["by native code", "by Python"])
@pytest.mark.parametrize("way", ["late", "interrupt", "truncated", "loop"])
def test_what_is_left_in_the_middle_is_left_for_good(
    way: str, kind: str, tmp_path: Path
) -> None:
    done = start(2, way, kind, FOLDER=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("all hold") == 2, done.stdout


@started
@pytest.mark.parametrize("count", [pytest.param(3, marks=pytest.mark.thorough), 4])
def test_few_processes_send_to_each_other_in_native_code(count: int) -> None:
    done = start(count, "direct")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("all hold") == count, done.stdout


@started
def test_a_process_that_is_killed_ends_the_others_and_no_checkpoint(
    tmp_path: Path,
) -> None:
    told = ended("killed", "200", str(tmp_path))
    assert "rank 1" in told, told
    step = ft.Checkpoints(tmp_path).latest()
    assert step in (4, 5)
    found = ft.Checkpoints(tmp_path).restore()
    assert found["step"] == step
    np.testing.assert_array_equal(found["rows"], found["both"])


def test_without_mpi_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.DeviceError, match=r"ftrace\[mpi\].*mpirun -n 2"):
        ft.distributed.initialize("10.0.0.1:1", 2, 0)
    assert (ft.process_count(), ft.distributed.is_initialized()) == (1, False)
    monkeypatch.setenv("PMIX_RANK", "0")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(errors.MissingExtraError, match=r"ftrace\[mpi\]"):
        ft.distributed.initialize()
    with pytest.raises(ValueError, match="1 second or more"):
        ft.config.update("distributed_timeout", 0)


def test_one_process_has_a_group_by_itself() -> None:
    alone, x = process_groups.everyone(), np.arange(6.0).reshape(1, 6)
    works = alone.gathering(x[0]), alone.exchanging(x), alone.broadcasting(x)
    for work in (*works, alone.combining(FOLDS["sum"], x)):
        np.testing.assert_array_equal(alone.run("", work), x)
    alone.agree("nothing", str)


def test_a_process_in_the_place_of_each_gets_what_it_has() -> None:
    """So one device's program of several can be run: every work is done at once."""
    group, x, fold = process_groups.group((0, 0, 0)), np.arange(6.0), FOLDS["sum"]
    rows = np.stack([x] * 3)
    works = (
        group.gathering(x), group.exchanging(rows),
        group.reducing(fold, rows, np.empty(6)), group.broadcasting(x, 1),
        group.combining(fold, x),
    )  # fmt: skip
    for work, expected in zip(works, (rows, rows, x, x, x), strict=True):
        np.testing.assert_array_equal(group.run("", work), expected)
    into = np.empty(6)
    group.run("", group.sending([(x, 1, 0)], [(into, 2, 0)]))
    np.testing.assert_array_equal(into, x)
    np.testing.assert_array_equal(group.broadcast(x), x)
