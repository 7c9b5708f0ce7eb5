"""Probability distributions, a module each, and what samples are like."""

# ruff: noqa: F403

from ftrace.scipy.stats.distributions import *
from ftrace.scipy.stats.samples import *
from ftrace.trace.eager.dispatch import publish as _publish

_publish(__name__, (f"{__name__}.samples",))
