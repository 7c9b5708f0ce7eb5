"""Where a result differs on purpose, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.fuzz.judge import Failure
from tests.fuzz.program import Program, dtype_of
from tests.fuzz.ways import TRANSFORMS


@dataclass(frozen=True)
class Purpose:
    """A rule over failures: ways, kinds, and what stands in a statement or message.

    Attributes:
      reason: why it is no fault.
      text: a regular expression, searched in the statements of the shrunk program.
      detail: one that the message holds.
      dtypes: kinds, one of which an argument has.
    """

    reason: str
    text: str = ""
    detail: str = ""
    kinds: tuple[str, ...] = ("value",)
    ways: tuple[str, ...] = ("peer",)
    transforms: tuple[str, ...] = TRANSFORMS
    dtypes: str = ""

    def explains(self, program: Program, failure: Failure) -> bool:
        if failure.way not in self.ways or failure.kind not in self.kinds:
            return False
        if failure.transform not in self.transforms:
            return False
        if not re.search(self.detail, failure.detail):
            return False
        kinds = {dtype_of(i.dtype).kind for i in program.inputs}
        if self.dtypes and not kinds & set(self.dtypes):
            return False
        return any(re.search(self.text, s.text) for s in program.statements)


GRADIENTS = ("grad", "vmap(grad)")
PURPOSES = (
    Purpose(
        "whether what rounding leaves of equal numbers is 0, asked as a bool",
        r"standardize|jnp\.(var|std)\(",
        detail=r"np\.(True|False)_, not",
        ways=("jit", "interpreter", "loop", "inner jit", "peer"),
    ),
    Purpose(
        "quantiles of no numbers, which are NaN here and an error in JAX",
        r"(quantile|median|percentile)\(",
        detail="Slice size at index 0 in gather op is out of range",
        kinds=("error",),
    ),
    Purpose(
        "gradients of while loops, which JAX has in forward mode only",
        detail="Reverse-mode differentiation does not work for lax.while_loop",
        kinds=("error",),
        transforms=GRADIENTS,
    ),
    Purpose(
        "gradients of products into places that repeat, which JAX has not",
        detail="scatter_mul gradients are only implemented",
        kinds=("error",),
        transforms=GRADIENTS,
    ),
    Purpose(
        "the derivative of sinc near 0, where JAX's loses digits to cancellation",
        r"sinc\(",
        transforms=GRADIENTS,
    ),
    Purpose(
        "derivatives of quotients, where JAX's y ** -2 overflows and ours do not",
        r"/|reciprocal|\*\* -1",
        detail="inf|nan",
        transforms=GRADIENTS,
    ),
    Purpose(
        "what was not taken adds nothing to a gradient: no NaN from 0 times infinity",
        detail=r"^result \d+ at \(.*\): \S*nan\S*, not (?!\S*nan)",
        transforms=GRADIENTS,
    ),
    Purpose(
        "signs of zeros in gradients: the terms of a cotangent have no order",
        kinds=("zero",),
        transforms=GRADIENTS,
    ),
    Purpose(
        "the derivative of ldexp at 0, which is that of a product here",
        r"ldexp\(",
        transforms=GRADIENTS,
    ),
    Purpose(
        "ties in a window share its gradient, as in max; the first has it in JAX",
        r"reduce_window\(.*lax\.(min|max)",
        transforms=GRADIENTS,
    ),
    Purpose(
        "quotients by a complex infinity, which are NumPy's here",
        r"/|reciprocal",
        detail="nan",
        dtypes="c",
    ),
)


def purpose(program: Program, failure: Failure) -> str | None:
    """Why the failure is none, if it is none."""
    for row in PURPOSES:
        if row.explains(program, failure):
            return row.reason
    return None
