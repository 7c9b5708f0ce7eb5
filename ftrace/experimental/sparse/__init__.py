"""Sparse arrays, of which only some elements are stored.

bcoo      the array, and its layouts
movement  its axes
products  products, sums, indexing; operators
compressed  COO, CSR, CSC and BCSR: other ways to write indices
creation  arrays that are made, and derivatives with respect to sparse ones
linalg    lobpcg_standard, spsolve; imported by its name
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from ftrace.experimental.sparse.bcoo import (
    BCOO as BCOO,
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    JAXSparse as JAXSparse,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
    bcoo_eliminate_zeros as bcoo_eliminate_zeros,
    bcoo_extract as bcoo_extract,
    bcoo_fromdense as bcoo_fromdense,
    bcoo_sort_indices as bcoo_sort_indices,
    bcoo_sum_duplicates as bcoo_sum_duplicates,
    bcoo_todense as bcoo_todense,
    bcoo_update_layout as bcoo_update_layout,
)
from ftrace.experimental.sparse.compressed import (
    BCSR as BCSR,
    COO as COO,
    CSC as CSC,
    CSR as CSR,
    bcsr_broadcast_in_dim as bcsr_broadcast_in_dim,
    bcsr_concatenate as bcsr_concatenate,
    bcsr_dot_general as bcsr_dot_general,
    bcsr_extract as bcsr_extract,
    bcsr_fromdense as bcsr_fromdense,
    bcsr_sum_duplicates as bcsr_sum_duplicates,
    bcsr_todense as bcsr_todense,
    coo_fromdense as coo_fromdense,
    coo_matmat as coo_matmat,
    coo_matvec as coo_matvec,
    coo_todense as coo_todense,
    csr_fromdense as csr_fromdense,
    csr_matmat as csr_matmat,
    csr_matvec as csr_matvec,
    csr_todense as csr_todense,
)
from ftrace.experimental.sparse.creation import (
    empty as empty,
    eye as eye,
    grad as grad,
    jacfwd as jacfwd,
    jacrev as jacrev,
    random_bcoo as random_bcoo,
    todense as todense,
    value_and_grad as value_and_grad,
)
from ftrace.experimental.sparse.movement import (
    bcoo_broadcast_in_dim as bcoo_broadcast_in_dim,
    bcoo_concatenate as bcoo_concatenate,
    bcoo_dynamic_slice as bcoo_dynamic_slice,
    bcoo_reduce_sum as bcoo_reduce_sum,
    bcoo_reshape as bcoo_reshape,
    bcoo_rev as bcoo_rev,
    bcoo_slice as bcoo_slice,
    bcoo_squeeze as bcoo_squeeze,
    bcoo_transpose as bcoo_transpose,
)
from ftrace.experimental.sparse.products import (
    bcoo_dot_general as bcoo_dot_general,
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
    bcoo_multiply_dense as bcoo_multiply_dense,
    bcoo_multiply_sparse as bcoo_multiply_sparse,
)
from ftrace.ground.missing_names import no_attribute as _no_attribute

jacobian = jacrev

#: JAX's modules that are not loaded, or have another name.
_MODULES = {"linalg": "linalg", **dict.fromkeys(("bcsr", "coo", "csr"), "compressed")}


def __getattr__(name: str) -> _Any:
    if name == "sparsify":  # which stands above: it reads jaxprs
        return _import_module("ftrace.compat.sparsify").sparsify
    if name in _MODULES:
        return _import_module(f"{__name__}.{_MODULES[name]}")
    raise _no_attribute(__name__, name)
