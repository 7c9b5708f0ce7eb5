"""Asks JAX for the values of the expressions of sorting_cases.py.

    python tests/data/record_sorting.py [--all]

asks for what is not recorded yet, or for everything; it
needs JAX, which ftrace and its tests do not: they read the file that this writes.
Wrote `sorting.npz` with jax 0.10.2 on the CPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from sorting_cases import PATH, expressions, inputs, recorded, save


def main() -> None:
    """Writes the leaves of every result."""
    scope = {name: jnp.asarray(value) for name, value in inputs().items()}
    scope |= {"n": jnp, "lax": jax.lax, "random": jax.random}
    scope |= {"vjp": jax.vjp, "jvp": jax.jvp}
    again = "--all" in sys.argv or not PATH.exists()
    known = {} if again else recorded()
    found = {}
    for expression in expressions():
        if expression in known:
            found[expression] = known[expression]
            continue
        try:
            result = eval(expression, dict(scope))
            found[expression] = [np.asarray(x) for x in jax.tree.leaves(result)]
        except Exception as error:  # say which one, and go on
            sys.stderr.write(f"{expression}: {type(error).__name__}: {error}\n"[:300])
    save(found)


if __name__ == "__main__":
    main()
