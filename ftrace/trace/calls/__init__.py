"""Calls: functions as nodes, with what differentiation and batching do to them.

    rules.py        users' functions that are traced when a transform asks for them
    closures.py     the traced values that a Python function closes over
    held.py         held_p           an array that a rule closed over
    custom.py       custom_jvp_p, custom_vjp_p, vjp_tangent_p   derivatives by a rule
    lanes.py        custom_vmap_p    batching by a rule
    linear.py       linear_call_p    a linear function and its transpose
    checkpoint.py   checkpoint_p     derivatives that compute again
    policies.py     which values a checkpoint keeps
    follow.py       what is differentiated by a rule is also computed by it
    bodies.py       the bodies that a node holds

A call holds its function as a `Body`. Lowering replaces it by that (`inline.py`):
no program has calls.
"""
