"""Stage 2: movements merge, vanish, and move to where they cost least.

The normal form, from the loads to the outputs:

    loads  ->  shrink, stride, permute, reshape, pad, expand  ->  work  ->  copy

    chains.py     movements next to each other merge or vanish
    exchanges.py  and stand in this order
    pushes.py     past work, all but expand move toward the loads (pad only where zeros
                  give zero), expand and copy toward the outputs
    windows.py    a window slides over a factor, not over the sum of products
    choices.py    and over what is chosen, not over the choice

Every rule brings a graph nearer to this form and none leads away, so that rewriting
ends: each moves one operation past another that must stand above it, or makes the
graph smaller.
"""

from __future__ import annotations

from typing import Final

from ftrace.lower.chains import CHAINS
from ftrace.lower.choices import CHOICES
from ftrace.lower.exchanges import EXCHANGES
from ftrace.lower.pushes import PUSHES
from ftrace.lower.windows import WINDOWS
from ftrace.trace.rewrite import PatternMatcher

MOVEMENT: Final = PatternMatcher((*CHAINS, *EXCHANGES, *PUSHES, *WINDOWS, *CHOICES))
