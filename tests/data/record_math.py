"""Records what mpmath gives for the functions of `lower/legalize` in float64.

    python tests/data/record_math.py

Needs mpmath; wrote `math.npz` with mpmath 1.3.0 at 60 digits. For each function: the
arguments, the values rounded to float64, and what that rounding lost, in units in the
last place of the value.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

PATH = Path(__file__).with_name("math.npz")
COUNT = 160

Array = np.ndarray[Any, Any]
_rng = np.random.default_rng(2024)


def _wide(low: float, high: float, signs: bool = True) -> Array:
    """Numbers whose logarithms are spread evenly."""
    x = np.exp(_rng.uniform(np.log(low), np.log(high), COUNT // 2))
    return x * _rng.choice([-1.0, 1.0], x.size) if signs else x


def _even(low: float, high: float) -> Array:
    return _rng.uniform(low, high, COUNT // 2)


def _both(*parts: Array) -> Array:
    return np.concatenate(parts)


def _logistic(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _cbrt(x: Any) -> Any:
    return mp.cbrt(x) if x >= 0 else -mp.cbrt(-x)


def _lgamma(x: Any) -> Any:
    return mp.log(abs(mp.gamma(x)))


#: The function in mpmath, and its arguments.
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "exp": (mp.exp, (_both(_wide(1e-9, 700), _even(-744, -700)),)),
    "exp2": (lambda x: mp.power(2, x), (_both(_wide(1e-9, 1000), _even(-1074, 1023)),)),
    "expm1": (mp.expm1, (_both(_wide(1e-20, 700), _even(-2, 2)),)),
    "log": (mp.log, (_both(_wide(1e-320, 1e308, False), _even(0.5, 2)),)),
    "log2": (
        lambda x: mp.log(x) / mp.log(2),
        (_both(_wide(1e-320, 1e308, False), _even(0.5, 2)),),
    ),
    "log1p": (mp.log1p, (_both(_wide(1e-20, 1e300, False), _even(-0.99, 2)),)),
    "sin": (mp.sin, (_both(_wide(1e-9, 1e300), _even(-50, 50)),)),
    "cos": (mp.cos, (_both(_wide(1e-9, 1e300), _even(-50, 50)),)),
    "tan": (mp.tan, (_both(_wide(1e-9, 1e300), _even(-50, 50)),)),
    "asin": (mp.asin, (_both(_wide(1e-20, 1), _even(-1, 1)),)),
    "acos": (mp.acos, (_both(_wide(1e-20, 1), _even(-1, 1)),)),
    "atan": (mp.atan, (_both(_wide(1e-20, 1e20), _even(-3, 3)),)),
    "sinh": (mp.sinh, (_both(_wide(1e-20, 710), _even(-3, 3)),)),
    "cosh": (mp.cosh, (_both(_wide(1e-9, 710), _even(-3, 3)),)),
    "tanh": (mp.tanh, (_both(_wide(1e-20, 20), _even(-2, 2)),)),
    "asinh": (mp.asinh, (_both(_wide(1e-20, 1e300), _even(-3, 3)),)),
    "acosh": (mp.acosh, (_both(1 + _wide(1e-12, 1e300, False), _even(1, 3)),)),
    "atanh": (mp.atanh, (_both(_wide(1e-20, 1), _even(-1, 1)),)),
    "erf": (mp.erf, (_both(_wide(1e-20, 6), _even(-3, 3)),)),
    "erfc": (mp.erfc, (_both(_wide(1e-9, 27), _even(-3, 6)),)),
    "erf_inv": (
        mp.erfinv,
        (_both(1 - _wide(1e-15, 0.5, False), _even(-1, 1)),),
    ),
    "lgamma": (_lgamma, (_both(_wide(1e-20, 1e100, False), _even(0, 10)),)),
    "digamma": (lambda x: mp.psi(0, x), (_both(_wide(1e-9, 1e9, False), _even(0, 9)),)),
    "logistic": (_logistic, (_both(_wide(1e-9, 700), _even(-20, 20)),)),
    "cbrt": (_cbrt, (_both(_wide(1e-320, 1e308), _even(-10, 10)),)),
    "rsqrt": (
        lambda x: 1 / mp.sqrt(x),
        (_both(_wide(1e-320, 1e308, False), _even(0, 10)),),
    ),
    "pow": (
        lambda x, y: mp.power(x, y),
        (_both(_wide(1e-250, 1e250, False), _even(0.5, 2)),
         _both(_even(-1.2, 1.2), _even(-900, 900))),
    ),
    "atan2": (
        mp.atan2,
        (_both(_wide(1e-20, 1e20), _even(-2, 2)),
         _both(_wide(1e-20, 1e20), _even(-2, 2))),
    ),
}  # fmt: skip


def record() -> dict[str, Array]:
    mp.mp.dps = 60
    found: dict[str, Array] = {}
    for name, (function, arguments) in FUNCTIONS.items():
        exact = [
            function(*(mp.mpf(float(x)) for x in xs))
            for xs in zip(*arguments, strict=True)
        ]
        values = np.array([float(y) for y in exact])
        unit = np.spacing(np.abs(values))
        lost = [
            float((y - mp.mpf(float(v))) / mp.mpf(float(u)))
            for y, v, u in zip(exact, values, unit, strict=True)
        ]
        found[f"{name}/arguments"] = np.stack(arguments)
        found[f"{name}/values"] = values
        found[f"{name}/lost"] = np.array(lost, np.float32)
    return found


if __name__ == "__main__":
    np.savez_compressed(PATH, **record())  # type: ignore[arg-type]
