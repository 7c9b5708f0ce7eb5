"""Objects of CPython as native code sees them.

From the ground up:

    method_table    What native code stands before: the methods of arrays; and what it
                    finds there
    object_layout   Does this interpreter lay its objects out as the native code
                    expects?
    records         What the native entry walks over, as words in memory: see
                    `runner.records`
    object_ir       Functions of LLVM IR on Python's objects: reference counts, and what
                    they call
    buffer_objects  Buffers and Arrays in native code: made, and kept when they die
"""
