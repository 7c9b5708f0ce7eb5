"""Calls outside of traces: done at once by NumPy, and remembered.

From the ground up:

    aliasing          Results that own their elements: NumPy may change the arrays that
                      a call was given
    call_cache        Calls of public functions that were recorded before are known by
                      their arguments
    dispatch          Public functions of arrays, as objects whose calls can become
                      native
    exact_subgraph    The part of a graph whose values leave no choice: the same bits
                      whoever computes it
    special_as_graph  Primitives whose meaning in NumPy is a composition, as that
                      composition
    call_recorder     What an eager call made NumPy do: the steps from its arguments to
                      its result
    composite         Compositions as one graph: recorded as such, or done by a plan of
                      NumPy's calls
    data_dependent    Functions of NumPy that look at values: how many elements the
                      results have
"""
