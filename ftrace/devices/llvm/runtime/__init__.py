"""What a process has once: threads, warm memory, and the runner of programs.

compiled        the pool and the runner, compiled
pool            threads, and the text of the runner
memory          warm memory; scratch: of kernels
tables          programs as the runner reads them; host: what they call in Python
work            how much a program does
"""
