"""JAX's `nn`: activations, softmax, attention, initial values."""

# ruff: noqa: F403

from ftrace.nn import initializers as initializers
from ftrace.nn.activations import *
from ftrace.trace.eager.dispatch import Lifting as _Lifting
from ftrace.trace.eager.dispatch import make_all_eager as _make_all_eager
from ftrace.trace.eager.dispatch import recall_all as _recall_all

_recall_all(
    __name__,
    ("ftrace.nn.activations", "ftrace.numpy.reductions"),
    dot_product_attention=_Lifting.BESIDE_TRACED,
    one_hot=_Lifting.ALWAYS,
)
_make_all_eager(__name__)
