"""The plugin for pytest, in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ftrace.backends.base import platform_names
from pytest_ftrace import DEVICES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def outer(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs files as a user would, with the plugin."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(*options: str, **files: str) -> pytest.RunResult:
        pytester.makepyfile(**files)
        plugin = ("-ppytest_ftrace", "-pno:cacheprovider", "-pno:hypothesispytest")
        return pytester.runpytest_subprocess(*plugin, "-rs", *options)

    return run


TESTS = """
from pathlib import Path

import numpy as np
import pytest

import ftrace as ft
from ftrace.testing import assert_kernels

def test_each(device):
    assert ft.config.device == device.name

def test_own_parameter():
    print("default:", ft.config.device)

@pytest.mark.parametrize("device", ["cuda"])
def test_of_others(device):
    assert device == "cuda"

def test_double():
    golden = Path(__file__).parent / "double.txt"
    assert_kernels(lambda x: x * 2, np.ones(3, "float32"), golden=golden)
"""


def test_each_device_in_turn_or_a_reason_and_goldens(outer: Any) -> None:
    conftest = """
import sys
sys.modules["pyopencl"] = None
"""
    found = outer("-s", "-v", test_file=TESTS, conftest=conftest)
    found.assert_outcomes(passed=4, skipped=1, failed=1)
    found.stdout.fnmatch_lines(
        [
            "*test_each?cpu? PASSED*",
            "E *golden double.txt: it is not there yet; pytest *",
            "*needs pyopencl, which is*",
        ]
    )


def test_one_device_by_name_and_goldens_written(outer: Any, pytester: Any) -> None:
    options = "--ftrace-device=interpreter", "--ftrace-update-goldens"
    found = outer("-s", *options, test_file=TESTS)
    found.assert_outcomes(passed=4, deselected=2)
    found.stdout.fnmatch_lines(["*default: interpreter*"])
    assert "mul" in (pytester.path / "double.txt").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ftrace-device=tpu"], "--ftrace-device: device must be 'cpu'"),
        (["--ftrace-device=interpreter:9"], "interpreter has 1, from 0 on"),
        (["--ftrace-update-goldens", "-n2"], "one process writes them; leave out -n"),
    ],
)
def test_wrong_options_end_the_run(
    pytester: pytest.Pytester, options: list[str], message: str
) -> None:
    with pytest.raises(pytest.UsageError, match=message):
        pytester.parseconfigure("-ppytest_ftrace", *options)


def test_the_plugin_waits_for_ftrace_until_it_is_used() -> None:
    program = "import sys, pytest_ftrace\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT
    )
    loaded = done.stdout.split()
    assert "pytest_ftrace" in loaded, done.stderr
    assert [x for x in loaded if x.partition(".")[0] in ("ftrace", "numpy")] == []


def test_the_plugin_is_installed_under_the_name_of_its_module() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    entry = '[project.entry-points.pytest11]\npytest_ftrace = "pytest_ftrace"\n'
    assert entry in project
    assert 'only-include = ["ftrace", "pytest_ftrace.py"]' in project


def test_the_devices_are_those_of_the_package() -> None:
    assert {*DEVICES} <= {*platform_names()}


FAILING = """
import ftrace as ft
import ftrace.numpy as fnp

def inner(x):
    return x @ fnp.ones(4)

def test_shapes():
    ft.jit(inner)(fnp.ones(3))
"""


@pytest.mark.parametrize(("shown", "ours"), [("user", False), ("full", True)])
def test_a_failure_shows_the_users_lines(
    outer: Any, monkeypatch: pytest.MonkeyPatch, shown: str, ours: bool
) -> None:
    monkeypatch.setenv("FTRACE_TRACEBACK", shown)
    text = outer(test_shapes=FAILING).stdout.str()
    assert "return x @ fnp.ones(4)" in text
    assert "ShapeError: matmul: the shapes (3,) and (4,)" in text
    assert ("/ftrace/numpy/" in text) == ours
