"""Which kernels run before which, while it is still being decided what they store.

A kernel's *rank* is the length of the longest way from it to one that nobody reads.
It falls along every way, so that a search need not follow what lies too low, or too
high; and one from both ends is over when either comes to its end.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Kernels of which it is known at once that they run after others.
NEAR = 64


class Precedence:
    """Edges between kernels, by their numbers: one stores what the other reads."""

    def __init__(self) -> None:
        self._after: dict[int, set[int]] = {}
        self._before: dict[int, set[int]] = {}
        self._rank: dict[int, int] = {}
        self._soon: dict[frozenset[int], set[int]] = {}  # until the next `add`

    def add(self, kernel: int, readers: Iterable[int] = ()) -> None:
        """Notes that `readers` read what a kernel stores; no way leads back to it."""
        self._soon.clear()
        after = self._after.setdefault(kernel, set())
        self._before.setdefault(kernel, set())
        for reader in readers:
            after.add(reader)
            self._before.setdefault(reader, set()).add(kernel)
        pending = [kernel]
        while pending:
            raised = pending.pop()
            readers_of = self._after.get(raised, ())
            rank = 1 + max((self._rank.get(r, 0) for r in readers_of), default=-1)
            if rank > self._rank.get(raised, -1):
                self._rank[raised] = rank
                pending.extend(self._before[raised])

    def soon_after(self, kernels: Iterable[int]) -> set[int]:
        """These kernels, and the next ones of those before which one of them runs."""
        own = frozenset(kernels)
        known = self._soon.get(own)
        if known is not None:
            return known
        found = self._soon[own] = set(own)
        pending = list(found)
        for kernel in pending:  # grows
            if len(found) >= NEAR:
                break
            for after in self._after[kernel]:
                if after not in found:
                    found.add(after)
                    pending.append(after)
        return found

    def is_before(self, kernels: Iterable[int], target: int) -> bool:
        """Does a kernel of these run before `target`, or is it one of them?"""
        ranks, low = self._rank, self._rank[target]
        ahead = {k for k in kernels if ranks[k] > low or k == target}
        if target in ahead:
            return True
        behind = {target}
        forward, backward = list(ahead), [target]
        high = max((ranks[k] for k in ahead), default=0)
        while forward and backward:
            for after in self._after[forward.pop()]:
                if after in behind:
                    return True
                if ranks[after] > low and after not in ahead:
                    ahead.add(after)
                    forward.append(after)
            for before in self._before[backward.pop()]:
                if before in ahead:
                    return True
                if ranks[before] < high and before not in behind:
                    behind.add(before)
                    backward.append(before)
        return False
