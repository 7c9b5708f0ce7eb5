"""Kernels for functions of elements that NumPy lacks: see `trace.lacking`.

Kernels are compiled for blocks of a few fixed sizes, whatever the sizes of the arrays:

    erf(x), 100 numbers   ->   a block of 1024 that begins with them, one call
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import settings
from ftrace.devices.base import get_device
from ftrace.settings import Config
from ftrace.tables import Table
from ftrace.trace.avals import ShapedArray
from ftrace.trace.lacking import Kernel, kernels
from ftrace.trace.operations import bind, hooks
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.tracer import Tracer
from ftrace.trace.tracing import trace

#: Elements of a block: of a short one, and of those that longer arrays are cut into.
SHORT, LONG = 64, 1024


class _Blocks:
    """A primitive for blocks of one dtype under a configuration."""

    def __init__(self, op: Primitive, dtype: np.dtype[Any], config: Config) -> None:
        self._op = op
        self._dtype = dtype
        self._config = config
        self._programs: dict[int, Any] = {}

    def program(self, size: int) -> Any:
        """The program for blocks of a size; None where there is no compiler."""
        found = self._programs.get(size)
        if found is None and hooks.prepare is not None:
            aval = ShapedArray.of((size,), self._dtype)
            graph = trace("eager", self._applied, (aval,))
            found = self._programs[size] = hooks.prepare(graph, self._config)
        return found

    def _applied(self, x: Tracer) -> list[Any]:
        return [bind(self._op, x)]

    def address(self) -> int:
        return self.program(SHORT).executable.element_loop()

    def __call__(self, x: Any) -> Any:
        count = x.size
        size = SHORT if count <= SHORT else LONG
        if count == size:
            return self._done(x.reshape(-1), size).reshape(x.shape)
        if count < size:
            block = np.ones(size, self._dtype)
            block[:count] = x.reshape(-1)
            return self._done(block, size)[:count].reshape(x.shape)
        flat = x.reshape(-1)
        parts = [self(flat[start : start + LONG]) for start in range(0, count, LONG)]
        whole: Any = np.concatenate(parts)
        return whole.reshape(x.shape)

    def _done(self, block: Any, size: int) -> Any:
        return self.program(size)(block)[0].numpy()


_blocks: Table[Any, _Blocks] = Table(64)


def _find(op: Primitive, dtype: np.dtype[Any]) -> Kernel | None:
    config = settings.current()
    if config.disable_jit or hooks.prepare is None or not get_device().keeps_programs:
        return None
    key = op, dtype, config
    found = _blocks.get(key)
    if found is None:
        found = _Blocks(op, dtype, config)
        if found.program(SHORT) is None:
            return None
        _blocks.put(key, found)
    return found


def compile_lacking_functions() -> None:
    """From now on functions that NumPy lacks are compiled outside of jit, too."""
    kernels.find = _find
