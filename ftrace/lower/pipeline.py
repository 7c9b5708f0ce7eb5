"""The stages of lowering, in one list. Each makes a graph of a graph.

    for stage in PIPELINE: outputs = stage(outputs, limits)

Those of the graph of a program are also those of the bodies of its loops. Stages that
need nothing of a device come first: what they leave is the graph that people are shown,
and the body of which it is asked whether it fits into registers. The last stages make
the program of the graph: see `lowering.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final

from ftrace.errors import ArgumentError, GraphError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.limits import ANY_DEVICE, Limits
from ftrace.ground.tables import memo
from ftrace.lower.assembly import buffer_reuse
from ftrace.lower.blocking import split_reductions, tile_regions
from ftrace.lower.build import index_view, relax_mul_zero
from ftrace.lower.control import canonical_loop, simplify_loops
from ftrace.lower.kernel import codegen_options
from ftrace.lower.library import fft_kernels, lapack_kernels, scan_kernels, sort_kernels
from ftrace.lower.movement.reorder import CHAINS, EXCHANGES, PUSHES
from ftrace.lower.movement.sliding_window_sums import CHOICES, WINDOWS
from ftrace.lower.register_loops import promote_loops
from ftrace.lower.schedule import schedule as scheduling
from ftrace.lower.simplify.fold_constants import CONSTANTS
from ftrace.lower.simplify.identities import ALGEBRA, LOGIC
from ftrace.lower.simplify.indexing import ONE_HOT, PRIVATIZED, SCATTERS
from ftrace.lower.simplify.reductions import REDUCES
from ftrace.lower.spec import GRAPH_SPEC, check_after
from ftrace.trace.graph import Body, Node, has_any
from ftrace.trace.graph_map import Rule, convert
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.library.fft import fft_p
from ftrace.trace.primitives.library.scan import extremum_tangent_p
from ftrace.trace.primitives.movement import permute_p
from ftrace.trace.python_limits import without_collection
from ftrace.trace.rewrite import RULE_NAMES, PatternMatcher, rewrite
from ftrace.trace.symbolic.dim import same_size


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of lowering.

    Attributes:
      name: for people, and of what holds after it (`spec.py`).
      make: rules; or a table, of operations and what makes others of them (`convert`);
        or a function of the outputs and the limits. None: it is no stage of graphs.
      decisions: what `config.disabled_rules` can switch off in it, and what that does.
        It is left out where all are off.
      needs: the limit without which it is left out.
      of: operations without which there is nothing to do; () is any graph.
    """

    name: str
    make: PatternMatcher | dict[Any, Rule] | Callable[..., Sequence[Node]] | None
    decisions: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: str = ""
    of: Collection[Any] = ()

    def __call__(self, outputs: Sequence[Node], limits: Limits) -> Sequence[Node]:
        make = self.make
        if make is None or (self.needs and not getattr(limits, self.needs)):
            return outputs
        if self.of and not has_any(outputs, self.of):
            return outputs
        disabled = settings.current().disabled_rules
        if disabled and self.decisions and disabled.issuperset(self.decisions):
            return outputs
        if callable(make):
            return make(outputs, limits)
        rules = isinstance(make, PatternMatcher)
        return rewrite(outputs, make) if rules else convert(outputs, make)


def simplified_body(body: Body) -> Sequence[Node]:
    """What a body returns, after the stages that need nothing of a device."""
    chosen = settings.current()
    return _simplified(body, chosen.disabled_rules, chosen.check_specs)


@memo(32)  # a loop that is too large for registers asks again
def _simplified(body: Body, disabled: frozenset[str], check: bool) -> Sequence[Node]:
    return simplify_graph(body.outputs)


#: Rules that make the graph smaller.
SIMPLIFY: Final = PatternMatcher(
    (*CONSTANTS, *ALGEBRA, *LOGIC, *ONE_HOT, *SCATTERS, *REDUCES)
)
#: Movements merge, vanish, and move to where they cost least. The normal form,
#: from the loads to the outputs:
#:
#:     loads  ->  shrink, stride, permute, reshape, pad, expand  ->  work  ->  copy
#:
#: Every rule brings a graph nearer to this form and none leads away, so that rewriting
#: ends: each moves one operation past another that must stand above it, or makes the
#: graph smaller.
MOVEMENT: Final = PatternMatcher((*CHAINS, *EXCHANGES, *PUSHES, *WINDOWS, *CHOICES))
#: Runs when the graph is simple: `merge_reduces` would undo it.
SPLIT: Final = PatternMatcher((*split_reductions.SPLITS, *PRIVATIZED))

