"""Records values of the special functions: `python tests/data/record_special.py`.

Computed with 45 digits by mpmath, which only this needs. For each function two arrays,
of float32's numbers and of float64's, with the rows arguments, values, and what the
values lost by rounding in units of their last place.
"""

# mpmath has no types.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp  # pyright: ignore[reportMissingImports]
import numpy as np

mp.mp.dps = 45
COUNTS = {"": (np.float32, 200), "/wide": (np.float64, 80)}


def log_power(low: float, high: float, count: int = 20001) -> Any:
    return np.geomspace(low, high, count)


def even(low: float, high: float, count: int = 20001) -> Any:
    return np.linspace(low, high, count)


def probability(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_probability(x: Any) -> Any:
    return mp.log(probability(x)) if x < 0 else mp.log1p(-probability(-x))


def quantile(p: Any) -> Any:
    x = -mp.sqrt(2) * mp.erfinv(1 - 2 * p)
    for _ in range(2):
        slope = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)
        x -= (probability(x) - p) / slope
    return x


def soft_plus(x: Any) -> Any:
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def hurwitz(s: Any, q: Any) -> Any:
    """mpmath's loses digits where q is large."""
    with mp.workdps(150):
        return mp.zeta(s, q)


def gelu(x: Any) -> Any:
    u = mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)
    return x / (1 + mp.exp(-2 * u))


BESSEL = np.concatenate([log_power(1e-6, 80), even(-85, 85)])
SCALED = np.concatenate([log_power(1e-6, 1e4), even(-20, 20)])
UNIT = np.concatenate([log_power(1e-30, 0.5), even(1e-4, 0.9999)])
WIDE = log_power(1e-20, 1e10)
LINE = even(-80, 80)
SHARES = np.concatenate([log_power(1e-6, 1e3, 3000), even(0.01, 5, 3000)])

ONE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "i0": (lambda x: mp.besseli(0, x), BESSEL),
    "i1": (lambda x: mp.besseli(1, x), BESSEL),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), SCALED),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), SCALED),
    "ndtr": (probability, even(-12.5, 9)),
    "ndtri": (quantile, UNIT),
    "log_ndtr": (log_probability, np.concatenate([even(-45, 12), -WIDE[WIDE > 40]])),
    "logit": (lambda x: mp.log(x / (1 - x)), UNIT),
    "entr": (lambda x: -x * mp.log(x), WIDE),
    "xlog1py": (lambda x: x * mp.log1p(x), WIDE),
    "sinc": (lambda x: mp.sinpi(x) / (mp.pi * x), SCALED[SCALED != 0]),
    "zeta": (mp.zeta, even(1.01, 30)),
    "polygamma(1)": (lambda x: mp.psi(1, x), log_power(1e-2, 1e4)),
    "polygamma(4)": (lambda x: mp.psi(4, x), log_power(1e-2, 1e4)),
    "gamma": (mp.gamma, even(0.01, 26)),
    "factorial": (lambda x: mp.gamma(x + 1), even(0, 25)),
    "softplus": (soft_plus, LINE),
    "log_sigmoid": (lambda x: -soft_plus(-x), LINE),
    "silu": (lambda x: x / (1 + mp.exp(-x)), LINE),
    "mish": (lambda x: x * mp.tanh(soft_plus(x)), LINE),
    "elu": (lambda x: x if x > 0 else mp.expm1(x), LINE),
    "log1mexp": (lambda x: mp.log(-mp.expm1(-x)), log_power(1e-20, 60)),
    "squareplus": (lambda x: (x + mp.sqrt(x * x + 4)) / 2, even(-1000, 1000)),
    "gelu": (gelu, even(-3, 12)),
    "gelu(approximate=False)": (lambda x: x * probability(x), even(-3, 12)),
}
TWO: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "rel_entr": (lambda x, y: x * mp.log(x / y), SHARES, SHARES),
    "kl_div": (lambda x, y: x * mp.log(x / y) - x + y, SHARES, SHARES),
    "xlogy": (lambda x, y: x * mp.log(y), SHARES, SHARES),
    "logaddexp": (
        lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))), even(1, 60), even(1, 60)
    ),
    "hypot": (mp.hypot, log_power(1e-5, 1e5), log_power(1e-5, 1e5)),
    "betaln": (
        lambda x, y: mp.log(mp.beta(x, y)), log_power(1, 1e4), log_power(10, 1e4)
    ),
    "zeta(x, q)": (hurwitz, even(1.2, 20), log_power(1e-2, 50)),
}  # fmt: skip

