"""`jax.extend.core`: jaxprs, primitives, and the state of tracing."""

from ftrace.compat.hijax import Effect as Effect
from ftrace.compat.jax.core import *  # noqa: F403
from ftrace.compat.jax.extend.core import primitives as primitives
from ftrace.compat.linear_util import DebugInfo as DebugInfo
from ftrace.errors import JaxprTypeError as JaxprTypeError

# They say that there is no interpreter of the user's; for this module they are missing.
del TraceTag, set_current_trace, take_current_trace  # noqa: F821
