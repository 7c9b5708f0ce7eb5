"""`jax.extend.core.primitives`: JAX's primitives that have a counterpart."""

from ftrace.compat.lax_primitives import PUBLIC
from ftrace.ground.missing_names import tell_missing

globals().update(PUBLIC)
tell_missing(__name__)
