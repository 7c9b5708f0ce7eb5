"""JAX's `lax`: operations that promote and broadcast nothing by themselves.

The modules, from the ground up:

    control           Loops and branches: `scan`, `while_loop`, `fori_loop`, `cond`,
                      `switch`
    conversions       Casts; the bits of values, floats of fewer bits
    elementwise       Elementwise operations, of one dtype and shape
    gammas            The gamma function and what is made of it
    library           Sorting and Fourier transforms
    parallel          Collectives: what the instances along a named axis do together
    gather_scatter    Windows of an array at computed starts, read and written
    linalg            `lax.linalg`: LAPACK on matrices in the last two axes
    movement          Reshape, broadcast, concatenate, pad, iota
    products          dot and dot_general; products of groups, and of blocks that share
                      a scale
    reductions        reduce, argmax, cumsum, reduce_window
    rng               Random bits: Philox, and numbers that are others each time
    slicing           Slices at positions that are known or computed
    solvers           Solvers with implicit derivatives, marks, and choices
    special           The incomplete gamma and beta functions, Bessel functions, zeta
    convolution       Convolutions: a window that slides, a product, a sum
"""

# ruff: noqa: F403

from ftrace.lax import (
    conversions as _conversions,
    convolution as _convolution,
    elementwise as _elementwise,
    linalg as linalg,
    products as _products,
    reductions as _reductions,
    special as _special,
)
from ftrace.lax.control import *
from ftrace.lax.conversions import *
from ftrace.lax.convolution import *
from ftrace.lax.elementwise import *
from ftrace.lax.gather_scatter import *
from ftrace.lax.library import *
from ftrace.lax.movement import *
from ftrace.lax.products import *
from ftrace.lax.reductions import *
from ftrace.lax.rng import *
from ftrace.lax.slicing import *
from ftrace.lax.solvers import *
from ftrace.lax.special import *
from ftrace.trace.eager.dispatch import publish as _publish

_modules = (
    _conversions, _convolution, _elementwise, _products, _reductions, _special,
)  # fmt: skip
_computing = {name for module in _modules for name in module.__all__}
_computing -= {"reduce_precision"}  # it has a kernel of its own
_placed = (
    "broadcast", "broadcast_in_dim", "broadcasted_iota", "dot", "dot_general", "empty",
    "reduce_sum", "reshape",
)  # fmt: skip
_publish(
    __name__,
    computing=_computing,
    shows=(  # of an operand's elements they are another view: see `ftrace.numpy`
        "bitcast_convert_type", "broadcast", "broadcast_in_dim", "broadcast_to_rank",
        "collapse", "conj", "convert_element_type", "expand_dims", "imag",
        "index_in_dim", "real", "reshape", "rev", "slice", "slice_in_dim", "split",
        "squeeze", "stop_gradient", "transpose", "unstack",
    ),
    calling=("associative_scan", "reduce", "reduce_window"),
    idle=dict.fromkeys(_placed, ("out_sharding",)) | {"full": ("sharding",)},
    lifting=(
        "add", "atan2", "batch_matmul", "conv", "conv_general_dilated", "div",
        "dot", "dot_general", "eq", "ge", "gt", "le", "lt", "max", "min", "mul",
        "ne", "pow", "rem", "select", "sub",
    ),
)  # fmt: skip
_publish(linalg.__name__)

# What these give depends on the axes that have names where they are called.
from ftrace.lax.parallel import *  # noqa: E402
from ftrace.transforms.mapped import (  # noqa: E402
    with_sharding_constraint as with_sharding_constraint,
)
