"""JAX's `lax`: operations that promote and broadcast nothing by themselves."""

from ftrace.lax.convolution import *  # noqa: F403
from ftrace.lax.dot import *  # noqa: F403
from ftrace.lax.elementwise import *  # noqa: F403
from ftrace.lax.movement import *  # noqa: F403
from ftrace.lax.options import *  # noqa: F403
from ftrace.lax.reductions import *  # noqa: F403
from ftrace.lax.slicing import *  # noqa: F403
from ftrace.lax.windows import *  # noqa: F403