#: Of the pairs below the second number is given as a multiple of the first.
MULTIPLES = ("gammainc", "gammaincc")
LATER: dict[str, tuple[Any, ...]] = {
    "gammainc": (
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        log_power(0.05, 60), even(0.5, 2),
    ),
    "gammaincc": (
        lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True),
        log_power(0.05, 60), even(0.5, 2),
    ),
    "betainc": (
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        log_power(0.2, 10), log_power(0.2, 10), even(0.05, 0.95),
    ),
    "expi": (mp.ei, np.concatenate([log_power(0.5, 80), -log_power(1e-3, 80)])),
    "exp1": (mp.e1, log_power(1e-6, 80)),
    "expn": (mp.expint, np.arange(1.0, 30), log_power(1e-2, 60)),
    "sici": (mp.si, log_power(1e-3, 100)),
    "fresnel": (mp.fresnels, log_power(1e-3, 30)),
    "dawsn": (lambda x: mp.sqrt(mp.pi) / 2 * mp.erfi(x) * mp.exp(-x * x),
              log_power(1e-3, 30)),
    "erfcx": (lambda x: mp.erfc(x) * mp.exp(x * x), even(-4, 30)),
    "spence": (lambda x: mp.polylog(2, 1 - x), log_power(1e-3, 1e3)),
    "owens_t": (
        lambda h, a: mp.quad(
            lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t),
            mp.linspace(0, a, 9),
        ) / (2 * mp.pi),
        even(-3, 3), even(0.1, 5),
    ),
    "hyp1f1": (mp.hyp1f1, even(0.1, 5), even(0.2, 5), even(-10, 20)),
    "hyp2f1": (
        mp.hyp2f1, even(0.1, 3), even(0.1, 3), even(0.5, 5), even(-3, 0.88),
    ),
}  # fmt: skip


def record(function: Callable[..., Any], arguments: list[Any]) -> Any:
    """The rows: arguments, values, what was lost."""
    exact = [
        function(*[mp.mpf(float(x)) for x in point])
        for point in zip(*arguments, strict=True)
    ]
    values = np.array([float(v) for v in exact])
    size = np.maximum(np.abs(values), np.finfo(np.float64).tiny)
    unit = np.ldexp(1.0, np.frexp(size)[1] - 53)
    lost = [
        float((v - mp.mpf(float(rounded))) / mp.mpf(float(u)))
        for v, rounded, u in zip(exact, values, unit, strict=True)
    ]
    return np.stack([*arguments, values, np.array(lost)])


def main() -> None:
    draw = np.random.default_rng(7)
    found: dict[str, Any] = {}
    for name, (function, *ranges) in (ONE | TWO | LATER).items():
        for suffix, (kind, count) in COUNTS.items():
            arguments = [
                draw.choice(numbers, count).astype(kind).astype(np.float64)
                for numbers in ranges
            ]
            if name in MULTIPLES:
                arguments[1] = (arguments[0] * arguments[1]).astype(kind)
                arguments[1] = arguments[1].astype(np.float64)
            if name in ("rel_entr", "kl_div"):  # half of the pairs are near
                near = arguments[0] * draw.uniform(0.2, 5, count)
                near = near.astype(kind).astype(np.float64)
                arguments[1] = np.where(np.arange(count) % 2, arguments[1], near)
            found[name + suffix] = record(function, arguments)
    np.savez_compressed(Path(__file__).parent / "special.npz", **found)


if __name__ == "__main__":
    main()
