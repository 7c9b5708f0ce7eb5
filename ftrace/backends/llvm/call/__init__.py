"""Calls in native code, where the interpreter's layout is known.

From the ground up:

    object_layout    Does this interpreter lay its objects out as the native code
                     expects?
    records          What the native entry walks over, as words in memory: see
                     `runtime.records`
    object_ir        Python's objects in native code: their references, buffers, Arrays,
                     and results
    match_arguments  Arguments in native code: is everything as expected, and where is
                     the memory?
    numpy_loops      NumPy's loops over elements, called without what NumPy does around
                     them
    entry            A call in native code, from its beginning to its end
    record_jitted   A compiled program and a signature, as a record that the native
                     entry walks over
    record_eager     Eager calls become records: what Python's code did is done again
                     without it
    install          The native code of calls in this process: compiled, and put in
                     place

A record says what the arguments of a call are, what is done, and what is made of the
results. Of a jitted function it runs a program; of a public function of arrays that is
called without jit NumPy's loops, where Python's code did no more in NumPy than these,
and else a function that does the same there.

The native code does what Python's code does for calls like an earlier one. Whatever it
does not expect, it leaves to that, which has all the messages.
"""
