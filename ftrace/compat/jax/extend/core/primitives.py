"""`jax.extend.core.primitives`: JAX's primitives that have a counterpart."""

from ftrace.compat.lax_primitives import PUBLIC

globals().update(PUBLIC)
