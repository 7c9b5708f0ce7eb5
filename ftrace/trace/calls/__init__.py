"""Calls: functions as nodes, with what differentiation and batching do to them.

From the ground up:

    captured_constant     held: a concrete array in the midst of a graph
    closures              The arrays and traced values that a Python function closes
                          over
    custom_batching       custom_vmap: functions with batching of their own
    remat_policy          Policies: which values of a function under `checkpoint` its
                          derivative keeps
    checkpoint            checkpoint: a function whose derivative computes it again
    rule_graphs           Users' functions as graphs: of a call at once, of a rule when
                          it is asked for
    custom_derivative     Functions with derivatives of their own
    linear_call           linear_call: a linear function, and another one that is its
                          transpose
    subgraphs             The bodies that nodes hold, and how to replace them
    custom_jvp_residuals  What is differentiated by a rule is also computed by it
    user_primitive        Primitives of users: records whose rules are functions of
                          arrays
    inline                Before all else: calls become what they call

A call holds its function as a `Body`. Lowering replaces it by that (`inline.py`): no
program has calls.
"""
