"""Records which dtypes JAX gives: promotion, defaults, and the 64-bit switch.

    python tests/data/record_promotion.py

Needs jax; wrote `promotion.json` with jax 0.10.2. For each state of the switch, each
function of two operands and each pair of them: the dtype of the result, with a `~`
where it is weak, as a letter; functions with the same letters share a line. Then what
the expressions of `EXPRESSIONS` give.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("promotion.json")

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
SCALARS = {"True": True, "1": 1, "1.0": 1.0, "1j": 1j}

#: The functions of two operands, by their module.
FUNCTIONS = {
    "numpy": """
        add subtract multiply divide true_divide floor_divide remainder mod fmod divmod
        power pow float_power maximum minimum fmax fmin arctan2 atan2 hypot logaddexp
        logaddexp2 copysign heaviside nextafter equal not_equal less less_equal greater
        greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or
        bitwise_xor gcd lcm left_shift right_shift ldexp isclose array_equal append dot
        inner outer kron vdot clip
        """,
    "lax": """
        add sub mul div rem max min pow atan2 nextafter eq ne lt le gt ge bitwise_and
        bitwise_or bitwise_xor shift_left shift_right_arithmetic shift_right_logical
        complex
        """,
}
NAMES = [
    f"{module}.{name}" for module, names in FUNCTIONS.items() for name in names.split()
]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

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


def function(library: Any, name: str) -> Callable[..., Any]:
    return reduce(getattr, name.split("."), library)


def describe(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(describe, value))
    weak = bool(getattr(value, "weak_type", False))
    return value.dtype.name + "~" * weak


def dtype_of(call: Callable[[], Any]) -> str:
    """The dtype that a call gives, or the kind of exception."""
    try:
        return describe(call())
    except OverflowError:
        return "OverflowError"
    except (TypeError, ValueError) as error:
        return "TypeError" if isinstance(error, TypeError) else "ValueError"


def outcome(expression: str, names: dict[str, Any]) -> str:
    return dtype_of(lambda: eval(expression, dict(names)))


def operands(xnp: Any) -> dict[str, Any]:
    """All that can meet in an operation: an array per dtype, Python's scalars."""
    return {name: xnp.ones((), name) for name in DTYPES} | SCALARS


def traced(library: Any, f: Callable[..., Any], *pair: Any) -> Any:
    """What a function of arrays, and of Python's numbers as they are, would give."""
    arrays = [x for x in pair if hasattr(x, "dtype")]

    def call(*arrays: Any) -> Any:
        given = iter(arrays)
        return f(*(next(given) if hasattr(x, "dtype") else x for x in pair))

    return library.eval_shape(call, *arrays)


def pairs(xnp: Any) -> list[tuple[Any, Any]]:
    values = operands(xnp).values()
    return [(x, y) for x in values for y in values]


def main() -> None:
    import warnings

    import jax
    import jax.numpy as jnp
    import numpy as np

    warnings.simplefilter("ignore")
    found: dict[str, dict[str, list[str]]] = {}
    expressions: dict[str, Any] = {}
    for state in (False, True):
        jax.config.update("jax_enable_x64", state)
        values = pairs(jnp)
        found[str(state)] = {
            name: [
                dtype_of(partial(traced, jax, function(jax, name), *p)) for p in values
            ]
            for name in NAMES
        }
        expressions[str(state)] = {
            e: outcome(e, {"xnp": jnp, "np": np}) for e in EXPRESSIONS
        }
    every = sorted({x for of in found.values() for row in of.values() for x in row})
    letter = dict(zip(every, LETTERS, strict=False))
    recorded: dict[str, Any] = {
        "letters": {value: key for key, value in letter.items()},
        "expressions": expressions,
    }
    for state, of in found.items():
        lines: dict[str, list[str]] = {}
        for name, row in of.items():
            lines.setdefault("".join(letter[x] for x in row), []).append(name)
        recorded[state] = {" ".join(names): line for line, names in lines.items()}
    PATH.write_text(json.dumps(recorded, indent=0) + "\n")


def load() -> dict[str, dict[str, list[str]]]:
    """By switch and function: the dtypes of all pairs."""
    recorded = json.loads(PATH.read_text())
    letters = recorded["letters"]
    return {
        state: {
            name: [letters[x] for x in line]
            for names, line in recorded[state].items()
            for name in names.split()
        }
        for state in ("False", "True")
    }


if __name__ == "__main__":
    main()
