"""Calls in native code, where the interpreter's layout is known.

From the ground up:

    cpython/          Objects of CPython as native code sees them
    jit/              Calls of jitted functions: from the arguments to the results
    eager/            Eager calls: a record is kept of a call, and run for those like it
    module_ir         The text of all native code of calls, which is seldom made: it is
                      kept on disk
    install           The native code of calls in this process: compiled, and put in
                      place
    bind_signature    A compiled program and a signature, as a record that the native
                      entry walks over
    native_allocator  Allocator and counters of the device whose calls are native

The native code does what Python's code does for calls like an earlier one. Whatever it
does not expect, it leaves to that, which has all the messages.
"""
