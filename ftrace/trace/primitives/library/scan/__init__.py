"""Running sums, products and extrema.

From the ground up:

    cumulative_numpy  Running reductions in NumPy: sums, products, extrema, log-sums,
                      linear recurrences
    cumulative        Running reductions along an axis, as steps that the host does
"""
