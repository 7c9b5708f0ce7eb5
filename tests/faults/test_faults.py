"""A sample of the faults; `python -m tests.faults --full` runs all of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.call_samples import ROOT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_nothing_breaks_behind_a_fault(request: pytest.FixtureRequest) -> None:
    every = "1600" if request.config.option.all_rows else "3400"
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--every", every],
        capture_output=True, text=True, cwd=ROOT, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
