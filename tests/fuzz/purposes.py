"""Where a result differs on purpose, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

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
      units: the greatest difference, in the distances of floats at 1.
      least: so many statements at least: the operands of the last one are rounded.
      share: the greatest difference of floats, as a part of the greatest number given.
    """

    reason: str
    text: str = ""
    detail: str = ""
    kinds: tuple[str, ...] = ("value",)
    ways: tuple[str, ...] = ("peer",)
    transforms: tuple[str, ...] = TRANSFORMS
    dtypes: str = ""
    units: float = float("inf")
    least: int = 1
    share: float = float("inf")

    def explains(self, program: Program, failure: Failure) -> bool:
        if failure.way not in self.ways or failure.kind not in self.kinds:
            return False
        if failure.transform not in self.transforms or failure.apart > self.units:
            return False
        if not re.search(self.detail, failure.detail):
            return False
        if len(program.statements) < self.least:
            return False
        if self.share < float("inf"):
            given = max(float(np.abs(x).max(initial=0)) for x in program.arguments())
            if failure.apart * EPS > self.share * given:
                return False
        kinds = {dtype_of(i.dtype).kind for i in program.inputs}
        if self.dtypes and not kinds & set(self.dtypes):
            return False
        return any(re.search(self.text, s.text) for s in program.statements)


