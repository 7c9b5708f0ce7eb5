"""What runs graphs, for those below, who know no device: see `trace.backend`."""

from __future__ import annotations

from ftrace.trace.backend import backend
from ftrace.transforms.execute import has_compiled, make_native, run_graph
from ftrace.transforms.lacking import find_kernel
from ftrace.transforms.large import run_call, run_operation
from ftrace.transforms.prepared import prepare_for_processor


def register() -> None:
    """From now on it is there; `ftrace` does it when it is imported."""
    backend.run_graph = run_graph
    backend.prepare = prepare_for_processor
    backend.has_compiled = has_compiled
    backend.run_call = run_call
    backend.run_operation = run_operation
    backend.find_kernel = find_kernel
    backend.make_native = make_native
