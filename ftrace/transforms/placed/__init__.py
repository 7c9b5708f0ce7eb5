"""Arrays over a mesh: calls and programs that run on them, and where results are.

From the ground up:

    loops        Loops around `shard_map` over several processes: what they carry stays
                 in parts
    spanning     Arrays over a mesh of several processes, and programs that run on them
    explain      What becomes of a function whose arguments are divided over devices,
                 as text
    results      Where the results of a program are, that runs on arrays that were given
                 a sharding
"""
