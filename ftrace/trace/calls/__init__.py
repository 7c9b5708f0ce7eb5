"""Calls: functions as nodes, with what differentiation and batching do to them.

From the ground up:

    rule_graphs        Users' functions as graphs: of a call at once, of a rule when it
                       is asked for; what they close over
    checkpoint         checkpoint: a function whose derivative computes it again, and
                       policies: which values that keeps
    custom_derivative  Functions with derivatives of their own: custom_jvp, custom_vjp,
                       linear_call
    custom_call        Calls of functions that have rules: their arguments, and what
                       the rules return
    custom_vmap        custom_vmap: functions whose batching the user writes
    user_primitive     Primitives of users: records whose rules are functions of arrays
    inline             Calls and bodies in graphs: found, replaced, and taken away
                       before all else
    varying            Which values differ along the axes of devices, and derivatives
                       where they do
    carry_keys         Random keys and numbers of few bits in programs: devices move
                       their bits

A call holds its function as a `Body`. Lowering replaces it by that (`inline.py`): no
program has calls.
"""
