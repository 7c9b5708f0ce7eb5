"""Probability distributions, a module each, and what samples are like."""

from ftrace.scipy.stats import norm as norm
from ftrace.scipy.stats.continuous import (
    beta as beta,
    cauchy as cauchy,
    chi2 as chi2,
    expon as expon,
    gamma as gamma,
    gennorm as gennorm,
    gumbel_l as gumbel_l,
    gumbel_r as gumbel_r,
    laplace as laplace,
    logistic as logistic,
    pareto as pareto,
    t as t,
    truncnorm as truncnorm,
    uniform as uniform,
    vonmises as vonmises,
    wrapcauchy as wrapcauchy,
)
from ftrace.scipy.stats.discrete import (
    bernoulli as bernoulli,
    betabinom as betabinom,
    binom as binom,
    geom as geom,
    nbinom as nbinom,
    poisson as poisson,
)
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
from ftrace.trace.eager.dispatch import publish as _publish

_publish(__name__, (f"{__name__}.samples",))
