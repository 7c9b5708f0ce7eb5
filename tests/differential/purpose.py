"""Where ftrace differs from JAX on purpose.

A row has the functions (a pattern of their full names), what is different (see
`Difference`), a pattern of how it shows, the reason, and where users read of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.differential.cases import Case
from tests.differential.outcomes import Difference

PORTING = "docs/coming-from-jax.md"


@dataclass(frozen=True)
class Purpose:
    """A difference that is meant.

    Attributes:
      names: a pattern of full names.
      what: of the difference, one word or several.
      shows: a pattern that its text contains.
      reason: why it is so.
      modes: in which modes; in all where there are none.
      documented: the page that says so.
    """

    names: str
    what: str
    shows: str
    reason: str
    modes: tuple[str, ...] = ()
    documented: str = PORTING


ANY = r".*"
_WEAKNESS = "weak types follow from the operands alone, not from how a result is made"
_NAN = "a cotangent of zero wins over infinity and NaN; at the edges limits are taken"
_MORE = "more is taken than in JAX where the meaning is plain"
_STRICT = "what has no meaning is refused"

#: What JAX says where ftrace does what is asked.
_REFUSALS = "|".join((
    "NotImplementedError", "does not accept dtype", "got <class '(list|tuple)'>",
    "is not supported", "same dtypes?", "requires ndarray", "inexact dtype",
    "negative axes", "out-of-bounds", "Invalid axis", "out of bounds", "iota dimension",
    "must be specified", "k must be", "int expected", "Numpy array", "Cannot lower",
    "for array of dimension 0", "not inexact", "zero-size", "IndexError",
    "must be a square matrix", "too many values", "diag input", "complex value",
    "Reverse-mode differentiation does not work", "must be integer typed",
    "Sizes passed to split", "fewer dimensions", "Slice size at", "nonzero length",
    "every element be nonnegative", "AttributeError", "x values not supported",
    "float0 array", "must be disjoint", "must have shapes", "must be integers",
    "must be a floating type",
    "Invalid start_index_map", "tangent arguments to jax.jvp do not match",
))  # fmt: skip

#: What ftrace says of what JAX makes something of.
_REFUSED = "|".join((
    "where: shape", "must fit the array of shape", "takes integers",
    "must be positive, got", r"at least \d+ elements", "start <= stop",
    "has no derivative", "is required, got", "there are no axes", "initial= is not",
    "floor is not defined for c", "segment_ids must be integers",
    "do not broadcast to the place", "complex numbers have no maximum",
    "must be float32, float64", "are required, got", "are transformed; got",
    "elements no 0 can", "axis -?\\d+ is out of bounds",
))  # fmt: skip

_LOSES_WEAKNESS = "|".join((
    r"numpy\.(log2|log10|rad2deg|deg2rad|degrees|radians|heaviside|hypot|logaddexp2?)",
    r"numpy\.(power|pow|float_power|ldexp|frexp|diagflat|full_like)",
    r"lax\.(clz|full_like)|numpy\.linalg\.norm",
    r"numpy\.(choose|unravel_index|unique_inverse|unique_all|intersect1d|sinc|i0)",
    r"scipy\.(special|stats)\..*", r"scipy\.linalg\.block_diag",
))  # fmt: skip


def _of_derivatives(names: str, what: str, shows: str, reason: str) -> list[Purpose]:
    """A difference of derivatives; the value beside them is held to JAX's."""
    return [
        Purpose(names, what, shows, reason, ("grad", "jacfwd", "jit_vmap_grad")),
        Purpose(names, what, f"^result.*{shows}", reason, ("jvp", "vjp", "linearize")),
    ]


