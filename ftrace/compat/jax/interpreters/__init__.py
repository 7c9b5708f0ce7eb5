"""`jax.interpreters`: where libraries give their primitives rules.

ad             for tangents and cotangents, and zeros that are known
batching       for one more axis
mlir, xla      what runs on devices
partial_eval   jaxprs: traced, and without what is not needed
"""

from ftrace.compat.jax.interpreters import (
    ad as ad,
    batching as batching,
    mlir as mlir,
    partial_eval as partial_eval,
)

xla = mlir
