"""Calls outside of traces: done at once by NumPy, and remembered.

From the ground up:

    aliasing          Results that own their elements: NumPy may change the arrays that
                      a call was given
    checked_calls     Calls under settings that check them: promotions refused, numbers
                      that are none
    dispatch          Have I seen this call? What calls became, by what identifies them;
                      public functions
    exact_subgraph    The part of a graph whose values leave no choice: the same bits
                      whoever computes it
    call_recorder     What an eager call made NumPy do: the steps from its arguments to
                      its result
    composite         Compositions as one graph: recorded as such, or done by a plan of
                      NumPy's calls
"""
