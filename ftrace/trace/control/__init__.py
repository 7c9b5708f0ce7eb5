"""Control flow as nodes: branches and loops that hold bodies.

    branch.py   cond_p   one of several bodies, by an index
    scan.py     scan_p   a body for each element, with a carry
                map_lanes   any operation once per lane of a batch
    loop.py     while_p  a body as long as a predicate holds
    backward.py          reverse mode of a scan
    merge.py             loops and branches over the same operands become one

The derivative of each is two nodes: the operation itself, which also gives what its
derivative must remember, and a linear one of the same kind over these residuals.
Lowering merges the first with the operation that was there (`lower/loops.py`).
"""
