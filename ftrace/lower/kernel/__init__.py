"""Kernels as data: expressions over loops, and indices into buffers.

From the ground up:

    ir               The kernel: scalar expressions over ranges, and what they store
    integer_bounds   Between which integers values are
    affine_index     Index arithmetic: where an element of a value comes from
    iota_indices     Where index arrays point: those that count are ranges, the others
                     are read
    element_builder  An expression for each element that is asked for: of a node of a
                     graph, at a place
    loop_tree        Where each expression of a kernel is computed: a tree of loops
"""
