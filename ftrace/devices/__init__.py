"""The devices by name. Each is loaded at its first use, with the driver it needs.

So are the passes that lower graphs for them: importing ftrace compiles nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ftrace.devices.base import Device, register_device
from ftrace.ground import settings
from ftrace.trace.python_limits import importing

if TYPE_CHECKING:
    from ftrace.lower import Lowered
    from ftrace.trace.graph import Graph


def _cpu() -> Device:
    def load() -> type[Device]:
        from ftrace.devices.llvm.device import CPU

        return CPU

    return importing(load)()


def _interpreter() -> Device:
    from ftrace.devices.interpreter.device import Interpreter

    return Interpreter()


def _opencl() -> Device:
    from ftrace.devices.opencl.device import OpenCL

    return OpenCL()


def lowering() -> Callable[..., Lowered]:
    """`ftrace.lower.lower`: what makes programs of graphs."""

    def load() -> Callable[..., Lowered]:
        from ftrace.lower.lowering import lower

        return lower

    return load() if has_lowered() else importing(load)


def _check_rules(names: frozenset[str]) -> None:
    def load() -> Callable[[frozenset[str]], None]:
        from ftrace.lower.pipeline import check_disabled_rules

        return check_disabled_rules

    check = settings.name_checks["disabled_rules"] = importing(load)
    check(names)


def has_lowered() -> bool:
    """Are the passes loaded already?"""
    return "ftrace.lower.lowering" in sys.modules


def identity_of(graph: Graph, *settings: Any) -> str | None:
    """`ftrace.lower.assembly.serialize.graph_identity`: the name of a graph on disk."""
    from ftrace.lower.assembly.serialize import graph_identity

    return graph_identity(graph, *settings)


def size_of(graph: Graph) -> int:
    """`ftrace.lower.assembly.serialize.size_of_graph`: nodes, with those of bodies."""
    from ftrace.lower.assembly.serialize import size_of_graph

    return size_of_graph(graph)


settings.name_checks["disabled_rules"] = _check_rules
register_device("cpu", _cpu)
register_device("interpreter", _interpreter)
register_device("opencl", _opencl)
