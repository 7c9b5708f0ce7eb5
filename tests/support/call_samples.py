"""What tests of calls share: arrays and containers, how often to call, processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ftrace.numpy as fnp
from ftrace.backends.base import get_device
from ftrace.backends.llvm.call import object_layout
from ftrace.trace.arrays.array import Array
from ftrace.trace.tiering import JIT_CALLS_BEFORE_RECORD

ROOT = Path(__file__).parents[2]
#: The first is traced, some are found again, then one is recorded, and two are native.
CALLS = JIT_CALLS_BEFORE_RECORD + 4


def plain(function: Callable[..., Any], *args: Any) -> Any:
    """A call in which nothing is native."""
    native = get_device("cpu").native()  # type: ignore[attr-defined]
    if native is None:
        return function(*args)
    native.put("recording", 1)
    try:
        return function(*args)
    finally:
        native.put("recording", 0)


def is_native(jitted: Any) -> bool:
    """Has it calls that are native?"""
    return bool(jitted._records)


def expects_native(calling: str) -> bool:
    forced = os.environ.get("FTRACE_NATIVE_CALLS") == "0"
    return calling == "native" and not forced and object_layout.offsets() is not None


def array(*values: float, dtype: Any = np.float32) -> Array:
    return fnp.asarray(np.array(values, dtype))


class Pair(NamedTuple):
    left: Any
    right: Any


class Checked(NamedTuple("Checked", [("value", Any)])):
    def __new__(cls, value: Any) -> Checked:
        made = super().__new__(cls, value)
        SEEN.append(type(value).__name__)
        return made


SEEN: list[str] = []


class Shifted(NamedTuple("Shifted", [("left", Any), ("right", Any)])):
    def __new__(cls, left: Any, right: Any) -> Shifted:
        return super().__new__(cls, left, right + 1)


class Swapped(NamedTuple("Swapped", [("left", Any), ("right", Any)])):
    def __new__(cls, left: Any, right: Any) -> Swapped:
        return super().__new__(cls, right, left)


class Strict(NamedTuple("Strict", [("left", Any), ("right", Any)])):
    def __init__(self, *values: Any) -> None:
        assert all(hasattr(x, "shape") for x in values)


class Renamed(NamedTuple("Other", [("left", Any), ("right", Any)])):
    @property
    def sum(self) -> Any:
        return self.left + self.right


#: Namedtuples with code of their own.
WITH_CODE = (Shifted, Swapped, Strict, Renamed)


def run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = """
import os, sys, threading
import numpy as np
import ftrace as ft
step = ft.jit(lambda t: {"a": t["a"] + 1, "b": [t["a"] * 2]})
value = {"a": ft.numpy.ones(5)}
for _ in range(12):
    got = step(value)
"""
