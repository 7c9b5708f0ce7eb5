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
from ftrace.trace.backend import backend
from ftrace.trace.lacking import Kernel
from ftrace.trace.operations import bind
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.tiering import LONG_BLOCK, SHORT_BLOCK
from ftrace.trace.tracer import Tracer
from ftrace.trace.tracing import trace


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
        if found is None:
            aval = ShapedArray.of((size,), self._dtype)
            graph = trace("eager", self._applied, (aval,))
            found = self._programs[size] = backend.prepare(graph, self._config)
        return found

    def _applied(self, x: Tracer) -> list[Any]:
        return [bind(self._op, x)]

    def __call__(self, x: Any) -> Any:
        count = x.size
        size = SHORT_BLOCK if count <= SHORT_BLOCK else LONG_BLOCK
        if count == size:
            return self._done(x.reshape(-1), size).reshape(x.shape)
        if count < size:
            block = np.ones(size, self._dtype)
            block[:count] = x.reshape(-1)
            return self._done(block, size)[:count].reshape(x.shape)
        flat = x.reshape(-1)
        parts = [self(flat[i : i + LONG_BLOCK]) for i in range(0, count, LONG_BLOCK)]
        whole: Any = np.concatenate(parts)
        return whole.reshape(x.shape)

    def _done(self, block: Any, size: int) -> Any:
        return self.program(size)(block)[0].numpy()


_blocks: Table[Any, _Blocks] = Table(64)


def find_kernel(op: Primitive, dtype: np.dtype[Any]) -> Kernel | None:
    """What computes a function for arrays of a dtype; None without a compiler."""
    config = settings.current()
    if config.disable_jit or not get_device().keeps_programs:
        return None
    key = op, dtype, config
    found = _blocks.get(key)
    if found is None:
        found = _Blocks(op, dtype, config)
        if found.program(SHORT_BLOCK) is None:
            return None
        _blocks.put(key, found)
    return found