LOOPS: dict[Any, Rule] = {
    canonical_loop.loop_p: partial(promote_loops.by_recurrence, simplified_body)
}
#: Library operations, and what makes kernels of them.
LIBRARY: dict[Any, Rule] = {
    extremum_tangent_p: scan_kernels.tangent_by_kernels,
    **dict.fromkeys(scan_kernels.OPERATORS, scan_kernels.by_kernels),
    **dict.fromkeys(lapack_kernels.FACTORS, lapack_kernels.by_kernels),
    **dict.fromkeys(sort_kernels.SORTS, sort_kernels.by_kernels),
    fft_p: fft_kernels.by_kernels,
}

PIPELINE = (
    Stage(
        "loops", simplify_loops.simplify_loops, simplify_loops.DECISIONS,
        of=simplify_loops.CONTROL,
    ),
    Stage("control", canonical_loop.LOOPS),
    Stage("compounds", lapack_kernels.PARTS, lapack_kernels.PARTS_DECISIONS),
    Stage("simplify", SIMPLIFY),
    Stage("movement", SIMPLIFY + MOVEMENT),
    Stage("split", SPLIT),
    Stage("slices", tile_regions.in_slices, tile_regions.DECISIONS, "cache"),
    Stage("registers", LOOPS, promote_loops.DECISIONS, "recurrences"),
    Stage(
        "library", LIBRARY | {permute_p: fft_kernels.permuted_twice},
        scan_kernels.DECISIONS | lapack_kernels.DECISIONS
        | sort_kernels.DECISIONS | fft_kernels.DECISIONS,
        "recurrences", LIBRARY,
    ),
    Stage(
        "sums", split_reductions.sums_in_steps, split_reductions.DECISIONS, "cache",
        (reduce_sum_p,),
    ),
    # Those of the program and of its code.
    Stage("schedule", None, scheduling.DECISIONS),
    Stage("kernels", None, index_view.DECISIONS | relax_mul_zero.DECISIONS),
    Stage("memory", None, buffer_reuse.DECISIONS),
    Stage("code", None, codegen_options.DECISIONS),
)  # fmt: skip


@without_collection
def run_stages(
    outputs: Sequence[Node], limits: Limits, stages: Iterable[Stage] = PIPELINE
) -> Sequence[Node]:
    """The outputs after some stages."""
    check = settings.current().check_specs
    if check:
        GRAPH_SPEC.check(outputs)
    for stage in stages:
        before, outputs = outputs, stage(outputs, limits)
        if check and outputs is not before:
            check_after(stage.name, outputs)
            for old, new in zip(before, outputs, strict=True):
                if not same_size(old.shape, new.shape) or old.dtype != new.dtype:
                    raise GraphError(f"{stage.name} turned {old!r} into {new!r}")
    return outputs


def simplify_graph(outputs: Sequence[Node]) -> Sequence[Node]:
    """The outputs after all stages that need nothing of a device."""
    return run_stages(outputs, ANY_DEVICE, [s for s in PIPELINE if not s.needs])


def suit_device(outputs: Sequence[Node], limits: Limits) -> Sequence[Node]:
    """The outputs after the stages that come behind `simplify_graph`."""
    return run_stages(outputs, limits, [s for s in PIPELINE if s.needs])


def rule_names() -> frozenset[str]:
    """The names that `config.disabled_rules` may hold: rules and decisions."""
    return frozenset(RULE_NAMES.union(*[stage.decisions for stage in PIPELINE]))


def check_disabled_rules(names: frozenset[str]) -> None:
    """Raises ArgumentError for a name that is no rule's."""
    for name in sorted(names - rule_names()):
        close = difflib.get_close_matches(name, rule_names(), 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(f"disabled_rules: there is no rule {name!r}{hint}")
