"""Probability distributions, a module each."""

from ftrace.scipy.stats import norm as norm