GRADIENTS = ("grad", "vmap(grad)")
EPS = 2.0**-23
ANY_WAY = ("jit", "interpreter", "loop", "inner jit", "peer")
#: What was found, and not 0.
NOT_ZERO = r", not (np\.float\d+\()?-?0(\.0)?\)? ±"
PURPOSES = (
    Purpose(
        "whether what rounding leaves of equal numbers is 0, asked as a bool",
        r"standardize|jnp\.(var|std)\(",
        detail=r"np\.(True|False)_, not",
        ways=ANY_WAY,
    ),
    Purpose(
        "whether a sum of the largest numbers overflows on the way, asked as a bool",
        r"mean\(|sum\(",
        detail=r"np\.(True|False)_, not",
        ways=ANY_WAY,
    ),
    Purpose(
        "running products of which one overflows: the host carries them in 64 bits",
        r"cum(ulative_)?prod\(",
        detail="nan|inf",
        ways=ANY_WAY,
        dtypes="fc",
    ),
    Purpose(
        "whether what is all but 0 or whole is that, which rounding on the way decides",
        r"\blog\(|convolve\(",
        detail=r"np\.(True|False)_, not",
        ways=ANY_WAY,
        least=2,
    ),
    Purpose(
        "zeros of both signs in gradients: what a selection left out adds no 0",
        r"partition\(",
        ways=ANY_WAY,
        kinds=("zero",),
        transforms=GRADIENTS,
    ),
    Purpose(
        "products that overflow in one order of their factors, and meet a 0 there",
        r"jnp\.prod\(",
        detail=r"nan|inf",
        ways=ANY_WAY,
        dtypes="fc",
    ),
    Purpose(
        "means of integers of more digits than a float has",
        r"mean\(",
        ways=ANY_WAY,
        dtypes="iu",
        share=2**-18,
    ),
    Purpose(
        "0/0, where a sum of 16 bits is 0 when it is rounded and not before",
        r" / ",
        detail=r": 1, not nan",
        ways=ANY_WAY,
        dtypes="V",
        least=2,
    ),
    Purpose(
        "the sign of NaN, which says nothing",
        r"signbit\(|copysign\(",
        ways=ANY_WAY,
        least=2,
    ),
    Purpose(
        "a product minus another, which XLA rounds once, so that none overflows",
        r" - .*max\(",
        detail=r"\(0\.0\), not np\.float\d+\(nan\)",
        least=2,
    ),
    Purpose(
        "quantiles of no numbers, which are NaN here and an error in JAX",
        r"(quantile|median|percentile)\(",
        detail=r"Slice size at index \d+ in gather op is out of range",
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
        "gradients of nextafter, which JAX has not",
        detail="Differentiation rule for 'nextafter' not implemented",
        kinds=("error",),
        transforms=GRADIENTS,
    ),
    Purpose(
        "all and any of complex numbers, of which JAX reads the real part alone",
        r"jnp\.(all|any)\(",
        detail=r"np\.(True|False)_, not np\.(True|False)_",
        dtypes="c",
    ),
    Purpose(
        "sinc of a whole number is 0 here; in JAX sin of its multiple of a rounded pi",
        r"sinc\(",
        detail=NOT_ZERO,
    ),
    Purpose(
        "shares of ties in a scatter, whose sum in JAX leaves a rounding beside 0",
        r"\.(max|min)\(|segment_(max|min)\(",
        detail=NOT_ZERO,
        transforms=GRADIENTS,
        units=2,
    ),
    Purpose(
        "gradients of extrema scattered by clipped indices, which JAX does not clip",
        r"\.(max|min)\(.*mode='clip'",
        transforms=GRADIENTS,
    ),
    Purpose(
        "derivatives where tanh is flat: JAX's 1 - y² keeps the rounding of y",
        r"tanh\(|sigmoid\(|logistic\(|silu\(|gelu\(",
        transforms=GRADIENTS,
        units=8,
    ),
    Purpose(
        "derivatives where tanh is flat, which are 0 here and a rounding of 1 in JAX",
        r"tanh\(",
        detail=NOT_ZERO,
        transforms=GRADIENTS,
    ),
    Purpose(
        "derivatives of e^x - 1, which are its value + 1 in JAX",
        r"expm1\(|elu\(",
        transforms=GRADIENTS,
        units=8,
    ),
    Purpose(
        "gelu left of 0, where JAX's 1 + tanh leaves a rounding of 1",
        r"gelu\(",
        units=64,
    ),
    Purpose(
        "derivatives of standardize and var: JAX subtracts squares that are rounded",
        r"standardize\(|jnp\.(var|std)\(",
        transforms=GRADIENTS,
        units=64,
    ),
    Purpose(
        "the derivative of i0 near 0, where JAX's loses digits to cancellation",
        r"i0\(",
        transforms=GRADIENTS,
        units=8,
    ),
    Purpose(
        "i0 of large numbers, which in JAX is infinity times 0",
        r"i0\(",
        detail=r": \S*nan\S*, not \S*inf",
    ),
    Purpose(
        "-0 + 0, which is 0: XLA leaves out the 0 that is added",
        r" [+-] ",
        detail=r": \S*-0(\.0)?\)?, not \S*0(\.0)?\)? ±",
        kinds=("zero",),
    ),
    Purpose(
        "standardize in 16 bits: JAX rounds the squares before it subtracts them",
        r"standardize\(",
        detail=r"float16|: -?(\d|nan|inf)",
        dtypes="fV",
    ),
    Purpose(
        "the derivative of sinh in float16, whose cosh overflows halfway in JAX",
        r"sinh\(",
        detail=r"np\.float16\(-?inf\), not",
        transforms=GRADIENTS,
    ),
    Purpose(
        "quotients by a complex infinity, which are NumPy's here",
        r"/|reciprocal",
        detail="nan",
        dtypes="c",
    ),
    Purpose(
        "derivatives of quotients in 16 bits, where JAX's y ** -2 is denormal",
        r"/|reciprocal",
        transforms=GRADIENTS,
        detail=r"float16|: -?\d",
        dtypes="fV",
    ),
    Purpose(
        "derivatives of logaddexp: JAX subtracts its result, which is rounded",
        r"logaddexp",
        transforms=GRADIENTS,
    ),
    Purpose(
        "derivatives of prod beside what overflows or is 0: limits, in JAX often NaN",
        r"prod\(",
        detail="inf|nan",
        transforms=GRADIENTS,
    ),
    Purpose(
        "the order of keys that one rounding makes equal and another does not",
        r"lax\.sort\(",
        ways=ANY_WAY,
        least=2,
    ),
    Purpose(
        "a NaN with a sign, which is less than all numbers to JAX's top_k",
        r"top_k\(|partition\(",
        least=2,
    ),
    Purpose(
        "convolve with infinities, by which JAX multiplies padding now and then",
        r"convolve\(|correlate\(",
        detail="nan",
    ),
    Purpose(
        "a small index beside a long axis, whose size JAX takes for one, too",
        detail=r"OverflowError: Python integer \d+ out of bounds for u?int8$",
        kinds=("error",),
    ),
    Purpose(
        "an element beside larger ones of what rounds all of them together",
        r"linalg\.(inv|cholesky)\(|fft\.",
        ways=ANY_WAY,
        units=8,
    ),
    Purpose(
        "tanh of large numbers, which is 1 less a rounding in JAX",
        r"tanh\(",
        detail=r"np\.float32",
        units=2,
    ),
    Purpose(
        "logistic in float16, whose e^-x overflows in JAX",
        r"logistic\(|sigmoid\(",
        detail=r"np\.float16\(0\.0\), not",
        units=1,
    ),
    Purpose(
        "gradients of running products, where JAX's scan loses digits to cancellation",
        r"cum(ulative_)?prod\(",
        transforms=GRADIENTS,
        units=64,
    ),
    Purpose(
        "gradients of float16 that are denormal where one factor comes before another",
        detail=r"np\.float16\(",
        transforms=GRADIENTS,
        units=2**-10,
    ),
    Purpose(
        "zeros of both signs, which are equal here: JAX's partition puts -0 first",
        r"partition\(",
        detail=r"\(-?0\.0\)",
        kinds=("value", "zero"),
        dtypes="fV",
    ),
    Purpose(
        "what was not taken adds nothing to a derivative within the program either",
        r"jax\.(jvp|grad|vjp|linearize)\(",
        detail=r"^result \d+ at \(.*\): \S*nan\S*, not (?!\S*nan)",
    ),
    Purpose(
        "the slope at NaN of what returns its operand there: 1 here, 0 in JAX",
        r"relu6?\(|hard_|clamp\(",
        detail=r": (np\.float\d+\()?-?0(\.0)?\)?, not",
        transforms=GRADIENTS,
    ),
)


def purpose(program: Program, failure: Failure, shrunk: bool = True) -> str | None:
    """Why the failure is none, if it is none.

    Which statement it comes from is known of a shrunk program, or from an error alone.
    """
    for row in PURPOSES:
        if row.text and not shrunk and failure.kind != "error":
            continue
        if row.explains(program, failure):
            return row.reason
    return None
