"""Calls of jitted functions in native code, where the interpreter's layout is known.

    probe     does this interpreter lay its objects out as the code here expects?
    records   what the native code walks over: a call, its arguments, its result
    objects   reference counts, and functions of the interpreter
    memory    buffers that are given out and taken back
    arrays    Arrays that are made and die
    arguments the leaves of arguments are found and checked
    results   the result's containers are built
    entry     a call from its beginning to its end
    fronts    eager operations that a record is kept of
    loops     those of their steps that need no NumPy
    chains    several such steps as one; elements, element_loops: what each step does
    views     those of their steps that only look at an array in another way
    native    all of it compiled, and put in place
    binding   a compiled program and a signature become a record

The native code does what `transforms.jit` does for calls like an earlier one. Whatever
it does not expect, it leaves to the Python code, which has all the messages.
"""
