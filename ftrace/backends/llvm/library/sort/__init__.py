"""Sorting, and the positions of what is true.

From the ground up:

    keys    Numbers as integers in the same order, their keys, and what is done with
            keys
    kernel  Sorting as LLVM IR: the kernels of `lower/library/sort_kernels.py`
"""
