"""Calls in native code, where the interpreter's layout is known.

What all calls need:

    probe           does this interpreter lay its objects out as the code here expects?
    records         what the native code walks over: a call, its arguments, its result
    objects         reference counts, and functions of the interpreter
    buffer_objects  buffers and Arrays that are made and die; counting: the allocator
    install         all of it compiled and put in place; whole: its text

Calls of jitted functions:

    binding         a compiled program and a signature become a record
    build_results   what it gives back
    arguments       the leaves of arguments are found and checked
    entry           a call from its beginning to its end

Eager operations:

    lookup          an inline cache of such calls, and the steps that an entry repeats
    keys            what entries are found by; surface: what the cache stands before
    learn_call      a call that missed becomes an entry
    ufunc_loops     steps that are loops of NumPy's ufuncs

The native code does what Python's code does for calls like an earlier one. Whatever it
does not expect, it leaves to that, which has all the messages.
"""
