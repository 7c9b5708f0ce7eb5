"""Probability distributions, a module each, and what samples are like."""

from ftrace.scipy.stats import norm as norm
from ftrace.scipy.stats.multivariate import (
    dirichlet as dirichlet,
    multinomial as multinomial,
    multivariate_normal as multivariate_normal,
)
from ftrace.scipy.stats.samples import (
    gaussian_kde as gaussian_kde,
    mode as mode,
    rankdata as rankdata,
    sem as sem,
)
from ftrace.scipy.stats.univariate import (
    bernoulli as bernoulli,
    beta as beta,
    betabinom as betabinom,
    binom as binom,
    cauchy as cauchy,
    chi2 as chi2,
    expon as expon,
    gamma as gamma,
    gennorm as gennorm,
    geom as geom,
    gumbel_l as gumbel_l,
    gumbel_r as gumbel_r,
    laplace as laplace,
    logistic as logistic,
    nbinom as nbinom,
    pareto as pareto,
    poisson as poisson,
    t as t,
    truncnorm as truncnorm,
    uniform as uniform,
    vonmises as vonmises,
    wrapcauchy as wrapcauchy,
)
from ftrace.trace.eager.dispatch import publish as _publish

_publish(__name__, (f"{__name__}.samples",))
