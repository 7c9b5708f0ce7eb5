"""`jax.extend`: what libraries that go deeper use.

backend       the devices as clients
core          jaxprs and primitives
linear_util   functions that are wrapped in transformations
source_info_util   whose frames are no lines of the user's
"""
