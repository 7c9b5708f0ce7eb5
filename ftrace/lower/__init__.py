"""Lowering: from a graph to a program, stage by stage.

    0 calls      functions take the place of calls          trace/calls/inline.py
      control    loops as a whole; as programs run them     loops.py, control.py
    1 simplify   rewrites that make the graph smaller       simplify.py
    2 movement   movement merges, and moves to the loads    movement.py
      slices     large values between small ones in blocks  regions.py, slices.py
    registers  small loops become one kernel              registers.py
      sums       sums of rows beside work on the rows       beside.py
    3 schedule   what is stored, and by which kernel        schedule.py, hosts.py
    4 index      movement becomes index arithmetic          index.py, build.py
    5 loops      expressions take their place in loops      place.py
    6 memory     values share an arena                      memory.py
    7 program    steps in order                             assemble.py

`PASSES` is the list of the first two; each leaves a graph that `spec.py` describes.
The stages are put together in lowering.py, which is loaded when somebody asks for it:
a process that finds its programs on disk lowers none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ftrace.lower.lowering import (
        PASSES,
        Lowered,
        build_step,
        check_disabled_rules,
        host_as_kernels,
        lower,
        lower_body,
        rule_names,
        simplified_outputs,
        simplify_graph,
    )

__all__ = [
    "PASSES",
    "Lowered",
    "build_step",
    "check_disabled_rules",
    "host_as_kernels",
    "lower",
    "lower_body",
    "rule_names",
    "simplified_outputs",
    "simplify_graph",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ftrace.lower' has no attribute {name!r}")
    return getattr(import_module("ftrace.lower.lowering"), name)
