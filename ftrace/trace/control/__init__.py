"""Control flow as nodes: branches and loops that hold bodies.

From the ground up:

    scan         scan: a body for each element along the leading axis, with a carry
    conditional  cond: one of several bodies; while: a body as long as a predicate of
                 its carry holds; loops and branches that do the same become one

The derivative of each is two nodes: the operation itself, which also gives what its
derivative must remember, and a linear one of the same kind over these residuals.
Lowering merges the first with the operation that was there
(`lower/control/simplify_loops.py`).
"""
