"""From the text of kernels to machine code, by way of the disk cache.

From the ground up:

    elf_loader  Object code into memory, without LLVM: for x86-64 on Linux
    compile     LLVM IR text to machine code in this process, by way of the disk cache
"""
