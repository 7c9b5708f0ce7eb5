"""How exact functions are that are composed of others: what accuracy.md promises.

Units in the last place: the greatest error seen, rounded up, against 45 digits. The
tests hold the functions to it.
"""

from __future__ import annotations

from typing import Final

#: For each function where the bounds hold, and those of float32 and float64.
OF_COMPOSITIONS: Final[dict[str, tuple[str, float, float]]] = {
    "i0": ("everywhere", 3.3, 2.9), "i1": ("everywhere", 3.3, 2.9),
    "i0e": ("everywhere", 3.6, 2.8), "i1e": ("everywhere", 3.2, 2.6),
    "ndtr": ("everywhere", 1.9, 1.9), "ndtri": ("everywhere", 3.2, 3.9),
    "log_ndtr": ("everywhere", 2.4, 2.6), "logit": ("everywhere", 1.6, 1.6),
    "entr": ("everywhere", 1.6, 1.6), "rel_entr": ("everywhere", 2.2, 2.2),
    "kl_div": ("everywhere", 3.9, 3.7),
    "xlogy": ("everywhere", 1.6, 1.6), "xlog1py": ("everywhere", 1.6, 1.6),
    "sinc": ("everywhere", 2.4, 2.4),
    "logaddexp": ("x, y > 0", 1.2, 1.2), "hypot": ("everywhere", 1.8, 1.8),
    "zeta": ("x > 1", 4.0, 3.0), "zeta(x, q)": ("1 < x < 20, q < 50", 9.9, 9.9),
    "polygamma(1)": ("x > 0", 3.6, 3.6), "polygamma(4)": ("x > 0", 6.0, 6.0),
    "gamma": ("0 < x < 26", 3.9, 3.9), "factorial": ("0 < x < 25", 4.0, 4.0),
    "betaln": ("x > 1, y > 10", 3.5, 3.5),
    "gammainc": ("0.05 < a < 60, a/2 < x < 2a", 12.0, 12.0),
    "gammaincc": ("0.05 < a < 60, a/2 < x < 2a", 48.0, 48.0),
    "betainc": ("0.2 < a, b < 10, 0.05 < x < 0.95", 110.0, 125.0),
    "expi": ("x < 0, 1/2 < x < 80", 10.0, 30.0), "exp1": ("x < 80", 10.0, 36.0),
    "expn": ("n < 30, x < 60", 9.0, 56.0),
    "sici": ("Si, x < 100", 2.0, 4.5), "fresnel": ("S, x < 30", 3.5, 3.5),
    "dawsn": ("everywhere", 4.5, 3.5), "erfcx": ("x > -4", 4.5, 4.5),
    "spence": ("0.001 < x < 1000", 2.0, 2.2),
    "owens_t": ("-3 < h < 3, 0.1 < a < 5", 12.0, 18.0),
    "hyp1f1": ("0.1 < a, b < 5, -10 < x < 20", 70.0, 95.0),
    "hyp2f1": ("0.1 < a, b, c < 5, -3 < x < 0.88", 110.0, 300.0),
    "softplus": ("everywhere", 1.5, 1.3), "log_sigmoid": ("everywhere", 1.5, 1.3),
    "silu": ("everywhere", 3.1, 2.8), "mish": ("everywhere", 2.5, 2.5),
    "elu": ("everywhere", 1.4, 1.5), "log1mexp": ("everywhere", 1.9, 1.9),
    "squareplus": ("everywhere", 2.4, 2.4),
    "gelu": ("x > -3", 9.9, 9.9), "gelu(approximate=False)": ("x > -3", 12.0, 12.0),
}  # fmt: skip

# How exact functions are that add up many numbers.
#
# Units of rounding (2⁻²⁴ in float32, 2⁻⁵³ in float64) of the sum of the magnitudes of
# all terms, or of the greatest result: the greatest error seen, rounded up, of a
# million terms and fewer, compiled or not.

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
