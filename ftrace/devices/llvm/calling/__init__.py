"""Calls in native code, where the interpreter's layout is known.

What all calls need:

    probe       does this interpreter lay its objects out as the code here expects?
    records     what the native code walks over: a call, its arguments, its result
    objects     reference counts, and functions of the interpreter; methods: new ones
    memory      buffers that are given out and taken back; counting: the allocator
    arrays      Arrays that are made and die
    native      all of it compiled and put in place; whole: its text

Calls of jitted functions:

    binding     a compiled program and a signature become a record; outcome, results:
                what it gives back
    arguments   the leaves of arguments are found and checked
    entry       a call from its beginning to its end

Eager operations:

    fronts      calls that a record is kept of, by keys; surface: what they stand before
    learning    a call becomes a record: apart, steps, front_record
    performing  the steps of a record, one by one
    ufunc_loops those that are loops of NumPy's ufuncs

The native code does what Python's code does for calls like an earlier one. Whatever it
does not expect, it leaves to that, which has all the messages.
"""
