"""Compiled kernels and programs: how they are found, made and cached.

From the ground up:

    function_library  Functions of elements that kernels call, where they do not stand
                      in the kernel
    cached_kernel     Kernels and programs whose machine code is there: on disk, and in
                      memory
    compile_kernels   Kernels to machine code, by way of the disk cache, their numbers
                      as data
    autotune          Schedules tried on the machine itself: `ft.config(tune=True)`
"""
