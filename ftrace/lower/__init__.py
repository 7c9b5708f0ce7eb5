"""Lowering: from a graph to a program, stage by stage.

From the ground up:

    analysis         Facts about graphs that several stages ask for: costs, and axes
                     that run in step
    control/         Loops and branches before they become steps of programs
    blocking/        Large values between small ones, a block at a time; reductions and
                     scatters in parts
    kernel/          Kernels as data: expressions over loops, and indices into buffers
    legalize/        What a device lacks is said in operations that it has
    program          Programs as data: steps, and the arena in which their values lie
    fusion/          Which values are stored, and which kernel computes each
    build/           From a group of values to a kernel: movement becomes index
                     arithmetic
    simplify/        Rules that make a graph simpler
    movement/        Movement merges with itself, and goes where it costs nothing
    register_loops/  Small loops become one kernel whose carry stays in registers
    library/         Library operations become kernels, so that no step of a program is
                     Python's
    assembly/        From kernels to a program: in what order, in whose memory, and as
                     text on disk
    spec             What a graph may contain between the stages, and what some of them
                     leave
    make_program     From a graph to its program: what the stages of `PROGRAM` in
                     `pipeline.py` do
    pipeline         All stages of lowering, in their order: from a graph to its program
    lowering         From a graph to its program: what takes graphs through the stages
                     of `pipeline.py`

`pipeline.py` has the table of the stages that make a graph of a graph, and of those
that make its program. `spec.py` describes every graph between the former, and has more
to say of those that `simplify`, `movement` and `split_reductions` leave. The stages are
loaded when somebody asks for them: a process that finds its programs on disk lowers
none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ftrace.lower.lowering import Lowering, lower, simplify_graph

__all__ = ["Lowering", "lower", "simplify_graph"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ftrace.lower' has no attribute {name!r}")
    return getattr(import_module("ftrace.lower.lowering"), name)
