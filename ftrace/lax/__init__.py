"""JAX's `lax`: operations that promote and broadcast nothing by themselves."""

# ruff: noqa: F403

from ftrace.lax import linalg as linalg
from ftrace.lax.control import *
from ftrace.lax.convolution import *
from ftrace.lax.elementwise import *
from ftrace.lax.gather_scatter import *
from ftrace.lax.movement import *
from ftrace.lax.reductions import *
from ftrace.lax.slicing import *
from ftrace.lax.sorting import *
from ftrace.trace.eager.aliasing import make_owning as _make_owning
from ftrace.trace.eager.dispatch import Lifting as _Lifting
from ftrace.trace.eager.dispatch import make_all_eager as _make_all_eager
from ftrace.trace.eager.dispatch import make_eager as _make_eager
from ftrace.trace.eager.dispatch import recall_all as _recall_all

_computing = ("convolution", "elementwise", "reductions")
_recall_all(
    __name__,
    tuple(f"{__name__}.{module}" for module in _computing),
    (),
    (  # of an operand's elements they are another view: see `ftrace.numpy`
        "bitcast_convert_type", "broadcast", "broadcast_in_dim", "broadcast_to_rank",
        "collapse", "conj", "convert_element_type", "expand_dims", "imag",
        "index_in_dim", "real", "reshape", "rev", "slice", "slice_in_dim", "split",
        "squeeze", "stop_gradient", "transpose", "unstack",
    ),
    **dict.fromkeys(
        (
            "add", "atan2", "batch_matmul", "conv", "conv_general_dilated", "div",
            "dot", "dot_general", "eq", "ge", "gt", "le", "lt", "max", "min", "mul",
            "ne", "pow", "rem", "select", "sub",
        ),
        _Lifting.BESIDE_TRACED,
    ),
)  # fmt: skip
_recall_all(linalg.__name__)
# Those that take functions of the user's do not recognise their calls.
_make_owning(globals(), ("associative_scan", "reduce", "reduce_window"))
_read = ("dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim")
_make_eager(globals(), _read, indexed=True)
_written = (
    "dynamic_update_index_in_dim", "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
)  # fmt: skip
_make_eager(globals(), _written, numbers=True, indexed=True)
# A function of the user's is told apart from public ones: such calls are left alone.
_make_eager(globals(), ("reduce", "reduce_window"))
_make_all_eager(__name__)
_make_all_eager(linalg.__name__)
