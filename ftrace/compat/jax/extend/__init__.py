"""`jax.extend`: what libraries that go deeper use.

backend       the devices as clients
core          jaxprs and primitives
linear_util   functions that are wrapped in transformations
random        the generators of keys
source_info_util   whose frames are no lines of the user's
"""

from ftrace.compat import linear_util as linear_util, private as source_info_util
from ftrace.compat.jax.extend import core as core, random as random
from ftrace.ground.missing_names import tell_missing

tell_missing(__name__)

__all__ = ["core", "linear_util", "random", "source_info_util"]
