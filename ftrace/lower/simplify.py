"""Stage 1: rules that make the graph smaller, and rules that split large reduces.

The rules stand in order of what they are about:

    constants.py   what is known becomes a constant
    algebra.py     identities of arithmetic
    logic.py       identities of truth values, bits, comparisons, selects, casts
    reduces.py     reductions merge and lose axes; large ones are split
"""

from __future__ import annotations

from typing import Final

from ftrace.lower.algebra import ALGEBRA
from ftrace.lower.constants import CONSTANTS
from ftrace.lower.logic import LOGIC
from ftrace.lower.reduces import REDUCES, SPLITS
from ftrace.trace.rewrite import PatternMatcher

SIMPLIFY: Final = PatternMatcher((*CONSTANTS, *ALGEBRA, *LOGIC, *REDUCES))

#: Runs last: `merge_reduces` would undo it.
SPLIT: Final = PatternMatcher(SPLITS)
