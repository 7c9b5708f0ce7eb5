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
      given: a pattern that the case contains: its mode, its setting, its arguments.
      documented: the page that says so.
    """

    names: str
    what: str
    shows: str
    reason: str
    modes: tuple[str, ...] = ()
    given: str = ""
    documented: str = PORTING


ANY = r".*"
_WEAKNESS = "weak types follow from the operands alone, not from how a result is made"
_NAN = "a cotangent of zero wins over infinity and NaN; at the edges limits are taken"
_INFINITE = r"(not|:) np\.\w+\((-?nan|-?inf|nan[+-]nanj)"
_MORE = "more is taken than in JAX where the meaning is plain"
_STRICT = "what has no meaning is refused"

#: What JAX says where ftrace does what is asked, by the functions that say so.
_REFUSALS = {
    r".*": (
        "NotImplementedError",
        "is not supported",
        "zero-size",
        "ZeroDivisionError",
        "every element be nonnegative",
        "float0 array",
        "MLIRError",
        "OverflowError",
        "primal and tangent arguments to jax.jvp do not match",
        "unexpected JAX type",
        "called on tangent values inconsistent",
        "cotangent type does not match",
        "Abstract tracer value encountered where concrete value is expected: .* size",
    ),
    r"(numpy|lax|nn|scipy)\..*": ("does not accept dtype", "not inexact"),
    r"numpy\..*": (
        "got <class '(list|tuple)'>",
        "requires ndarray",
        "Invalid axis",
        "out of bounds",
        "for array of dimension 0",
        "too many values",
        "diag input",
        "Sizes passed to split",
        "must be integer typed",
        "x values not supported",
        "must not be narrower",
        "must be integers",
        "int expected",
        "Slice size at",
        "Cannot lower",
        "indices must have an integer type",
        "no attribute 'shape'",
        "Cannot broadcast to shape with fewer",
        "Cannot concatenate arrays",
        "not large enough to hold flattened index",
        "Abstract tracer value encountered",
    ),
    r"numpy\.(at_\w+|indexed\w*)": ("fewer dimensions", "AttributeError", "IndexError"),
    r"lax\.(?!linalg).*": (
        "same dtypes?",
        "inexact dtype",
        "negative axes",
        "out-of-bounds",
        "out of bounds",
        "iota dimension",
        "must be specified",
        "k must be",
        "Cannot lower",
        "Slice size at",
        "Invalid (axis|start_index_map)",
        "unhashable",
        "must be a permutation of operand",
        "must have an integer type",
        "must be disjoint",
        "must have shapes",
        "must be a floating type",
        "Numpy array",
        "select cases must have the same shapes",
        "must have __hash__",
        "Reverse-mode differentiation does not work",
    ),
    r"(lax|scipy|numpy)\.linalg\..*": (
        "same dtypes?",
        "must be a square matrix",
        "out of bounds",
        "nonzero length",
        "Reverse-mode differentiation does not work",
        "inputs are supported",
        "tangent arguments to jax.jvp do not match",
    ),
    r"scipy\..*": ("diag input",),
    r"ops\..*": ("fewer dimensions", "out of bounds", "Slice size at"),
    r"nn\..*": ("complex value",),
}

#: What ftrace says of what JAX makes something of.
_REFUSED = "|".join((
    "where: shape", "must fit the array of shape", "takes integers",
    "must be positive, got", r"at least \d+ elements", "start <= stop",
    "has no derivative", "is required, got", "there are no axes", "initial= is not",
    "floor is not defined for c", "segment_ids must be integers",
    "do not broadcast to the place", r"complex numbers have no m(ax|in)imum",
    "do not broadcast to shape", "must be a scalar or have the shape",
    "must name an axis of", "requires operands of one dtype",
    "indices must be integers", "requires operands with the same number of axes",
    "takes float or complex numbers", "how many elements the result has",
    "the array must be float32 or float64",
    "must be float32, float64", "are required, got", "are transformed; got",
    "elements no 0 can", "axis -?\\d+ is out of bounds", "constants for m=0",
    "must match the leading axes", "no elements to extend", "the modes are fill",
    "minimize runs outside jit",
    "an index must be an integer", r"(min|max) is not defined for c",
))  # fmt: skip

_LOSES_WEAKNESS = "|".join((
    r"numpy\.(log2|log10|rad2deg|deg2rad|degrees|radians|heaviside|hypot|logaddexp2?)",
    r"numpy\.(power|pow|float_power|ldexp|frexp|diagflat|full_like)",
    r"lax\.(clz|full_like)|numpy\.(linalg\.norm|gcd|lcm)|random\.choice",
    r"numpy\.(polyval|polydiv|resize|union1d|angle|argpartition)|nn\.(softmax|log_sigmoid)",
    r"flatten_util\.ravel_pytree|tree_util\.tree_broadcast|lax\.(conj|scan)",
    r"numpy\.(choose|unravel_index|unique_inverse|unique_all|intersect1d|sinc|i0)",
    r"scipy\.(special|stats)\..*", r"scipy\.linalg\.block_diag",
    r"numpy\.(unique|unwrap)|numpy\.fft\..*|lax\.dot_general",
))  # fmt: skip


def _of_derivatives(
    names: str, what: str, shows: str, reason: str, given: str = ""
) -> list[Purpose]:
    """A difference of derivatives; the value beside them is held to JAX's."""
    whole, beside = ("grad", "jacfwd", "jit_vmap_grad"), ("jvp", "vjp", "linearize")
    return [
        Purpose(names, what, shows, reason, whole, given),
        Purpose(names, what, f"^result.*{shows}", reason, beside, given),
    ]


