"""Lowering: from a graph to a program, stage by stage.

    0 calls      functions take the place of calls        trace/calls/inline.py
      control    loops as a whole; as programs run them   loops, control; fission,
                                                          each_lane
    1 simplify   rewrites that make the graph smaller     simplify; algebra, constants,
                                                          logic, reduces, onehot,
                                                          scatters, finite, compounds
    2 movement   movement merges, and moves to the loads  movement; chains, pushes,
                                                          exchanges, windows, choices
      slices     large values between small ones, a       slices; regions, region,
                 block at a time                          alignment, cuts
      registers  small loops become one kernel            registers, recurrence,
                                                          scalarize, elements
      kernels    instead of calls of the host             running, extrema, ordering,
                                                          factors, decompositions,
                                                          fourier, fourier_kernel,
                                                          fourier_lengths
      sums       beside work on their rows; in parts      split_reductions, across
    3 schedule   what is stored, and by which kernel      schedule; plan, inlining,
                                                          hosts, precedence, drafts
    4 index      movement becomes index arithmetic        index, build; view,
                                                          positions, expressions,
                                                          scalars, boards, ranges,
                                                          isomorphic
    5 loops      expressions take their place in loops    place
    6 memory     values share an arena                    memory; inplace, order
    7 program    steps in order                           assemble; kernel, step,
                                                          program

What stages ask of a value is in `values.py`; formulas of users in `users.py`. Devices
make kernels legal (`legalize`, `math`, `rendering`, `sizes`); programs are kept on disk
as text (`serialize`).

`pipeline.py` has the list of the stages up to 2, of which each leaves a graph that
`spec.py` describes; `lowering.py` goes on to the program. The stages are loaded when
somebody asks for them: a process that finds its programs on disk lowers none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ftrace.lower.lowering import Lowered, lower
    from ftrace.lower.pipeline import rule_names, simplify_graph

__all__ = ["Lowered", "lower", "rule_names", "simplify_graph"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ftrace.lower' has no attribute {name!r}")
    module = "lowering" if name in ("Lowered", "lower") else "pipeline"
    return getattr(import_module(f"ftrace.lower.{module}"), name)
