"""Kernels in OpenCL C, for any GPU with a driver.

From the ground up:

    pocl_workaround  A fault of PoCL 3.0, the last one on PyPI, worked around
    scalar_ops       OpenCL C for scalars: one row per operation, and the functions that
                     rows call
    writer           The text of a kernel in OpenCL C: values, ranges and stores, line
                     by line
    contraction      Sums of products (matmul, convolution) in OpenCL C, blocked in
                     registers
    render           Kernels as OpenCL C: their loops, with each axis in the role of its
                     launch
    device           GPUs, and whatever else has an OpenCL driver; PoCL runs it on the
                     CPU
"""
