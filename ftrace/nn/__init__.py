"""JAX's `nn`: activations, softmax, attention, initial values."""

# ruff: noqa: F403

from ftrace.lax.products import (
    get_scaled_dot_general_config as get_scaled_dot_general_config,
    scaled_dot_general as scaled_dot_general,
    scaled_matmul as scaled_matmul,
)
from ftrace.nn import initializers as initializers
from ftrace.nn.activations import *
from ftrace.trace.eager.dispatch import publish as _publish

_publish(
    __name__,
    ("ftrace.nn.activations", "ftrace.numpy.reductions"),
    lifting=("dot_product_attention",),
    always=("one_hot",),
)
