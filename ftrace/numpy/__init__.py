"""The array API of NumPy and JAX: compositions of primitives, for arrays and tracers.

    import ftrace.numpy as fnp
    fnp.mean(fnp.exp(x), axis=-1)

Each name is JAX's, with its arguments and defaults; the modules name what is public in
their `__all__`. Examples in docstrings assume `ft`, `np`, `fnp`, `lax` and `nn`:

    import numpy as np
    import ftrace as ft, ftrace.numpy as fnp
    from ftrace import lax, nn

The modules, from the ground up:

    axes              Axes and shapes: checked arguments, and movement of arrays and
                      tracers
    elementwise       What is one primitive after promotion, or a line around one
    shape             Reshapes, axes in another order, broadcasting, flips, tiles
    logic             Logic, comparisons, questions about floats; maximum, minimum
    arithmetic        Division with remainder, powers, rounding; gcd and lcm
    joining           Arrays joined and split along an axis
    creation          Arrays from numbers, sequences, other arrays and files
    data_types        Dtypes by name, questions about them, promotion
    indexing          `x[index]`: to slices, gathers and fills
    reductions        Reductions that are one primitive; without NaN, too
    at                `x.at[index].set(y)` and its like
    cumulative        Running reductions: cumsum, cumprod and their like
    floats            Functions of floats with care at their edges: overflow, zero,
                      infinity, bits
    linear            Products: dot, matmul, tensordot, outer, kron, cross, trace
    einstein          einsum
    functions         Functions of functions: of slices, elements and places; ufuncs
    new_arrays        Arrays of one value, of evenly spaced numbers; grids and windows
    sorting           Sorting, and where something is: where, nonzero, argmax
    statistics        Moments: mean, variance, average, covariance, correlation
    editing           Elements taken from, put at and repeated at indices; inserted and
                      deleted
    sets              Unique elements, unions, intersections, differences, membership
    factorizations    Factorizations of matrices, and norms
    matrices          Matrices of a pattern; index arrays of it
    linalg            `fnp.linalg`: factorizations, systems, norms, products of chains
    curves            Convolution, interpolation, polynomials and their roots
    distributions     Quantiles and histograms
    padding           Pad in every mode, and roll
    fft               `fnp.fft`: Fourier transforms, their frequencies, the order of
                      spectra
"""

# ruff: noqa: F403, F405

from __future__ import annotations

import sys as _sys
from functools import partial as _partial
from math import e as e, inf as inf, nan as nan, pi as pi

import numpy as _np

from ftrace.numpy import (
    data_types as _data_types,
    elementwise as _elementwise,
    fft as fft,
    linalg as linalg,
    logic as _logic,
)
from ftrace.numpy.arithmetic import *
from ftrace.numpy.at import *
from ftrace.numpy.at import At as _At
from ftrace.numpy.creation import *
from ftrace.numpy.cumulative import *
from ftrace.numpy.curves import *
from ftrace.numpy.data_types import *
from ftrace.numpy.distributions import *
from ftrace.numpy.editing import *
from ftrace.numpy.einstein import *
from ftrace.numpy.elementwise import *
from ftrace.numpy.floats import *
from ftrace.numpy.floats import byteswap as _byteswap
from ftrace.numpy.functions import *
from ftrace.numpy.functions import (
    METHODS as _METHODS,
    PublishedUfunc as _PublishedUfunc,
)
from ftrace.numpy.indexing import *
from ftrace.numpy.joining import *
from ftrace.numpy.linear import *
from ftrace.numpy.logic import *
from ftrace.numpy.matrices import *
from ftrace.numpy.new_arrays import *
from ftrace.numpy.padding import *
from ftrace.numpy.reductions import *
from ftrace.numpy.sets import *
from ftrace.numpy.shape import *
from ftrace.numpy.sorting import *
from ftrace.numpy.statistics import *
from ftrace.trace.arrays.array import (
    Array as _Array,
    functions as _functions,
    tell_of_methods as _tell_of_methods,
)
from ftrace.trace.eager.dispatch import publish as _publish
from ftrace.trace.eager.function_objects import Eager as _Eager

#: What arrays and tracers are instances of.
ndarray = _Array

globals().update(_data_types.NARROW)  # dtypes of few bits: float8_e4m3fn, int4, …
ComplexWarning = _np.exceptions.ComplexWarning
object_ = _np.object_

