"""Optimizers: pure functions from gradients to updates, with the names of optax."""

# ruff: noqa: F403

from ftrace.optim import base, optimizers, schedules
from ftrace.optim.base import *
from ftrace.optim.optimizers import *
from ftrace.optim.schedules import *

__all__: list[str] = []
__all__ += base.__all__
__all__ += optimizers.__all__
__all__ += schedules.__all__
