"""Optimizers: pure functions from gradients to updates, with the names of optax."""

# ruff: noqa: F403

from ftrace.optim.base import *
from ftrace.optim.optimizers import *
from ftrace.optim.schedules import *
