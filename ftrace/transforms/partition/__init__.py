"""jit of sharded arrays: a program over a mesh becomes one for each device.

From the ground up:

    specs        How the axes of a value are divided over a mesh, and what it takes to
                 change that
    rules        Sharding rules: the factors of an operation's axes, a row for each
                 family
    propagate    Shardings flow along the factors of operations, forwards and backwards
    localize     The program of one device: the graph over its parts, with collectives
                 between them
    partition    A graph over a mesh becomes the program of one of its devices
    spanning     Arrays over a mesh of several processes, and programs that run on them
    results      Where the results of a program are, that runs on arrays that were given
                 a sharding
    explain      What becomes of a function whose arguments are divided over devices,
                 as text
"""
