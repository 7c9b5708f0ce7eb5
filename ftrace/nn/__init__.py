"""JAX's `nn`: activations, softmax, attention, initial values."""

from ftrace.nn import initializers
from ftrace.nn.activations import *  # noqa: F403
from ftrace.nn.attention import *  # noqa: F403
from ftrace.nn.functions import *  # noqa: F403

__all__ = ["initializers"]
