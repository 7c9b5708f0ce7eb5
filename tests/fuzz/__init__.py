"""Random programs, run in every way that promises the same result.

    python -m tests.fuzz --seconds 60 --seed 1 --peer jax

- `program`: a program is data (inputs and statements), written out as Python.
- `draw`: what a generator of statements has at hand.
- `values`, `arrays`, `loops`: the statements, family by family.
- `generate`: a whole program from a seed.
- `ways`: the transforms and executors of a program, and the values that they give.
- `noise`: how far rounding may carry each element of a result.
- `judge`: runs a program in all ways and says what differs.
- `shrink`: a failure with as few statements and values as will show it.
- `purposes`: where another library differs on purpose, and why.
"""
