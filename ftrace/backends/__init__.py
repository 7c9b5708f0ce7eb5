"""The devices by name. Each is loaded at its first use, with the driver it needs.

So are the passes that lower graphs for them: importing ftrace compiles nothing.

From the ground up:

    base             What a device is: memory, and a compiler for programs; platforms by
                     name
    debug_report     What a device tells on the standard error stream when `debug` is
                     set
    out_of_memory    Calls that need more memory than there is: refused before any of it
                     is touched
    host_executor    Programs that the host drives step by step: on the interpreter and
                     on OpenCL
    interpreter      Programs run kernel by kernel in NumPy: what the other devices are
                     held to
    llvm/            The CPU: kernels as vector code, and a program as one native call
    opencl/          Kernels in OpenCL C, for any GPU with a driver
    rule_names       The names that `config.disabled_rules` may hold: of all rules and
                     decisions
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ftrace.backends.base import register_platform
from ftrace.ground import settings
from ftrace.trace.python_limits import importing

if TYPE_CHECKING:
    from ftrace.lower import Lowering
    from ftrace.trace.graph import Graph


def _load(module: str, name: str) -> Any:
    """What has that name in a module, which is loaded at its first use."""
    return getattr(import_module(f"ftrace.{module}"), name)


def lowering() -> Callable[..., Lowering]:
    """`ftrace.lower.lower`: what makes programs of graphs."""
    load = partial(_load, "lower.lowering", "lower")
    return load() if has_lowered() else importing(load)


def _check_rules(names: frozenset[str]) -> None:
    _load("backends.rule_names", "check_disabled_rules")(names)


def has_lowered() -> bool:
    """Are the passes loaded already?"""
    return "ftrace.lower.lowering" in sys.modules


def identity_of(graph: Graph, *settings: Any) -> str | None:
    """`ftrace.lower.assembly.serialize.graph_identity`: the name of a graph on disk."""
    return _load("lower.assembly.serialize", "graph_identity")(graph, *settings)


def size_of(graph: Graph) -> int:
    """`ftrace.lower.assembly.serialize.size_of_graph`: nodes, with those of bodies."""
    return _load("lower.assembly.serialize", "size_of_graph")(graph)


settings.name_checks["disabled_rules"] = _check_rules
register_platform(
    "cpu",
    lambda number: importing(partial(_load, "backends.llvm.device", "CPU"))(number),
    settings.host_devices,
)
register_platform(
    "interpreter", lambda number: _load("backends.interpreter", "Interpreter")(number)
)
register_platform(
    "opencl",
    lambda number: _load("backends.opencl.device", "OpenCL")(number),
    lambda: _load("backends.opencl.device", "device_count")(),
)
