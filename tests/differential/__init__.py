"""Every public function, by every way of calling it, held against JAX.

    python -m tests.differential --peer jax [--cases N] [--seed S] [--only NAME]
    python -m tests.differential                 the recorded sample, without JAX

`table/`       one row for each public function: the kinds of its arguments
`kinds.py`     what each kind of argument can be
`cases.py`     rows crossed with kinds, modes and settings; a case follows from a seed
`modes.py`     eager, jit, vmap, grad, … : how a case is called
`outcomes.py`  what came of it, and what it takes for two of them to be equal
`purpose.py`   where ftrace differs on purpose; `refusals.py` has what is refused
`record.py`    outcomes in a file: a sample of them is part of the repository
`watch.py`     a case that crashes or hangs ends no run

A new public function needs a row in `table/`, or a reason in `table/outside.py`, or
`tests/laws/test_differential.py` fails; after that, `--record` writes the sample anew.
What concerns arrays over devices is called on eight of them.
"""
