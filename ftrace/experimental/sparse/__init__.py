"""Sparse arrays: BCOO, of which only some elements are stored.

bcoo      the array, its layouts and axes
products  products, sums, indexing; operators
creation  arrays that are made, and derivatives with respect to sparse ones
"""

from ftrace.experimental.sparse.bcoo import (
    BCOO as BCOO,
    JAXSparse as JAXSparse,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
    bcoo_broadcast_in_dim as bcoo_broadcast_in_dim,
    bcoo_concatenate as bcoo_concatenate,
    bcoo_dynamic_slice as bcoo_dynamic_slice,
    bcoo_eliminate_zeros as bcoo_eliminate_zeros,
    bcoo_extract as bcoo_extract,
    bcoo_fromdense as bcoo_fromdense,
    bcoo_reduce_sum as bcoo_reduce_sum,
    bcoo_reshape as bcoo_reshape,
    bcoo_rev as bcoo_rev,
    bcoo_slice as bcoo_slice,
    bcoo_sort_indices as bcoo_sort_indices,
    bcoo_squeeze as bcoo_squeeze,
    bcoo_sum_duplicates as bcoo_sum_duplicates,
    bcoo_todense as bcoo_todense,
    bcoo_transpose as bcoo_transpose,
    bcoo_update_layout as bcoo_update_layout,
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
from ftrace.experimental.sparse.products import (
    bcoo_dot_general as bcoo_dot_general,
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
    bcoo_multiply_dense as bcoo_multiply_dense,
    bcoo_multiply_sparse as bcoo_multiply_sparse,
)
from ftrace.ground.missing_names import tell_missing as _tell_missing

jacobian = jacrev
_tell_missing(__name__)
