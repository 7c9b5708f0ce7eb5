"""Sorting, ranks and partitions, and the positions of what is true.

From the ground up:

    numpy_sort_symbols  NumPy's sorts of plain values as addresses, for code that is not
                        Python
    sort_numpy          The order of numbers in NumPy: sorted values, stable
                        permutations, greatest k
    sort                Sorting, as steps that the host does
    nonzero             Where something holds, as a step that the host does
    partition           Partitions, as steps that the host does: a sort at one place
                        only
"""
