"""Eager calls: a record is kept of a call, and run for those like it.

From the ground up:

    call_key     What a call is given, as words: the key under which its record is found
    lookup       The inline cache: eager calls like earlier ones go straight to NumPy
    ufunc_loops  Inner loops of NumPy's ufuncs, called without what NumPy does around
                 them
    learn_call   Eager calls become cache entries: what Python's code did is done again
                 without it
"""
