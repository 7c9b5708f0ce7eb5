"""From a call to a compiled program: signatures, programs, and when to compile.

From the ground up:

    misses               Why a jitted function was traced again: what differed, and how
                         long that took
    compiled_graph       Graphs: compiled once per device, then called; and what becomes
                         of them
    argument_kinds       Which arguments of a jitted function are what: static, given
                         up, of dynamic sizes
    stages               A jitted function for one signature, stage by stage: traced,
                         lowered, compiled
    signatures           What type checkers and editors know of a jitted function: its
                         parameters stay
    jit                  jit: a function is traced once per shape signature, then runs
                         as one program
    eager_programs       Programs for calls outside of jit: of un-jitted transforms, and
                         on large arrays
    placed_calls         Calls outside of jit whose arguments are divided over devices
"""