# How arrays are printed is a setting of NumPy's, for its arrays and ours.
array_repr = _np.array_repr
array_str = _np.array_str
get_printoptions = _np.get_printoptions
iterable = _np.iterable
printoptions = _np.printoptions
set_printoptions = _np.set_printoptions

# What makes this a namespace of the array API standard.
__array_api_version__ = _data_types.API_VERSIONS[-1]
__array_namespace_info__ = _data_types.NamespaceInfo

# The default dtype of each kind.
int_, uint, float_, complex_ = int32, uint32, float32, complex64
bool = bool_

euler_gamma = _np.euler_gamma
newaxis = None

# Of these floats are operands; what other functions do may depend on them.
_of_numbers = (
    *_elementwise.__all__, *_logic.__all__, "ceil", "fix", "float_power", "floor",
    "floor_divide", "fmod", "logaddexp", "logaddexp2", "mod", "pow", "power",
    "remainder", "rint", "trunc", "where",
)  # fmt: skip
# The modules of functions that compute, and do not only choose or move, and others.
_computing = (
    "arithmetic", "cumulative", "einstein", "elementwise", "floats", "linear", "logic",
    "reductions", "statistics",
)  # fmt: skip
_computing = (
    *(f"{__name__}.{module}" for module in _computing),
    "astype", "cond", "convolve", "correlate", "diff", "ediff1d", "gradient", "interp",
    "matrix_norm", "matrix_rank", "norm", "select", "trapezoid", "tril",
    "triu", "unwrap", "vector_norm", "where",
)  # fmt: skip

# Arguments that JAX's have: where the result is, and what decides nothing here.
_of_device = ("astype", "empty_like", "eye", "fftfreq", "linspace", "rfftfreq")
_of_sharding = (
    "bincount", "broadcast_to", "dot", "einsum", "matmul", "percentile", "ravel",
    "repeat", "reshape", "tensordot",
)  # fmt: skip
_of_both = (
    "arange", "array", "asarray", "empty", "full", "full_like", "ones", "ones_like",
    "zeros", "zeros_like",
)  # fmt: skip
_idle = {
    **dict.fromkeys(_of_device, ("device",)),
    **dict.fromkeys(_of_sharding, ("out_sharding",)),
    **dict.fromkeys(_of_both, ("device", "out_sharding")),
    **dict.fromkeys(_METHODS, ("out", "where")),
}  # fmt: skip

# These show their operand, and share the memory of an array of NumPy's. What others
# return is memory of its own, whatever the sizes and the values are.
_shows = (
    "array", "array_split", "asarray", "astype", "atleast_1d", "atleast_2d",
    "atleast_3d", "broadcast_arrays", "broadcast_to", "conj", "conjugate", "diag",
    "diagonal", "dsplit", "expand_dims", "flip", "fliplr", "flipud", "from_dlpack",
    "frombuffer", "getitem", "hsplit", "imag", "matrix_transpose", "moveaxis",
    "permute_dims", "positive", "ravel", "real", "reshape", "rollaxis", "rot90",
    "split", "squeeze", "swapaxes", "transpose", "unstack", "view", "vsplit",
)  # fmt: skip

_publish(
    __name__,
    computing=_computing,
    numbers=set(_of_numbers) - {"pow", "power", "float_power"},
    shows=_shows,
    operands={**dict.fromkeys(_of_numbers, (float,)), "getitem": (int,)},
    calling=("apply_along_axis", "apply_over_axes", "pad", "piecewise"),
    objects=dict.fromkeys(_METHODS, _PublishedUfunc),
    idle=_idle,
    lifting=("dot", "inner", "matmul", "outer", "tensordot", "vdot"),
)  # fmt: skip
for _module in (fft, linalg):
    _views = "diagonal", "matrix_transpose"
    _publish(_module.__name__, _computing, (), _views, idle=_idle)

# What the operators and methods of arrays, and NumPy's functions of tracers, call: a
# method is native itself, but for iteration.
_functions.update(
    {
        name: x.behind if isinstance(x, _Eager) and name != "unstack" else x
        for name, x in globals().items()
        if callable(x) and name[0] != "_"
    }
)
_functions.update(
    array_namespace=_partial(_data_types.array_namespace, _sys.modules[__name__]),
    at=_At,  # it computes nothing, and holds any array
    byteswap=_byteswap,
    getitem_at=getitem,
)
_tell_of_methods(globals())
