"""What `import ftrace` loads, and what it leaves for later."""

from __future__ import annotations

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


def test_every_public_name_is_there_in_a_fresh_process() -> None:
    """Also where nothing else has been named before it."""
    code = """
import sys, ftrace
late = [name for name in ftrace.__all__ if name not in vars(ftrace)]
assert len(late) > 10
for name in late:
    for module in [m for m in sys.modules if m.startswith("ftrace")]:
        del sys.modules[module]
    found = __import__("ftrace")
    assert getattr(found, name) is not None, name
"""
    run(code)


def test_names_are_listed() -> None:
    assert set(ft.__all__) <= set(dir(ft))
    code = "from ftrace import *\nprint(jit, optim, save, random.key)"
    assert "ftrace.optim" in run(code)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'ftrace' has no attribute 'nothing'"):
        _ = ft.nothing  # pyright: ignore[reportAttributeAccessIssue]
