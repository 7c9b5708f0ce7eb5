"""Faults on purpose: what goes wrong anywhere breaks nothing behind it.

    interrupts   Ctrl-C at each place where Python can deliver it
    files        each file operation of the disk cache fails, or the process ends there
    memory       the n-th allocation fails
    together     two processes, eight threads in each, forks in between
    children     runs one fault in a child process, and says what is wrong after it

After each fault the next calls are right, no lock is held, and nothing is left open.
A sample runs with the other tests; `python -m tests.faults --full` runs all.
"""
