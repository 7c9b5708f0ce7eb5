"""`jax.example_libraries`: small libraries that programs and tests still use.

optimizers   descent as triples of functions
stax         layers as pairs of functions
"""
