"""Lowering: from a graph to a program, stage by stage.

    0 calls      functions take the place of calls        trace/calls/inline.py
      control    loops as a whole; as programs run them   loops, control; fission
    1 simplify   rewrites that make the graph smaller     algebra, constants, logic,
                                                          reduces, onehot, scatter,
                                                          compounds
    2 movement   movement merges, and moves to the loads  chains, push_through,
                                                          sliding_window_sums
      sums       in steps, beside work on their rows      split_reductions
      slices     large values between small ones, a       find_regions, tile_regions,
                 block at a time                          alignment
      registers  small loops become one kernel            promote_loops, recurrence,
                                                          scalar_elements
      kernels    instead of calls of the host             scan_kernels, ordering,
                                                          lapack_kernels, fft_kernels,
                                                          fourier_lengths
    3 schedule   what is stored, and by which kernel      schedule; drafts,
                                                          merge_policy
    4 index      movement becomes index arithmetic        index, positions, index_view,
                                                          build_kernel, finite
    5 loops      expressions take their place in loops    place
    6 memory     values share an arena                    memory, buffer_reuse
    7 program    steps in order                           lowering; kernel, program

What stages ask of a value is in `values.py`; formulas of users in `users.py`. Devices
make kernels legal (`legalize`, `math`, `rendering`); programs are kept on disk as text
(`serialize`).

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
