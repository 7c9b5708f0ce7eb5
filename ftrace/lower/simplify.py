"""Stage 1: rules that make the graph smaller, and rules that split large reduces.

The rules stand in order of what they are about:

    constants.py   what is known becomes a constant
    algebra.py     identities of arithmetic
    logic.py       identities of truth values, bits, comparisons, selects, casts
    onehot.py      sums that pick one element are indexed loads
    scatters.py    gathers of all in order, scatters without collisions or of complex
    reduces.py     reductions merge and lose axes
    split_reductions.py  large ones are done in steps
    boards.py      scatters of many updates to few places are split
"""

from __future__ import annotations

from typing import Final

from ftrace.lower.algebra import ALGEBRA
from ftrace.lower.boards import BOARDS
from ftrace.lower.constants import CONSTANTS
from ftrace.lower.logic import LOGIC
from ftrace.lower.onehot import ONE_HOT
from ftrace.lower.reduces import REDUCES
from ftrace.lower.scatters import SCATTERS
from ftrace.lower.split_reductions import SPLITS
from ftrace.trace.rewrite import PatternMatcher

SIMPLIFY: Final = PatternMatcher(
    (*CONSTANTS, *ALGEBRA, *LOGIC, *ONE_HOT, *SCATTERS, *REDUCES)
)

#: Runs last: `merge_reduces` would undo it.
SPLIT: Final = PatternMatcher((*SPLITS, *BOARDS))
