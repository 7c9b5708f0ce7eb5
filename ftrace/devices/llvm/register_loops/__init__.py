"""Loops whose steps need the one before, and running reductions.

From the ground up:

    lane_memory  What of a recurrence differs from lane to lane, and its loads and
                 stores
    render       A recurrence as LLVM IR: its registers are phi nodes, its lanes a
                 vector
    scan_kernel  A running reduction as LLVM IR
"""
