"""The native runner: a program, control flow included, is one native call.

From the ground up:

    records      What the runner walks over, word by word: written by Python, read by
                 native code
    interrupts   Signals: a call that takes long looks from time to time whether Python
                 has one
    stacks       Stacks: what iterations push whose number nobody knows before
    handlers     Programs, their steps and loops: functions of the native runner

A program runs on a *frame*: an array of pointers, one per slot. At the top they point
into this call's objects; the frame of a branch or a body is made from the frame around
it. A step is a record that begins with the address of its handler,

    i32 handler(record, frame, context)

which gives 0 to go on; any other status ends all programs around it.
"""
