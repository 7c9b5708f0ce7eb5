"""Distributions: `autograd.scipy.stats.norm` is a module, as the others are."""

from __future__ import annotations

# pyright: basic
from importlib import import_module
from typing import Any

from ftrace.compat.autograd import numpy as np
from ftrace.compat.autograd.core import defvjp, primitive, repeat_slope
from ftrace.compat.autograd.lift import lift, namespace, submodule
from ftrace.scipy import stats


def _scipy(distribution: str, name: str) -> Any:
    """SciPy's own, which is imported when it is called."""

    def function(*args: Any, **kwargs: Any) -> Any:
        home = getattr(import_module("scipy.stats"), distribution)
        return getattr(home, name)(*args, **kwargs)

    return function


def _normal_entropy(mean: Any = None, cov: Any = 1) -> Any:
    cov = np.atleast_2d(cov)
    size = cov.shape[-1]
    return 0.5 * (size * (1 + np.log(2 * np.pi)) + np.linalg.slogdet(cov)[1])


def _normal_log_density(
    x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False
) -> Any:
    """As SciPy's: what lies along directions without variance has no density."""
    if mean is None:
        mean = np.zeros(np.shape(cov)[:1])
    if not allow_singular:
        return stats.multivariate_normal.logpdf(x, mean, cov)
    sizes, away, inverse = np.linalg.eigvalsh(cov), x - mean, np.linalg.pinv(cov)
    eps = np.finfo(float).eps
    kept = sizes > 1e6 * eps * np.max(np.abs(sizes))  # SciPy's bound, as the next
    outside = np.abs(away - away @ inverse @ cov) > 1e3 * eps
    logs = np.log(np.where(kept, sizes, 1.0)) + kept * np.log(2 * np.pi)
    value = -0.5 * (np.sum(away @ inverse * away, axis=-1) + np.sum(logs))
    return np.where(np.any(outside, axis=-1), -np.inf, value)


def _normal_density(*args: Any, **kwargs: Any) -> Any:
    return np.exp(_normal_log_density(*args, **kwargs))


_T: dict[str, Any] = {}


def _distribution(name: str, own: dict[str, Any] | None = None) -> Any:
    home = f"scipy.stats.{name}"
    return submodule(f"{__name__}.{name}", home, f"ftrace.{home}", own)


__path__: list[str] = []  # a package, whose modules are those made here
beta, chi2, dirichlet, gamma = map(
    _distribution, ("beta", "chi2", "dirichlet", "gamma")
)
norm, poisson = map(_distribution, ("norm", "poisson"))
t = _distribution("t", _T)
_NORMAL = {"logpdf": _normal_log_density, "pdf": _normal_density}
multivariate_normal = _distribution(
    "multivariate_normal",
    {"entropy": lift("scipy.stats", "entropy", _normal_entropy, _normal_entropy)}
    | {
        name: lift("scipy.stats", name, _scipy("multivariate_normal", name), ours)
        for name, ours in _NORMAL.items()
    },
)


def _t_slope(name: str, slope: Any) -> None:
    """Student's t has SciPy's distribution functions, with slopes by x and loc."""
    function = primitive(_scipy("t", name))

    def by_x(ans: Any, x: Any, *rest: Any) -> Any:
        return repeat_slope(ans, x, slope(ans, x, *rest))

    def by_loc(ans: Any, x: Any, df: Any, loc: Any, *rest: Any) -> Any:
        return repeat_slope(ans, loc, -slope(ans, x, df, loc, *rest))

    defvjp(function, by_x, by_loc, argnums=(0, 2))
    _T[name] = function


_t_slope("cdf", lambda ans, x, *rest: t.pdf(x, *rest))
_t_slope("logcdf", lambda ans, x, *rest: np.exp(t.logpdf(x, *rest) - ans))

__getattr__ = namespace(__name__, "scipy.stats", "ftrace.scipy.stats")
