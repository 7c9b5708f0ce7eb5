"""Sorting, and the positions of what is true.

kernel          the kernels of `lower/ordering.py`
keys            numbers as integers in the same order, and back; a function that orders
rows, while it is written
networks        short rows, one in each lane
places          positions of what is true
text            functions of IR that kernels of sorting call
"""
