"""How exact functions are that add up many numbers.

Units of rounding (2⁻²⁴ in float32, 2⁻⁵³ in float64) of the sum of the magnitudes of all
terms, or of the greatest result: the greatest error seen, rounded up, of a million
terms and fewer, compiled or not.
"""

from __future__ import annotations

from typing import Final

#: For numbers whose roundings have nothing to do with each other.
OF_SUMS: Final[dict[str, float]] = {
    "sum": 12, "mean": 12, "nansum": 12, "nanmean": 12, "average": 14, "trapezoid": 14,
    "var": 14, "std": 10, "nanvar": 14, "nanstd": 10, "norm": 10, "cov": 30,
    "dot": 12, "vecdot": 12, "einsum('ij->j')": 12, "einsum('ij,ij->j')": 12,
    "logsumexp": 8, "softmax": 20, "log_softmax": 12, "standardize": 30,
    "reduce": 12, "reduce_window": 12,
}  # fmt: skip

#: Of equal numbers the roundings of one running sum are all alike. So many are seen,
#: and never more than there are terms.
OF_EQUAL_TERMS: Final = 300

#: In these each term meets the total of all before it: no more roundings than terms.
ONE_BY_ONE: Final = (
    "cumsum", "cumulative_sum", "segment_sum", "bincount", "x.at[i].add",
    "products of matrices",
)  # fmt: skip
