"""Sorting, and the positions of what is true.

From the ground up:

    sort_keys         Numbers as integers in the same order, their keys, and back, in
                      LLVM IR
    ir_text           The functions of LLVM IR that kernels of sorting call
    nonzero           The positions of what is true, in LLVM IR
    sorting_networks  Short rows sorted side by side: a row in each lane of a vector, in
                      LLVM IR
    kernel            Sorting as LLVM IR: the kernels of `lower/library/sort_kernels.py`
"""
