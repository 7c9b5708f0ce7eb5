"""Records which dtypes JAX gives: promotion, defaults, and the 64-bit switch.

    python tests/data/record_promotion.py

Needs jax; wrote `promotion.json` with jax 0.10.2. For each state of the switch and
each pair of operands: the dtype of their sum, and of their quotient, with a `~` where
it is weak; then what the expressions of `EXPRESSIONS` give.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("promotion.json")

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
SCALARS = {"True": True, "1": 1, "1.0": 1.0, "1j": 1j}

#: `xnp` is the numpy of the library, `np` is NumPy; each gives an array or an error.
EXPRESSIONS = (
    "xnp.zeros(2)", "xnp.ones((), int)", "xnp.arange(3)", "xnp.arange(3.0)",
    "xnp.linspace(0, 1, 3)", "xnp.eye(2)", "xnp.array(1)", "xnp.array(1.5)",
    "xnp.array(1j)", "xnp.array([1, 2])", "xnp.array([1.0])", "xnp.full(2, 3)",
    "xnp.asarray(np.float64(1))", "xnp.asarray(np.int64(1))",
    "xnp.array(np.zeros(2))", "xnp.array(np.zeros(2, 'complex128'))",
    "xnp.zeros(2, 'float64')", "xnp.zeros(2, 'int64')", "xnp.zeros(2, float)",
    "xnp.zeros(2, 'uint64')", "xnp.arange(3, dtype='int64')",
    "xnp.ones(2).astype('float64')", "xnp.sin(np.float64(1))", "xnp.sin(1)",
    "xnp.sum(np.ones(2, 'int8'))", "xnp.sum(np.ones(2, 'uint8'))",
    "xnp.sum(np.ones(2, bool))", "xnp.mean(np.ones(2, 'int32'))",
    "xnp.mean(np.ones(2, 'int64'))", "xnp.prod(np.ones(2, 'float64'))",
    "xnp.argmax(np.ones(2))", "xnp.cumsum(np.ones(2, 'int16'))",
    "xnp.exp(np.ones(2, 'int64'))", "xnp.ones(2) * np.float64(2)",
    "xnp.where(True, 1, 2.0)", "xnp.ones(2, 'int32') / 2", "xnp.sqrt(4)",
    "xnp.array(2**31)", "xnp.array(2**40)", "xnp.array(-(2**31))", "xnp.array(2**63)",
    "xnp.array(2**64)", "xnp.ones(2, 'int32') + 2**31", "xnp.ones(2) + 2**40",
    "xnp.ones(2, 'int8') + 127", "xnp.count_nonzero(np.ones(2))",
    "xnp.var(np.ones(2, 'float16'))", "xnp.std(np.ones(2, 'float64'))",
)  # fmt: skip


def describe(value: Any) -> str:
    weak = bool(getattr(value, "weak_type", False))
    return value.dtype.name + "~" * weak


def outcome(expression: str, names: dict[str, Any]) -> str:
    """The dtype that an expression gives, or the kind of exception."""
    try:
        return describe(eval(expression, dict(names)))
    except OverflowError:
        return "OverflowError"
    except (TypeError, ValueError) as error:
        return type(error).__name__


def operands(xnp: Any) -> dict[str, Any]:
    """All that can meet in an operation: an array per dtype, Python's scalars."""
    return {name: xnp.ones((), name) for name in DTYPES} | SCALARS


def table(xnp: Any) -> dict[str, list[str]]:
    """For each pair of operands the dtypes of sum and quotient."""
    values = operands(xnp)
    return {
        f"{a} {b}": [describe(xnp.add(x, y)), describe(xnp.true_divide(x, y))]
        for a, x in values.items()
        for b, y in values.items()
    }


def main() -> None:
    import warnings

    import jax
    import jax.numpy as jnp
    import numpy as np

    warnings.simplefilter("ignore")
    recorded: dict[str, Any] = {}
    for state in (False, True):
        jax.config.update("jax_enable_x64", state)
        recorded[str(state)] = {
            "promotion": table(jnp),
            "expressions": {e: outcome(e, {"xnp": jnp, "np": np}) for e in EXPRESSIONS},
        }
    PATH.write_text(json.dumps(recorded, indent=0) + "\n")


if __name__ == "__main__":
    main()
