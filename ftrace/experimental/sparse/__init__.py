"""Sparse arrays, of which only some elements are stored.

bcoo      the array, and its layouts
movement  its axes
products  products, sums, indexing; operators
compressed  COO, CSR, CSC and BCSR: other ways to write indices; arrays that are made,
            and derivatives with respect to sparse ones
linalg    lobpcg_standard, spsolve
"""

# ruff: noqa: F403

from ftrace.experimental.sparse import (
    bcoo as _bcoo,
    compressed as _compressed,
    linalg as linalg,
)
from ftrace.experimental.sparse.bcoo import *
from ftrace.experimental.sparse.compressed import *
from ftrace.experimental.sparse.movement import *
from ftrace.experimental.sparse.products import *
from ftrace.ground.missing_names import tell_missing as _tell_missing

# JAX's modules: that of BCOO has all functions of it.
bcsr = coo = csr = _compressed
_bcoo.__dict__.update({name: f for name, f in vars().items() if name[:5] == "bcoo_"})

__getattr__ = _tell_missing(__name__)
