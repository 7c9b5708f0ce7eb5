"""What `import ftrace` loads, and what it leaves for later."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import ftrace as ft


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("first", ["import ftrace", "import ftrace.numpy"])
def test_import_loads_no_compiler(first: str) -> None:
    loaded = run(f"{first}\nimport sys\nprint(*sys.modules)").split()
    late = ("llvmlite", "ftrace.lower", "ftrace.backends.llvm", "scipy", "rich")
    assert [name for name in loaded if name.startswith(late)] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_every_public_name_is_there_in_a_fresh_process() -> None:
    """Also where nothing else has been named before it."""
    code = """
import os, ftrace
late = [name for name in ftrace.__all__ if name not in vars(ftrace)]
assert len(late) > 10
for name in late:
    child = os.fork()
    if child == 0:
        os._exit(int(getattr(ftrace, name, None) is None))
    assert os.waitpid(child, 0)[1] == 0, name
"""
    run(code)


def test_names_are_listed() -> None:
    assert set(ft.__all__) <= set(dir(ft))
    code = "from ftrace import *\nprint(jit, optim, save, random.key)"
    assert "ftrace.optim" in run(code)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'ftrace' has no attribute 'nothing'"):
        _ = ft.nothing  # pyright: ignore[reportAttributeAccessIssue]
