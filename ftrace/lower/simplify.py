"""Stage 1: rules that make the graph smaller, and rules that make it parallel.

    constants.py   what is known becomes a constant
    algebra.py     identities of elementwise operations
    reduces.py     reductions merge, lose axes, and are split where they are large
"""

from __future__ import annotations

from typing import Final

from ftrace.lower.algebra import ALGEBRA
from ftrace.lower.constants import CONSTANTS
from ftrace.lower.reduces import REDUCES, SPLITS
from ftrace.trace.rewrite import PatternMatcher

SIMPLIFY: Final = PatternMatcher((*CONSTANTS, *ALGEBRA, *REDUCES))

#: Run last: it undoes what `merge_reduces` does.
SPLIT: Final = PatternMatcher(SPLITS)
