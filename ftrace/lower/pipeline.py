"""All stages of lowering, in their order: from a graph to its program.

    DEVICE_INDEPENDENT   a graph of a graph. What these leave is the graph that people
                         are shown, and the body of which it is asked whether it fits
                         into registers
    DEVICE_SPECIFIC      likewise, but what depends on the device, or looks for work
                         that others have left whole
    PROGRAM              the program of that graph

`lowering.py` takes graphs through them. The code of kernels is the devices'.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.limits import Limits
from ftrace.lower import make_program
from ftrace.lower.assembly import assemble, overlap
from ftrace.lower.blocking import privatize_scatters, split_reductions, tile_regions
from ftrace.lower.build import index_view, relax_mul_zero
from ftrace.lower.control import canonical_loop, simplify_loops
from ftrace.lower.fusion import plan_fusion
from ftrace.lower.library import fft_kernels, lapack_kernels, library_table
from ftrace.lower.make_program import LoweringState
from ftrace.lower.movement import reorder, sliding_window_sums
from ftrace.lower.register_loops import promote_loops
from ftrace.lower.simplify import algebra, indexing
from ftrace.trace.calls.inline import inline_calls
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.exchange import exchange_p, lower_exchange
from ftrace.trace.primitives.movement import permute_p
from ftrace.trace.primitives.reduction import reduce_prod_p
from ftrace.trace.rewrite import PatternMatcher


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage that makes a graph of a graph.

    Attributes:
      name: for people, and in `SPECS` (`spec.py`), which says of some what they leave.
      about: what it does, in a sentence.
      make: rules; or a table, of operations and what makes others of them (`convert`);
        or a function of the outputs and the limits.
      decisions: what `config.disabled_rules` can switch off in it, and what that does.
        Where all are off, the graph stays as it is.
      needs: what a device has that needs it; of others it is left out.
      of: operations without which there is nothing to do; () is any graph.
      bodies: the rules of its table take also what simplifies a body, first.
    """

    name: str
    about: str
    make: PatternMatcher | dict[Any, Any] | Callable[..., Sequence[Node]]
    decisions: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: Callable[[Limits], object] = lambda limits: True
    of: Collection[Any] = ()
    bodies: bool = False


@dataclass(frozen=True, eq=False)
class ProgramStage:
    """A stage that adds to what is known of a graph's program; see `Stage`."""

    name: str
    about: str
    make: Callable[[LoweringState], LoweringState]
    decisions: Mapping[str, str]


SIMPLIFY: Final = PatternMatcher((
    *algebra.CONSTANTS, *algebra.ALGEBRA, *algebra.LOGIC,
    *indexing.ONE_HOT, *indexing.SCATTERS, *algebra.REDUCES,
))  # fmt: skip
#: The normal form, from the loads to the outputs:
#:
#:     loads  ->  shrink, stride, permute, reshape, pad, expand  ->  work  ->  copy
#:
#: Every rule brings a graph nearer to this form and none leads away, so that rewriting
#: ends: each moves one operation past another that must stand above it, or makes the
#: graph smaller.
MOVEMENT: Final = PatternMatcher((
    *reorder.CHAINS, *reorder.EXCHANGES, *reorder.PUSHES,
    *sliding_window_sums.WINDOWS, *sliding_window_sums.CHOICES,
))  # fmt: skip
#: Runs after `SIMPLIFY`, whose `merge_reduces` would undo it, and `tile_regions`: a sum
#: in which a large value ends runs slice by slice; parts of it would store that value.
SPLIT_REDUCTIONS: Final = PatternMatcher((
    *split_reductions.RULES, *privatize_scatters.RULES,
))  # fmt: skip


def _inline(outputs: Sequence[Node], limits: Limits) -> Sequence[Node]:
    """Reaches into bodies as well, which begin with the stages after it."""
    return inline_calls(outputs)


DEVICE_INDEPENDENT: Final = (
    Stage("calls", "calls become what they call", _inline),
    Stage(
        "ranks", "what all have alike is not told to them, what they send lies in rows",
        {exchange_p: lower_exchange},
    ),
    Stage(
        "loops", "loops and branches lose what they need not",
        simplify_loops.simplify_loops, simplify_loops.DECISIONS,
        of=simplify_loops.CONTROL,
    ),
    Stage("control", "loops of all kinds become one kind", canonical_loop.LOOPS),
    Stage(
        "compounds", "operations of linear algebra become several smaller ones",
        library_table.COMPOUNDS, lapack_kernels.COMPOSITION_DECISIONS,
    ),
    Stage(
        "complex_products", "products of complex numbers are those of halves",
        {reduce_prod_p: algebra.multiply_complex},
    ),
    Stage("simplify", "algebra, constants, sums over equal elements", SIMPLIFY),
    Stage(
        "movement", "views merge, vanish, and move to where they cost least",
        SIMPLIFY + MOVEMENT,
    ),
)  # fmt: skip


DEVICE_SPECIFIC: Final = (
    Stage(
        "tile_regions", "what does not fit into the cache is computed slice by slice",
        tile_regions.in_slices, tile_regions.DECISIONS, lambda has: has.cache,
    ),
    Stage(
        "split_reductions", "long reductions in parts, for many threads, by rules",
        SPLIT_REDUCTIONS,
    ),
    Stage(
        "registers", "small loops become one kernel that keeps its values in registers",
        {canonical_loop.loop_p: promote_loops.by_recurrence}, promote_loops.DECISIONS,
        lambda has: has.recurrences, bodies=True,
    ),
    Stage(
        "library", "sorts, factorizations, running sums become kernels",
        library_table.LIBRARY | {permute_p: fft_kernels.merge_permutations},
        library_table.DECISIONS, lambda has: has.recurrences, library_table.LIBRARY,
    ),
    Stage(
        "block_sums", "where there are caches: sums in blocks, for threads or kernels",
        split_reductions.block_sums, split_reductions.DECISIONS,
        lambda has: has.cache, (reduce_sum_p,),
    ),
)  # fmt: skip

PROGRAM: Final = (
    ProgramStage(
        "fusion", "what is stored, by which kernel",
        make_program.choose_stores, plan_fusion.DECISIONS,
    ),
    ProgramStage(
        "kernels", "movement becomes index arithmetic",
        make_program.build_kernels, index_view.DECISIONS | relax_mul_zero.DECISIONS,
    ),
    ProgramStage(
        "memory", "values take the place of dead ones",
        make_program.share_memory, assemble.DECISIONS,
    ),
    ProgramStage(
        "code", "steps in order, all values in one arena",
        make_program.assemble_steps, overlap.DECISIONS,
    ),
)  # fmt: skip

PIPELINE: Final = (*DEVICE_INDEPENDENT, *DEVICE_SPECIFIC, *PROGRAM)
