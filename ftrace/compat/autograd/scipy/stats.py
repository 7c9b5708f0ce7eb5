"""Distributions: `autograd.scipy.stats.norm` is a module, as the others are."""

from __future__ import annotations

# pyright: basic
from typing import Any

from ftrace.compat.autograd import numpy as np
from ftrace.compat.autograd.core import defvjp, primitive, spread
from ftrace.compat.autograd.lift import lifted, namespace, submodule


def _normal_entropy(mean: Any = None, cov: Any = 1) -> Any:
    cov = np.atleast_2d(cov)
    size = cov.shape[-1]
    return 0.5 * (size * (1 + np.log(2 * np.pi)) + np.linalg.slogdet(cov)[1])


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
multivariate_normal = _distribution(
    "multivariate_normal",
    {"entropy": lifted("scipy.stats", "entropy", _normal_entropy, _normal_entropy)},
)


def _t_slope(name: str, slope: Any) -> None:
    """Student's t has SciPy's distribution functions, with slopes by x and loc."""
    function = primitive(lambda *args, **kw: getattr(_scipy_t(), name)(*args, **kw))

    def by_x(ans: Any, x: Any, *rest: Any) -> Any:
        return spread(ans, x, slope(ans, x, *rest))

    def by_loc(ans: Any, x: Any, df: Any, loc: Any, *rest: Any) -> Any:
        return spread(ans, loc, -slope(ans, x, df, loc, *rest))

    defvjp(function, by_x, by_loc, argnums=(0, 2))
    _T[name] = function


def _scipy_t() -> Any:
    from scipy import stats

    return stats.t


_t_slope("cdf", lambda ans, x, *rest: t.pdf(x, *rest))
_t_slope("logcdf", lambda ans, x, *rest: np.exp(t.logpdf(x, *rest) - ans))

__getattr__ = namespace(__name__, "scipy.stats", "ftrace.scipy.stats")
