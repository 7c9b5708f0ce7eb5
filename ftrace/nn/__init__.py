"""JAX's `nn`: activations, softmax, attention, initial values."""

# ruff: noqa: F403

from ftrace.nn import initializers as initializers
from ftrace.nn.activations import *
from ftrace.nn.attention import *
from ftrace.nn.functions import *