PURPOSES: tuple[Purpose, ...] = (
    # Weak types.
    Purpose(ANY, "weak", r"bool\[", "bools are never weak"),
    *_of_derivatives(
        ANY, "weak", " weak; not .*\\]$", "derivatives of weak numbers are weak",
        r"weak (int|float|complex)|python (int|float|complex)",
    ),
    *_of_derivatives(
        ANY, "weak", "\\]; not .* weak$",
        "what meets an array, in the value or in the cotangent, is strong from there",
    ),
    Purpose(
        r"jac\w+|hessian|vjp|linear\w+", "weak", "",
        "derivatives are as weak as what they are of",
    ),
    Purpose(_LOSES_WEAKNESS, "weak", "", _WEAKNESS),
    Purpose(r"nn\..*", "weak dtype", "float", "activations of integers are floats"),
    # Derivatives at the edges.
    *_of_derivatives(ANY, "value", _INFINITE, _NAN, " special: "),
    *_of_derivatives(
        r"(numpy|lax)\.(float_)?pow\w*|(numpy|lax)\.(\w*mod|rem\w*|floor_divide|fabs)"
        r"|numpy\.(\w*norm|n?a?n?(std|var)|hypot|sqrt|logaddexp2?|prod|nanprod|cumprod)"
        r"|(numpy|lax|scipy)\.linalg\..*|scipy\..*|lax\.(\w*prod|r?sqrt|cbrt|atan2)"
        r"|numpy\.(arc\w+|a\w+h?|cbrt|log\w*|divide|reciprocal|corrcoef|geomspace)"
        r"|numpy\.vander",
        "value", _INFINITE, _NAN,
    ),
    Purpose(
        r"hessian|jac\w+|grad|value_and_grad", "value", _INFINITE, _NAN,
        given=" special: ",
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
    *_of_derivatives(
        r"lax\.clamp", "value", "", "in a bound, the bound is what has the slope"
    ),
    *_of_derivatives(
        r"scipy\.linalg\.solve", "value", "",
        "a symmetric matrix has its slope in the half that is read",
        r"assume_a='(pos|sym)'",
    ),
    *_of_derivatives(
        r"lax\.(gather|dynamic_\w+)", "value", "",
        "an index out of bounds that is clipped has the slope of the last element",
    ),
    # Values.
    Purpose(
        r"numpy\.sinc", "value", r": np\.float64\(-?0\.0\)", "its zeros are exact"
    ),
    Purpose(
        r"numpy\.modf", "value", r"\(-?0\.0\); not np\.float64\((-?0\.0|nan)\)",
        "the fraction has the sign of the number, and infinities have none, as in C",
    ),
    *_of_derivatives(
        r"numpy\.modf", "value", "", "the fraction of infinities is a constant",
        " special: ",
    ),
    Purpose(
        r"scipy\.(stats\.norm\.(log)?(isf|sf|cdf|ppf)|special\.(log_ndtr|ndtri))",
        "value", "float64",
        "far out, and near 0, series have as many terms as float64 can tell",
    ),
    Purpose(
        ANY, "value", "(float64|complex128)", "a weak array has 32 bits",
        given=r" default .*weak (float|complex)\[\d",
    ),
    Purpose(
        r"nn\.gelu", "value", "", "left of 0, 1 + tanh leaves a rounding of 1 in JAX"
    ),
    Purpose(
        r"numpy\.ldexp", "value", r"not np\.float64\(-?(inf|0\.0)\)",
        "denormals count, and powers are taken in steps", given=" special: ",
    ),
    Purpose(
        r"lax\.scatter_apply", "value", "",
        "the function is applied once to an element of several windows",
    ),
    Purpose(
        r"numpy\.(true_divide|divide)", "value", r"nan\); not np\.float64\(0\.0\)",
        "0/0 of bools is NaN", given=r"bool\[",
    ),
    Purpose(
        r"scipy\.ndimage\.map_coordinates", "value", "not .*nan",
        "what has the weight 0 does not count", given=" special: ",
    ),
    Purpose(
        r"numpy\.linalg\.(vector_norm|norm|matrix_norm)", "value dtype", "float",
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
        r"(numpy|lax|nn)\.(tanh?|logistic|sigmoid)", "value", "",
        "1 - tanh² cancels where tanh is near 1, and 1 + tan² where tan is near i",
    ),
    *_of_derivatives(
        r"random\.uniform", "value", "", "16-bit floats are computed in float32"
    ),
    Purpose(
        r"numpy\.fft\..*|scipy\.fft\..*|lax\.conv\w*|nn\.celu|scipy\.signal\..*|scipy\.linalg\.fiedler_companion"
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
        r"numpy\.(angle|histogram.*|fft\.irfftn|cov|polyint)|scipy\.linalg\.qr_multiply",
        "dtype", "", "each result has the dtype of what it is made of",
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
    Purpose(
        r"(nn|scipy\.special)\.log_softmax", "value", "complex",
        "the logarithm of a complex number is known up to full turns",
    ),
    Purpose(
        r"scipy\.special\.(log)?(gamma\w*|beta\w*)", "value", r": np\.float64\(0\.0\)",
        "its zeros are exact",
    ),
    Purpose(
        r"scipy\.special\.(kl_div|rel_entr)", "value", "float32",
        "its terms cancel where both numbers are near each other",
    ),
    Purpose(
        r"numpy\.(nan)?cum(prod|sum)", "value", "", "16-bit floats add up in float32",
        given="dtype='b?float16'",
    ),
    Purpose(
        r"scipy\.stats\.norm\..*|nn\.(squareplus|soft_sign|(log_)?softmax)"
        r"|scipy\.special\.(log_)?softmax", "value", "",
        "integers become floats by themselves, and do not wrap",
        given=r".*int\d+\[",
    ),
    *_of_derivatives(
        r"numpy\.(cumulative_|cum|nancum)(sum|prod)", "value", "",
        "the derivative is rounded where the value is", "dtype='float32'",
    ),
    *_of_derivatives(
        r"numpy\.logaddexp2?", "value", "", "beside infinities it is a maximum",
        " special: ",
    ),
    *_of_derivatives(
        r"scipy\.special\.(factorial|gamma|gammaln|digamma)|lax\.(lgamma|digamma)",
        "value", "float64", "near a zero of its derivative digits are lost to JAX",
    ),
    *_of_derivatives(
        r"nn\.standardize|numpy\.(var|std)", "value", "float32",
        "JAX subtracts squares that are rounded", "weak float",
    ),
    Purpose(
        r"jvp|vjp|lax\.cond", "value", "float64", "a number alone has 32 bits",
        given=" default .*python float",
    ),
    *_of_derivatives(
        r"nn\.standardize", "value", r"not np\.float64\(nan",
        "without axes each element is its own mean", r"axis=\(\)",
    ),
    *_of_derivatives(
        r"nn\.relu6?", "value", "", "the slope at NaN of what returns it is 1",
        " special: ",
    ),
    Purpose(
        r"scipy\.special\.betaln", "value", "float64",
        "of large numbers JAX's lgamma loses digits", given=" special: ",
    ),
    Purpose(
        r"numpy\.(pow|power)", "value", r"not np\.complex128\(nan",
        "0 to a power with a positive real part is 0",
    ),
    Purpose(
        r"numpy\.polydiv", "value", r"nan", "a leading 0 divides nothing",
        given=r"bool\[|int\d+\[",
    ),
    Purpose(
        r"numpy\.nancumsum", "value", "int32", "sums of saturated integers wrap",
        given=" special: ",
    ),
    Purpose(
        r"numpy\.(linalg\.vecdot|average)", "value", ": .*nan",
        "0 times infinity is NaN", given=r"bool\[",
    ),
    Purpose(
        r"numpy\.polyval", "value", "inf|nan", "no power begins with 0 times infinity",
        given=" special: ",
    ),
    Purpose(
        r"(nn|scipy\.special)\.logsumexp.*|numpy\.linspace", "value", "",
        "terms cancel, or are rounded to integers", given=" special: ",
    ),
    *_of_derivatives(
        r"scipy\.special\.(i0|i1)|numpy\.i0", "value", r": np\.float64\(-?0\.0\)",
        "the slope at 0 is 0",
    ),
    *_of_derivatives(
        r"random\.(truncated_normal|triangular)", "value", "", "there is no interval",
    ),
    Purpose(
        r"lax\.lgamma|scipy\.special\.(gammaln|factorial)", "value", "float64",
        "near its zeros JAX's lgamma loses digits",
    ),
    Purpose(
        r"lax\.linalg\.lu_pivots_to_permutation", "value", "",
        "a pivot beyond the rows moves none",
    ),
    Purpose(r"lax\.empty", "dtype", "float32.*not float64", "floats have 32 bits"),
    Purpose(
        r"random\.(key|PRNGKey|split|fold_in)\w*", "value", "",
        "a seed has 64 bits, with the switch or without",
        given="default .*1099511627776",
    ),
    Purpose(r"numpy\.getitem", "raw", "IndexError", "NumPy's own array is indexed"),
    Purpose(r"tree(_util)?\.(tree_)?all", "raw", "truth value", "NumPy's own array"),
    Purpose(r"lax\.unstack", "dies", "", "JAX compiles 1000 results for minutes"),
    # Dtypes where nothing is switched: arrays keep theirs, what is made has 32 bits.
    Purpose(
        r"random\..*", "dtype value", "float32", "random numbers have 32 bits",
        given=" default ",
    ),
    *_of_derivatives(
        r"random\..*", "value", "float64", "random numbers have 32 bits", " default ",
    ),
    Purpose(
        r"eval_shape|ShapeDtypeStruct", "structure", "float32.*not.*float64",
        "a number alone, or no dtype, is of 32 bits", given=" (default|narrow) ",
    ),
    Purpose(
        r"numpy\.(nan)?arg(min|max|sort)|numpy\.(searchsorted|unique.*|nonzero|argwhere)"
        r"|numpy\.(ravel_multi_index|flatnonzero|digitize|count_nonzero|unravel_index)"
        r"|numpy\.lexsort|lax\.(arg\w+|top_k)", "dtype", "int32.*not u?int(64|8)",
        "indices are of int32", given=" (default|narrow) ",
    ),
    Purpose(
        ANY, "dtype", "u?int64.*not u?int32", "arrays keep their dtype, and promote so",
        given=" default .*uint32",
    ),
    Purpose(
        ANY, "dtype value shape weak", "", "NumPy's scalars of 64 bits are weak",
        given=" default .*scalar (int64|float64|complex128)",
    ),
    Purpose(
        r"lax\.(\w+_carry|branch)", "accepts dtype",
        r"equal .*types|\b([a-z]+)\d+\S* weak; not \1\d+",
        "NumPy's scalars of 64 bits are weak",
    ),
    Purpose(
        r"lax\.(\w+_carry|branch)", "weak", "", _WEAKNESS,
    ),
    Purpose(
        r"flatten_util\..*|tree_util\..*|numpy\.(astype|atleast_.*|broadcast_arrays)",
        "dtype value", "", "a number alone, or no dtype, is of 32 bits",
        given=r" default .*(python|weak|None|mixed_arrays)",
    ),
    Purpose(
        r"numpy\.(setdiff1d|setxor1d|union1d|intersect1d|unique.*|isin)", "shape value",
        "", "a weak array has 32 bits", given=" default .*weak",
    ),
    *_of_derivatives(
        ANY, "dtype", "(float32|complex64).*not (float64|complex128)",
        "the derivative by a number is a number of 32 bits",
        " default .*(python|weak) ",
    ),
    *_of_derivatives(
        ANY, "value", "(float64|complex128)",
        "the tangent of a number is a number of 32 bits",
        " python default .*(python|weak) ",
    ),
    Purpose(
        r"numpy\.apply_along_axis", "dtype", "", "the function is given an array",
    ),
    # Sets and percentiles.
    Purpose(
        r"numpy\.setxor1d", "shape", "", "NaN is one element, in both sets or in one",
        given=" special: ",
    ),
    Purpose(
        r"numpy\.(nan)?(percentile|quantile)", "shape value", "",
        "a number has no axis to keep", given=r"\[\], .*keepdims=True",
    ),
    Purpose(r"random\.choice", "shape dtype", "", "whole rows are drawn"),
    Purpose(
        r"ops\.segment_\w+", "shape", "", "one number of a segment has the whole array",
        given=r"(scalar|python|0d) \w+\[\]",
    ),
    # Errors.
    *(
        Purpose(names, "accepts", "|".join(texts), _MORE)
        for names, texts in _REFUSALS.items()
    ),
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
            and re.search(row.given, str(case))
        ):
            return row
    return None