PURPOSES: tuple[Purpose, ...] = (
    # Weak types.
    Purpose(ANY, "weak", r"bool\[", "bools are never weak"),
    *_of_derivatives(ANY, "weak", "", "derivatives are as weak as what they are of"),
    Purpose(
        r"grad|value_and_grad|jac\w+|hessian|jvp|vjp|linearize", "weak", "",
        "derivatives are as weak as what they are of",
    ),
    Purpose(_LOSES_WEAKNESS, "weak", "", _WEAKNESS),
    Purpose(r"nn\..*", "weak dtype", "float", "activations of integers are floats"),
    # Derivatives at the edges.
    *_of_derivatives(
        ANY, "value", r"(not|:) np\.\w+\((-?nan|-?inf|nan[+-]nanj)", _NAN
    ),
    *_of_derivatives(
        r"numpy\.(unique.*|union1d|setdiff1d|setxor1d|intersect1d)", "value", "",
        "functions of sets have the derivatives of the elements they pick",
    ),
    *_of_derivatives(
        r"(numpy|lax)\.(arccosh|acosh)", "value", "",
        "the derivative is that of the branch that acosh takes",
    ),
    *_of_derivatives(
        r"lax\.approx_.*", "value", "", "of equal elements the first is picked"
    ),
    # Values.
    Purpose(
        r"numpy\.sinc", "value", r": np\.float64\(-?0\.0\)", "its zeros are exact"
    ),
    Purpose(
        r"numpy\.modf", "value", r"\(-?0\.0\); not np\.float64\((-?0\.0|nan)\)",
        "the fraction has the sign of the number, and infinities have none, as in C",
    ),
    Purpose(
        r"numpy\.linalg\.(vector_norm|norm|matrix_norm)", "value", "float",
        "the norm of integers is computed in floats, and does not wrap",
    ),
    *_of_derivatives(
        r"numpy\.ldexp|lax\.cumlogsumexp|scipy\.special\.kl_div", "value", "", _NAN
    ),
    Purpose(
        r"scipy\.special\.(kl_div|zeta|polygamma|i0|i1)|numpy\.geomspace",
        "value", "nan", _NAN,
    ),
    *_of_derivatives(
        r"(numpy|lax)\.tanh", "value", "complex64",
        "1 - tanh² cancels where tanh is near 1, here less than there",
    ),
    *_of_derivatives(
        r"random\.uniform", "value", "", "16-bit floats are computed in float32"
    ),
    Purpose(
        r"numpy\.fft\..*|nn\.celu|scipy\.signal\..*|scipy\.linalg\.fiedler_companion"
        r"|scipy\.special\.(log)?gamma.*", "value", "nan", _NAN,
    ),
    *_of_derivatives(
        r"scipy\.special\.zeta", "value", "", "ζ has no slope where it has no value"
    ),
    Purpose(
        r"lax\.linalg\.cholesky_update", "value", r"0\.0\); not",
        "below the diagonal the factor is zero",
    ),
    Purpose(
        r"nn\.log_sigmoid", "value", r"not np\.float64\(-\d+\.0\)",
        "activations of integers are floats, and do not wrap",
    ),
    Purpose(
        r"scipy\.stats\.norm\..*", "dtype", "",
        "integers become floats by themselves, and promote then",
    ),
    Purpose(
        r"numpy\.(angle|histogram.*|fft\.irfftn)|scipy\.linalg\.qr_multiply", "dtype",
        "", "each result has the dtype of what it is made of",
    ),
    Purpose(r"lax\.concatenate", "shape", "", "axis -1 under vmap is that of a lane"),
    Purpose(r"numpy\.spacing", "value", "", "its sign is that of x, as in NumPy"),
    Purpose(
        r"numpy\.(power|pow|float_power)", "value dtype", "int",
        "integers to negative powers have no value; bools count as the other operand",
    ),
    Purpose(
        r"scipy\.linalg\.(hankel|toeplitz|circulant)", "value", "nan",
        "elements are moved, not multiplied: a NaN stays where it belongs",
    ),
    # Errors.
    Purpose(ANY, "accepts", _REFUSALS, _MORE),
    Purpose(r"numpy\.permute_dims|random\.choice", "accepts", "", _MORE),
    Purpose(
        r"numpy\.(unique.*|union1d)", "accepts", "Abstract tracer",
        "where there is one element, their number is known",
    ),
    Purpose(ANY, "refuses", "IndexBoundsError", "a known index out of bounds raises"),
    Purpose(ANY, "refuses", "OverflowError", "a Python int that does not fit raises"),
    Purpose(ANY, "refuses", _REFUSED, _STRICT),
    # Containers and dtypes.
    Purpose(ANY, "structure", r"^[\[(*,)\]]+; not [\[(*,)\]]+$", "results are tuples"),
    Purpose(
        r"lax\.stop_gradient|numpy\.positive", "structure", "", "a number stays one"
    ),
    Purpose(
        r"numpy\.(promote_types|result_type)", "structure", "",
        "Python's types count as the dtypes that they become",
    ),
    Purpose(
        r"numpy\.(argpartition|var|std|nanvar|nanstd|nanmedian|median)|scipy\.fft\..*"

        r"|lax\.dot_general", "dtype shape", "", "as in NumPy and SciPy",
    ),
)  # fmt: skip


def purpose_of(case: Case, difference: Difference) -> Purpose | None:
    """The row that a difference belongs to; None where it is a fault."""
    for row in PURPOSES:
        if (
            difference.what in row.what.split()
            and (not row.modes or case.mode in row.modes)
            and re.fullmatch(row.names, case.row.name)
            and re.search(row.shows, difference.text)
        ):
            return row
    return None
