"""What runs graphs, for those below, who know no device: see `trace.backend`."""

from __future__ import annotations

from ftrace.trace.backend import backend
from ftrace.transforms.jit.compile_large_eager import (
    compiles,
    run_call,
    run_operation,
)
from ftrace.transforms.jit.compiled_graph import has_compiled, make_native, run_graph
from ftrace.transforms.jit.eager_programs import program_of


def register() -> None:
    """From now on it is there; `ftrace` does it when it is imported."""
    backend.run_graph = run_graph
    backend.compiles = compiles
    backend.program_of = program_of
    backend.has_compiled = has_compiled
    backend.run_call = run_call
    backend.run_operation = run_operation
    backend.make_native = make_native
