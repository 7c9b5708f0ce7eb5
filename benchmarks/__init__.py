"""How fast ftrace is, next to its peers, measured in turn in one run.

    python -m benchmarks --peer jax --peer torch --peer numpy

See README.md for what the figures mean.
"""
