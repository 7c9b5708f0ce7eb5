"""Lengths of Fourier transforms: into which steps they go, and into which matrices."""

from __future__ import annotations

from functools import cache
from math import isqrt

#: By how many one step of a transform divides its length; 2 comes in pairs first. With
#: none beyond 7, chirps take 1.3 to 12 times as long: 1001, 61 and 4433 were measured.
RADICES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
#: What a step costs for each number, about: others cost one more than they divide by.
_COSTS = {2: 3.0, 3: 4.5, 4: 4.0}


def is_power(size: int) -> bool:
    """Is it a power of two?"""
    return not size & (size - 1)


def power_from(size: int) -> int:
    """The least power of two that is no less."""
    return 1 << (size - 1).bit_length()


def power_within(size: int) -> int:
    """The greatest power of two that is no more."""
    return 1 << (size.bit_length() - 1)


def is_smooth(size: int) -> bool:
    """Is it a product of the numbers that steps divide by?"""
    for radix in RADICES:
        while size % radix == 0:
            size //= radix
    return size == 1


@cache
def stages_of(size: int) -> tuple[tuple[int, int], ...]:
    """The steps of a transform: by how many each divides, and what has been so far."""
    found: list[tuple[int, int]] = []
    done = 1
    while done < size:
        left = size // done
        radix = 4 if left % 4 == 0 else min(r for r in RADICES if left % r == 0)
        found.append((radix, done))
        done *= radix
    return tuple(found)


@cache
def smooth_from(size: int) -> int:
    """The length of least work that is no less: two of them are a convolution."""
    lengths = filter(is_smooth, range(size, power_from(size) + 1))
    return min(
        lengths, key=lambda n: n * sum(_COSTS.get(r, r + 1) for r, _ in stages_of(n))
    )


@cache
def matrix_of(size: int, most: int) -> tuple[int, int]:
    """The form of a long row as a matrix: no more rows than `most`, nor than columns.

    It is as square as the divisors of the length allow.
    """
    rows = range(min(isqrt(size), most), 0, -1)
    found = next(n for n in rows if size % n == 0)
    return found, size // found
