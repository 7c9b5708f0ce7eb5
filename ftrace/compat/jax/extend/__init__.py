"""`jax.extend`: what libraries that go deeper use.

core          jaxprs and primitives
linear_util   functions that are wrapped in transformations
"""
