"""Kernels in OpenCL C, for any GPU with a driver.

From the ground up:

    scalar_ops  OpenCL C for scalars: one row per operation, and the functions that rows
                call
    writer      The text of a kernel in OpenCL C: values, ranges and stores, line by
                line
    render      Kernels as OpenCL C: their loops, with each axis in the role of its
                launch
    device      GPUs, and whatever else has an OpenCL driver; PoCL runs it on the CPU
"""
