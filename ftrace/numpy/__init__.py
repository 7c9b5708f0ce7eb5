"""The array API of NumPy and JAX: compositions of primitives, for arrays and tracers.

    import ftrace.numpy as fnp
    fnp.mean(fnp.exp(x), axis=-1)

Each name is JAX's, with its arguments and defaults; the modules name what is public in
their `__all__`.
"""

# ruff: noqa: F403, F405

from __future__ import annotations

import math as _math

from ftrace.array import ArrayLike as _ArrayLike
from ftrace.array import surface as _surface
from ftrace.numpy import fft as fft
from ftrace.numpy import linalg as linalg
from ftrace.numpy.arithmetic import *
from ftrace.numpy.at import *
from ftrace.numpy.bits import *
from ftrace.numpy.comparison import *
from ftrace.numpy.creation import *
from ftrace.numpy.cumulative import *
from ftrace.numpy.differences import *
from ftrace.numpy.editing import *
from ftrace.numpy.einstein import *
from ftrace.numpy.elementwise import *
from ftrace.numpy.floats import *
from ftrace.numpy.functional import *
from ftrace.numpy.histogram import *
from ftrace.numpy.indexing import *
from ftrace.numpy.joining import *
from ftrace.numpy.linear import *
from ftrace.numpy.matrices import *
from ftrace.numpy.nanreductions import *
from ftrace.numpy.padding import *
from ftrace.numpy.places import *
from ftrace.numpy.polynomial import *
from ftrace.numpy.positions import *
from ftrace.numpy.quantiles import *
from ftrace.numpy.ranges import *
from ftrace.numpy.reductions import *
from ftrace.numpy.scalars import *
from ftrace.numpy.searching import *
from ftrace.numpy.selection import *
from ftrace.numpy.sets import *
from ftrace.numpy.shape import *
from ftrace.numpy.sorting import *
from ftrace.numpy.statistics import *
from ftrace.numpy.take import *
from ftrace.numpy.types import *
from ftrace.trace.recall import Lifting as _Lifting
from ftrace.trace.recall import recall_all as _recall_all

#: What arrays and tracers are instances of.
ndarray = _ArrayLike

# The default dtype of each kind.
int_, uint, float_, complex_ = int32, uint32, float32, complex64

pi = _math.pi
e = _math.e
euler_gamma = 0.5772156649015329
inf = _math.inf
nan = _math.nan
newaxis = None

_recall_all(
    __name__,
    **dict.fromkeys(
        (
            "add", "arctan2", "atan2", "divide", "dot", "equal", "greater",
            "greater_equal", "inner", "less", "less_equal", "logical_and", "logical_or",
            "logical_xor", "matmul", "maximum", "minimum", "multiply", "not_equal",
            "outer", "subtract", "tensordot", "true_divide", "vdot", "where",
        ),
        _Lifting.BESIDE_TRACED,
    ),
)  # fmt: skip
for _module in (fft, linalg):
    _recall_all(_module.__name__)

# What the operators and methods of arrays, and NumPy's functions of tracers, call.
_surface.update(
    {name: x for name, x in globals().items() if callable(x) and name[0] != "_"}
)
