"""Shapes and positions under JAX's `lax` names: broadcast, reshape, pad, iota, …"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.array import Array, ArrayLike
from ftrace.errors import AxisError, DtypeError, ShapeError, ValueRangeError
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as moves
from ftrace.numpy.axes import (
    as_value,
    canonical_axes,
    canonical_axis,
    cast,
    check_shape,
    choose,
    full as filled,
    static_int,
)
from ftrace.trace.tracer import Value, asarray, aval_of

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_shapes", "broadcast_to_rank",
    "broadcasted_iota", "collapse", "concatenate", "dtype", "empty", "expand_dims",
    "full", "full_like", "iota", "ones_like", "pad", "reshape", "rev", "split",
    "squeeze", "stack", "tile", "transpose", "unstack", "zeros_like",
]  # fmt: skip
