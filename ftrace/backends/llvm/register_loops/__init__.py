"""Loops whose steps need the one before, and running reductions.

From the ground up:

    render       A recurrence as LLVM IR: its registers are phi nodes, its lanes a
                 vector
    scan_kernel  A running reduction as LLVM IR
"""
