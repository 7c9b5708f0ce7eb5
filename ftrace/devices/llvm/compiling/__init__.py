"""From the text of kernels to machine code, by way of the disk cache.

kernels         machine code of kernels, several in one module
compile         IR to object code to addresses; loader: object code without LLVM
cache           the files, and whose are taken
made            kernels and whole programs on disk
machine         what decides the code besides its text
workers         threads that compile, where no signal arrives
tune            schedules tried on the machine itself
"""
