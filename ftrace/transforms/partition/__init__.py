"""jit of sharded arrays: a program over a mesh becomes one for each device.

From the ground up:

    specs        How the axes of a value are divided over a mesh, and what it takes to
                 change that
    windows      Windows: which places of an axis each device has, where these are no
                 even parts
    rules        Sharding rules: the factors of an operation's axes, a row for each
                 family
    propagate    Shardings flow along the factors of operations, forwards and backwards
    collectives  What a device tells others: the steps from one spec to another, and
                 edges
    localize     The program of one device: the graph over its parts, with collectives
                 between them
    partition    A graph over a mesh becomes the program of one of its devices
    loops        Loops around `shard_map` over several processes: what they carry stays
                 in parts
    spanning     Arrays over a mesh of several processes, and programs that run on them
"""
