"""Calls outside of traces: done at once by NumPy, and remembered.

From the ground up:

    precision         How exactly products are asked for
    nonfinite         Where a NaN or an infinity came from: the first operation that
                      made one
    checked_calls     Calls under settings that check them: promotions refused, numbers
                      that are none
    result_memory     Results: in memory of their own, and where the caller asked
                      for them
    function_objects  Functions as objects: what `help` shows of them, and what native
                      code knows of them
    dispatch          Have I seen this call? What calls became, by what identifies them
    composite         What calls became: the steps that NumPy did, and compositions as
                      one graph; what of a graph leaves no choice
"""
