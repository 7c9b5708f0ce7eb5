"""`jax.extend.source_info_util`: whose frames are no lines of the user's."""

from ftrace.compat.private import register_exclusion as register_exclusion
