"""Where ftrace differs from JAX on purpose.

A row has the functions (a pattern of their full names), what is different (see
`Difference`), a pattern of how it shows, and the reason. Users read of the reasons in
docs/coming-from-jax.md.
"""

from __future__ import annotations

import cmath
import math
import re
from dataclasses import dataclass

from tests.differential.cases import Case
from tests.differential.outcomes import Difference
from tests.differential.refusals import REFUSED_BY_FTRACE, REFUSED_BY_JAX


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
      near: how far the two numbers are from each other at most, as a part of the
        larger; they need not be near where it is 0.
    """

    names: str
    what: str
    shows: str
    reason: str
    modes: tuple[str, ...] = ()
    given: str = ""
    near: float = 0.0

    def holds(self, case: Case, difference: Difference) -> bool:
        return bool(
            difference.what in self.what.split()
            and (not self.modes or case.mode in self.modes)
            and re.fullmatch(self.names, case.row.name)
            and re.search(self.shows, difference.text)
            and re.search(self.given, str(case))
            and (not self.near or _distance(difference.text) <= self.near)
        )


def _distance(text: str) -> float:
    """How far the two numbers of a text are from each other, as a part of the larger.

    Infinite where one is no finite number.
    """
    x, y = map(complex, re.findall(r"np\.\w+\(([^)]*)\)", text))
    if not (cmath.isfinite(x) and cmath.isfinite(y)):
        return math.inf
    return abs(x - y) / max(abs(x), abs(y)) if x != y else 0.0


ANY = r".*"
_WEAKNESS = "weak types follow from the operands alone, not from how a result is made"
_NAN = "a cotangent of zero wins over infinity and NaN; at the edges limits are taken"
_LIMITS = (
    "outside its domain, and at its edges, a function is the limit, or NaN as in C"
)
#: What a text says of a result: of which dtype it is, ours and JAX's.
_WIDE = r"^(result \d+: )?(float64|complex128)\["
_FLOATS_DRAWN = (
    r"random\.(?!key|PRNGKey|fold_in|split|bernoulli|categorical|permutation|rand|choice"
    r"|bits)\w+"
)
_FLOAT32 = r"^(result \d+: )?float32\["
_NARROWER = r"^(result \d+: )?(float32|complex64)\[.*; not (float64|complex128)\["
#: What a text says of its numbers: ours, and JAX's.
_NO_NUMBER = r"np\.\w+\((-?nan|-?inf|-?(nan|inf)[+-](nan|inf)j)"
_OUR_NAN, _ZERO = r": np\.\w+\(nan", r": np\.\w+\(-?0(\.0|j)\)"
_TINY = r"; not np\.\w+\(-?(\d\S*e-|0\.000)"
_JAX_ZERO = r"; not np\.\w+\(-?0(\.0|j)\)"
_NOT_FINITE, _NOT_NAN = f"; not {_NO_NUMBER}", r"; not np\.\w+\(nan"
#: Where JAX has infinity we have no number: a finite slope there is not excused.
_UNDEFINED = f"(: {_NO_NUMBER}.*{_NOT_FINITE}|; not np\\.\\w+\\((-?nan|\\S*nanj))"
_FINITE = r": np\.\w+\(-?\d"
_MORE = "more is taken than in JAX where the meaning is plain"
_STRICT = "what has no meaning is refused"

_LOSES_WEAKNESS = "|".join((
    r"numpy\.(log2|log10|rad2deg|deg2rad|degrees|radians|heaviside|hypot|logaddexp2?)",
    r"numpy\.(power|pow|float_power|ldexp|frexp|diagflat|full_like|round|around)",
    r"lax\.(\w+_carry|branch|full_like)|numpy\.(linalg\.\w*norm|gcd|lcm)|nn\.gelu",
    r"numpy\.(polyval|polydiv|resize|union1d|angle)|nn\.(softmax|log_sigmoid)",
    r"flatten_util\.ravel_pytree|tree_util\.tree_broadcast|lax\.scan",
    r"numpy\.(choose|unravel_index|unique_\w+|intersect1d|setxor1d|sinc|i0)",
    r"scipy\.(special|stats)\..*", r"scipy\.linalg\.block_diag|random\.choice",
    r"numpy\.(unique|unwrap)|numpy\.fft\..*|lax\.dot_general",
))  # fmt: skip


def _of_derivatives(
    names: str,
    what: str,
    shows: str,
    reason: str,
    given: str = "",
    near: float = 0.0,
) -> list[Purpose]:
    """A difference of derivatives; the value beside them is held to JAX's."""
    whole, beside = ("grad", "jacfwd", "jit_vmap_grad"), ("jvp", "vjp", "linearize")
    return [
        Purpose(names, what, shows, reason, whole, given, near),
        Purpose(names, what, f"(?=^result).*{shows}", reason, beside, given, near),
    ]


PURPOSES: tuple[Purpose, ...] = (
    # What a process says.
    Purpose(
        r"monitoring\.clear_event_listeners", "structure", r"\('.*',3,\{\}\)\]$",
        "all listeners are taken away, those of numbers included",
    ),
    Purpose(
        r"dlpack\.is_supported_dtype", "structure", "False; not True",
        "NumPy shares the memory, and has no bfloat16", given="'bfloat16'",
    ),
    Purpose(
        r"experimental\.multihost_utils\.assert_equal", "accepts", "AssertionError",
        "one process has what it has, NaN included", given="special",
    ),
    Purpose(
        r"test_util\.check_\w+", "accepts", "Not equal to tolerance",
        "finite differences of numbers of few bits take a larger step",
        given="float16",
    ),
    # Weak types.
    Purpose(ANY, "weak", r"^(result \d+: )?bool\[", "bools are never weak"),
    *_of_derivatives(
        ANY, "weak", " weak; not .*\\]$", "derivatives of weak numbers are weak",
        r"weak (int|float|complex)|(python|list) (int|float|complex)",
    ),
    *_of_derivatives(
        ANY, "weak", "\\]; not .* weak$",
        "what meets an array, in the value or in the cotangent, is strong from there",
    ),
    Purpose(
        r"jac\w+|hessian|vjp|linear\w+", "weak", "",
        "derivatives are as weak as what they are of",
    ),
    Purpose(
        _LOSES_WEAKNESS, "weak", " weak; not .*\\]$", _WEAKNESS,
        given=r"(weak|python|list|scalar) |int64.*uint64|uint64.*int64",
    ),
    Purpose(
        r"lax\.(i?gamma\w*|zeta|\w*beta\w*|mulhi|random_gamma_grad|bessel\w*)"
        r"|scipy\.(special|stats)\..*",
        "weak", r"\]; not .* weak$", _WEAKNESS,
    ),
    Purpose(
        r"numpy\.unwrap|nn\..*", "weak", r"float32\[.* weak; not",
        "integers beside weak floats are weak floats", given=r"int\d+\[|bool\[",
    ),
    Purpose(
        r"numpy\.unwrap", "weak", r"\[(\d+, )*0\S*; not", "an empty one is as others"
    ),
    Purpose(
        r"numpy\.argpartition", "weak", r"int\d+\S*; not", "indices are not weak"
    ),
    Purpose(
        r"lax\.scan|numpy\.(setxor1d|intersect1d|heaviside|linalg\.\w*norm)"
        r"|flatten_util\.ravel_pytree",
        "weak", r"\]; not .* weak$", _WEAKNESS, given="array|numpy|0d",
    ),
    Purpose(
        r"nn\..*", "weak", r"float\d+\S*\]; not", "activations of integers are floats",
        given=r"int\d+\[|bool\[",
    ),
    Purpose(
        r"nn\..*", "dtype", r"^(result \d+: )?float\d+\[.*; not u?int\d+\[",
        "activations of integers are floats",
    ),
    Purpose(
        r"nn\..*", "dtype", r"float(32\[.*; not b?float(64|16)|64\[.*; not float32)",
        "activations of integers are floats, of 64 bits where the integers have them",
        given=r"int\d+\[|bool\[|(python|weak) int",
    ),
    Purpose(r"lax\.pmean", "weak", " weak; not .*\\]$", _WEAKNESS, given="uint64"),
    # Derivatives at the edges.
    *_of_derivatives(ANY, "value", _UNDEFINED, _NAN, " special: "),
    *_of_derivatives(
        r"(numpy|lax)\.(float_)?pow\w*|(numpy|lax)\.(\w*mod|rem\w*|floor_divide|fabs)"
        r"|numpy\.(\w*norm|n?a?n?(std|var)|hypot|sqrt|logaddexp2?|prod|nanprod|cumprod)"
        r"|(numpy|lax|scipy)\.linalg\..*|scipy\..*|lax\.(\w*prod|r?sqrt|cbrt|atan2)"
        r"|numpy\.(arc\w+|a\w+h?|cbrt|log\w*|divide|reciprocal|corrcoef|cov|geomspace)"
        r"|numpy\.vander",
        "value", _UNDEFINED, _NAN,
    ),
    Purpose(
        r"hessian|jac\w+|grad|value_and_grad", "value", _UNDEFINED, _NAN,
        given=" special: ",
    ),
    *_of_derivatives(
        r"(numpy|lax)\.(arc|a)cosh|numpy\.(pow(er)?|atan2|arctan2)|lax\.(pow|atan2)"
        r"|lax\.(lgamma|digamma|cumlogsumexp)|scipy\.linalg\.solve"
        r"|scipy\.special\.(log\w*|\w*gamma\w*)",
        "value", f": {_NO_NUMBER}", _LIMITS, " special: ",
    ),
    *_of_derivatives(
        r"numpy\.(unique.*|union1d|setdiff1d|setxor1d|intersect1d)", "value", _JAX_ZERO,
        "functions of sets have the derivatives of the elements they pick",
    ),
    *_of_derivatives(
        r"(numpy|lax)\.(arccosh|acosh)", "value", _OUR_NAN,
        "acosh has no slope where it has no value",
    ),
    *_of_derivatives(
        r"(numpy|lax)\.(arccosh|acosh)", "value",
        r"128\(-([\d.]{5}).*; not np\.complex128\(\1"
        r"|128\(([\d.]{5}).*; not np\.complex128\(-\2",
        "the derivative is that of the branch that acosh takes",
    ),
    *_of_derivatives(
        r"lax\.approx_.*", "value", "", "of equal elements the first is picked",
        " ties: ",
    ),
    *_of_derivatives(
        r"lax\.clamp", "value", "", "in a bound, the bound is what has the slope",
        " (ties|special): ",
    ),
    *_of_derivatives(
        r"scipy\.linalg\.solve", "value", "",
        "a symmetric matrix has its slope in the half that is read",
        r"assume_a='(pos|sym)'",
    ),
    *_of_derivatives(
        r"numpy\.ldexp", "value", r": np\.float64\((0\.\d+|\d+\.0)\)",
        "the slope is the power of two, at 0 too", " special: ",
    ),
    *_of_derivatives(
        r"scipy\.linalg\.eigh_tridiagonal", "value", "",
        "the derivative is that of the eigenvalues, not of the steps of a bisection",
    ),
    *_of_derivatives(
        r"lax\.(gather|dynamic_\w+)", "value", _JAX_ZERO,
        "an index out of bounds that is clipped has the slope of the last element",
    ),
    *_of_derivatives(
        r"nn\.relu6?", "value", "",
        "the slope at NaN of what returns it is 1", " special: ",
    ),
    *_of_derivatives(
        r"nn\.logsumexp.*", "value", f"{_ZERO}{_NOT_NAN}", "nothing has no slope",
        r"\[(\d+, )*0[],]",
    ),
    # Values.
    Purpose(
        r"experimental\.sparse\.\w+", "value", _NOT_NAN,
        "what stands beyond the stored elements is multiplied by nothing",
        given=" special: ",
    ),
    Purpose(
        r"numpy\.(floor_divide|divmod)", "value",
        r"(inf|0)\.?0?\); not np.*(nan|0\.0)\)",
        "infinities rounded down are infinities, and zeros have the quotient's sign",
    ),
    Purpose(
        r"numpy\.(remainder|mod|divmod)", "value", r"\(-?0\.0\); not .*\(-?0\.0\)",
        "zeros have the sign of the divisor, as other remainders have",
    ),
    Purpose(
        r"numpy\.cumulative_prod", "dtype value", "",
        "integers become the default dtype, as the array API asks",
        given=r"int(8|16)\[|bool\[",
    ),
    Purpose(
        r"numpy\.sinc|scipy\.special\.(log)?(gamma\w*|beta\w*)", "value",
        f"{_ZERO}{_TINY}", "its zeros are exact",
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
        "value", _WIDE,
        "far out, and near 0, series have as many terms as float64 can tell", near=1e-7,
    ),
    Purpose(
        ANY, "value", _WIDE, "a weak array has 32 bits",
        given=r" default .*weak (float|complex)\[", near=1e-6,
    ),
    Purpose(
        r"scipy\.special\.(rel_entr|kl_div)", "value",
        r"float64\[.*e-0[789]\); not np\.float64\(0\.0\)",
        "a number alone has 32 bits", given=r" default .*(weak|python) float\[",
    ),
    Purpose(
        r"nn\.gelu", "value", r": np\.float64\(-0\.0",
        "left of 0, 1 + tanh leaves a rounding of 1 in JAX", near=1e-3,
    ),
    Purpose(
        r"numpy\.(arc|a)tan2", "value", _FLOAT32,
        "integers become floats by themselves, and do not wrap",
        given=r" special: .*uint64.*python int",
    ),
    Purpose(
        r"numpy\.ldexp", "value", r"not np\.float64\(-?(inf|0\.0)\)",
        "denormals count, and powers are taken in steps", given=" special: ",
    ),
    Purpose(
        r"numpy\.(true_divide|divide)|scipy\.linalg\.fiedler_companion", "value",
        r"nan\); not np\.float64\(-?0\.0\)", "0/0 of bools is NaN", given=r"bool\[",
    ),
    Purpose(
        r"scipy\.ndimage\.map_coordinates", "value", _NOT_NAN,
        "what has the weight 0 does not count", given=" special: ",
    ),
    Purpose(
        r"numpy\.linalg\.(vector_norm|norm|matrix_norm)", "value",
        "^float", given=r" special: .*int\d+\[",
        reason="the norm of integers is computed in floats, and does not wrap",
    ),
    Purpose(
        r"numpy\.linalg\.(vector_norm|norm|matrix_norm)", "dtype",
        r"^float", given=r"int\d+\[|(python|weak) int",
        reason="the norm of integers is computed in floats",
    ),
    *_of_derivatives(
        r"numpy\.ldexp|lax\.cumlogsumexp|scipy\.special\.kl_div", "value", _ZERO,
        "infinities, and what leads to them, have no slope", " special: ",
    ),
    Purpose(
        r"scipy\.special\.(kl_div|rel_entr|zeta|polygamma|i0|i1)|numpy\.geomspace"
        r"|scipy\.special\.(log)?gamma.*|nn\.celu|numpy\.logaddexp2?",
        "value", _NOT_NAN, _LIMITS, given=" (special|ties): ",
    ),
    Purpose(r"scipy\.special\.zeta", "value", _OUR_NAN, _LIMITS),
    Purpose(
        r"scipy\.stats\..*|scipy\.special\.(hyp[12]f1|beta\w*|gamma\w*|exp\w+)",
        "value", f": {_NO_NUMBER}|{_NOT_FINITE}", _LIMITS, given=" special: ",
    ),
    Purpose(
        r"scipy\.stats\..*|scipy\.special\.exp[1in]\w*", "value",
        r"; not np\.\w+\((-?nan)", "there is a value, where JAX has none",
    ),
    Purpose(
        r"scipy\.special\.loggamma", "value", _OUR_NAN, _LIMITS, given=" special: "
    ),
    *_of_derivatives(
        r"(numpy|lax|nn)\.(tanh?|logistic|sigmoid)", "value", "",
        "1 - tanh² cancels where tanh is near 1, and 1 + tan² where tan is near i",
        near=1e-2,
    ),
    *_of_derivatives(
        r"(numpy|lax|nn)\.tanh", "value", r"float16\[",
        "1 - tanh² cancels, the more where tanh has been rounded to 16 bits", near=1e-1,
    ),
    *_of_derivatives(
        r"random\.uniform", "value", r"^(result \d+: )?b?float16\[",
        "16-bit floats are computed in float32", near=1e-1,
    ),
    Purpose(
        r"numpy\.fft\..*|scipy\.fft\..*|lax\.conv\w*|scipy\.signal\..*", "value", "nan",
        "which sums of infinities are NaN depends on the order of the sums, and what "
        "is padded is 0, of which infinity is a multiple, too", given=" special: ",
    ),
    *_of_derivatives(
        r"scipy\.special\.zeta", "value", r"float",
        "ζ has no slope where it has no value",
    ),
    Purpose(
        r"lax\.linalg\.cholesky_update", "value", r"0\.0\); not",
        "below the diagonal the factor is zero",
    ),
    Purpose(
        r"nn\.log_sigmoid", "value", r"not np\.float64\(-\d+\.0\)",
        "activations of integers are floats, and do not wrap", given=r"int\d+\[",
    ),
    Purpose(
        r"scipy\.stats\.norm\..*", "dtype", f"{_FLOAT32}.*; not float64",
        "integers become floats by themselves, and promote then",
        given=r"bool\[|int\d*\[|float16\[",
    ),
    Purpose(
        r"numpy\.(histogram.*|polyint)|scipy\.linalg\.qr_multiply",
        "dtype", r"(int|float|complex)\d+\[[^;]*; not b?(int|float|complex)\d+\[",
        "each result has the dtype of what it is made of",
    ),
    Purpose(
        r"numpy\.cov", "dtype", r"\b(float|complex)(\d+)\[[^;]*; not \1(?!\2)",
        "each result has the dtype of what it is made of", given="dtype=",
    ),
    Purpose(
        r"lax\.concatenate", "shape", "", "axis -1 under vmap is that of a lane",
        given=" vmap ",
    ),
    Purpose(
        r"numpy\.spacing", "value", r": np\.float64\(-.*; not np\.float64\(\d",
        "its sign is that of x, as in NumPy",
    ),
    Purpose(
        r"numpy\.(power|pow|float_power)", "value",
        r"^(result \d+: )?u?int\d+\[.*: np\.u?int\d+\(0\)",
        "integers to negative powers have no value",
    ),
    Purpose(
        r"numpy\.(power|pow|float_power)", "dtype", r"int",
        "bools and scalars promote as the other operand, whatever their value",
        given=r"bool\[|scalar ",
    ),
    Purpose(
        r"scipy\.linalg\.(hankel|toeplitz|circulant)", "value", _NOT_NAN,
        "elements are moved, not multiplied: a NaN stays where it belongs",
        given=" special: ",
    ),
    Purpose(
        r"(nn|scipy\.special)\.log_softmax", "value",
        r"128\((-?\d+\.\d\d)\S*; not np\.complex128\(\1"
        r"|e-\d\d[+-]0j\); not np\.complex128\(0j",
        "the logarithm of a complex number is known up to full turns, and a rounding",
    ),
    Purpose(
        r"scipy\.special\.(kl_div|rel_entr)", "value", _FLOAT32,
        "its terms cancel where both numbers are near each other", near=1e-3,
    ),
    Purpose(
        r"numpy\.(nan)?cum(prod|sum)", "value", "", "16-bit floats add up in float32",
        given="dtype='b?float16'", near=1e-1,
    ),
    Purpose(
        r"nn\.(squareplus|soft_sign|(log_)?softmax)|scipy\.special\.(log_)?softmax",
        "value", _FINITE,
        "integers become floats by themselves, and do not wrap",
        given=r"uint\d+\[| special: .*int\d+\[",
    ),
    *_of_derivatives(
        r"numpy\.(cumulative_|cum|nancum)(sum|prod)", "value", "",
        "the derivative is rounded where the value is", "dtype='float32'", near=1e-5,
    ),
    *_of_derivatives(
        r"numpy\.logaddexp2?", "value", "", "beside infinities it is a maximum",
        " special: ",
    ),
    *_of_derivatives(
        r"scipy\.special\.(factorial|gamma|gammaln|digamma)|lax\.(lgamma|digamma)",
        "value", _WIDE, "near a zero of its derivative digits are lost to JAX",
        near=1e-9,
    ),
    *_of_derivatives(
        r"nn\.standardize|numpy\.(var|std)", "value", _FLOAT32,
        "JAX subtracts squares that are rounded", "weak float", near=1e-2,
    ),
    Purpose(
        r"jvp|vjp|lax\.cond", "value", _WIDE, "a number alone has 32 bits",
        given=" default .*python float", near=1e-6,
    ),
    *_of_derivatives(
        r"nn\.standardize", "value", r"not np\.float64\(nan",
        "without axes each element is its own mean", r"axis=\(\)",
    ),
    Purpose(
        r"scipy\.special\.betaln", "value", _WIDE,
        "of large numbers JAX's lgamma loses digits", given=" special: ", near=1e-6,
    ),
    Purpose(
        r"numpy\.(pow|power|float_power)", "value", f"{_ZERO}{_NOT_NAN}",
        "0 to a power with a positive real part is 0",
    ),
    *_of_derivatives(
        r"numpy\.polydiv", "value", _NOT_NAN, "a leading 0 divides nothing",
        r"bool\[|int\d+\[",
    ),
    Purpose(
        r"numpy\.(linalg\.vecdot|average|polydiv)", "value", _OUR_NAN,
        "0 times infinity or NaN is NaN, also where the 0 is False", given=r"bool\[",
    ),
    Purpose(
        r"numpy\.polyval", "value", "inf|nan", "no power begins with 0 times infinity",
        given=" special: ",
    ),
    *_of_derivatives(
        r"scipy\.stats\..*", "value", _ZERO, "NaN has no slope", " special: "
    ),
    *_of_derivatives(
        r"scipy\.stats\..*", "value", _JAX_ZERO,
        "where a support begins, a slope is that from within", " (special|ties): ",
    ),
    Purpose(
        r"scipy\.stats\..*", "value", f"{_ZERO}{_JAX_ZERO}",
        "the logarithm of a probability of one is 0 of either sign",
    ),
    Purpose(
        r"scipy\.stats\.cauchy\.(ppf|isf)", "value", r": np\.\w+\(-?inf", _LIMITS
    ),
    *_of_derivatives(r"numpy\.hypot", "value", "", "terms cancel", near=1e-4),
    Purpose(
        r"scipy\.(special\.(comb|hyp1f1)|stats\.gumbel_[lr]\.ppf)|numpy\.polyfit",
        "value", "", "terms cancel", near=1e-6,
    ),
    *_of_derivatives(
        r"scipy\.special\.comb", "value", _JAX_ZERO, "terms cancel", near=1.0
    ),
    *_of_derivatives(
        r"numpy\.polyfit", "value", _NOT_FINITE, "equal singular values have slopes"
    ),
    Purpose(
        r"lax\.linalg\.qdwh", "dtype weak", "int64", "a count is an int32 everywhere"
    ),
    Purpose(
        r"(nn|scipy\.special)\.logsumexp.*", "value", "", "terms cancel",
        given=r" special: .*b=array u?int",
    ),
    Purpose(
        r"numpy\.linspace", "value", "int", "steps are rounded to integers",
        given=" special: .*dtype='u?int",
    ),
    *_of_derivatives(
        r"numpy\.polyval", "value", r": np\.\w+\(-?inf\); not np\.\w+\(nan",
        "powers that overflow add up to infinity", r"\[1000\]",
    ),
    *_of_derivatives(
        r"(scipy\.special|numpy)\.i0", "value", _ZERO, "the slope at 0 is 0",
    ),
    *_of_derivatives(
        r"random\.(truncated_normal|triangular)", "value", _NOT_NAN,
        "there is no interval",
    ),
    *_of_derivatives(
        r"random\.truncated_normal", "value", _ZERO, "there is no interval",
    ),
    Purpose(
        r"lax\.lgamma|scipy\.special\.(gammaln|factorial)", "value", _WIDE,
        "near its zeros JAX's lgamma loses digits", near=1e-9,
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
    Purpose(r"numpy\.lexsort", "raw", "boolean negative", "NumPy's own array"),
    Purpose(r"tree(_util)?\.(tree_)?all", "raw", "truth value", "NumPy's own array"),
    Purpose(r"lax\.unstack", "dies", "", "JAX compiles 1000 results for minutes"),
    # Dtypes where nothing is switched: arrays keep theirs, what is made has 32 bits.
    Purpose(
        r"random\..*", "dtype", f"{_FLOAT32}.*; not float64",
        "random numbers have 32 bits", given=" default ",
    ),
    Purpose(
        _FLOATS_DRAWN, "value", _FLOAT32, "random numbers have 32 bits",
        given=" default .*(float|int)64",
    ),
    *_of_derivatives(
        _FLOATS_DRAWN, "value", r"^(result \d+: )?float(64|32)\[",
        "random numbers have 32 bits", " default .*(float|int)64",
    ),
    Purpose(
        r"eval_shape|ShapeDtypeStruct", "structure", "float32.*not.*float64",
        "a number alone, or no dtype, is of 32 bits", given=" (default|narrow) ",
    ),
    Purpose(
        r"numpy\.spacing", "value", _FLOAT32, "integers become floats of 32 bits",
        given=r" default .* int64\[",
    ),
    Purpose(
        r"numpy\.(nan)?arg(min|max|sort)|numpy\.(searchsorted|unique.*|nonzero|argwhere)"
        r"|numpy\.(ravel_multi_index|flatnonzero|digitize|count_nonzero|unravel_index)"
        r"|numpy\.lexsort|lax\.(arg\w+|top_k)", "dtype", "int32.*not u?int(64|8)",
        "indices are of int32", given=" (default|narrow) ",
    ),
    Purpose(
        ANY, "dtype", r"^(result \d+: )?u?int64\[.*; not u?int32\[",
        "arrays keep their dtype, and promote so",
        given=r" default .*(array|numpy|0d|scalar) uint32",
    ),
    Purpose(
        ANY, "dtype", r"; not u?(int|float|complex)(64|128)\[",
        "NumPy's scalars of 64 bits are weak",
        given=" default .*scalar (int64|float64|complex128)",
    ),
    Purpose(
        ANY, "value", r"^(result \d+: )?(float|complex)",
        "NumPy's scalars of 64 bits are weak, and have 32 bits beside arrays of 32",
        given=" default .*scalar (float64|complex128)", near=1e-6,
    ),
    Purpose(
        r"lax\.clz", "value", "^u?int32", "NumPy's int64 is a number, and has 32 bits",
        given=" default .*scalar int64",
    ),
    Purpose(
        ANY, "accepts", "primal and tangent arguments to jax.jvp do not match",
        "Python's tangents of integers are taken, and count for nothing",
        given=r" (jvp|linearize) python .*\b(int|bool)\d*\[",
    ),
    Purpose(
        ANY, "accepts", r"Got tangent aval ~float64\[\]",
        "Python's floats are tangents of floats of any width",
        given=r" linearize python .*float32\[\]",
    ),
    Purpose(
        r"linear_transpose", "accepts", "cotangent type does not match",
        "an integer is a cotangent of one of another width", given=r"int64\[\]",
    ),
    Purpose(
        r"lax\.(\w+_carry|branch|cond)", "accepts", "must have equal .*types",
        "a weak carry gives way to the body's, a weak branch to the other",
    ),
    Purpose(
        r"lax\.(\w+_carry|branch)", "dtype weak",
        r"\b([a-z]+)\d+\[[^;]* weak; not \1\d+",
        "NumPy's scalars of 64 bits are weak",
    ),
    Purpose(
        r"flatten_util\..*|tree_util\..*|numpy\.(astype|atleast_.*|broadcast_arrays)",
        "dtype", r"\b([a-z]+)\d*\[[^;]*; not \1\d+\[",
        "a number alone, or no dtype, is of 32 bits",
        given=r" default .*(python|weak|None|mixed_arrays)",
    ),
    Purpose(
        r"flatten_util\..*|tree_util\..*|numpy\.(astype|atleast_.*|broadcast_arrays)",
        "value", _WIDE, "a number alone, or no dtype, is of 32 bits",
        given=r" default .*(python|weak|None|mixed_arrays)", near=1e-6,
    ),
    Purpose(
        r"numpy\.(setdiff1d|setxor1d|union1d|intersect1d|unique.*|isin)", "shape value",
        "", "a weak array has 32 bits", given=" default .*weak (float|complex)",
    ),
    *_of_derivatives(
        ANY, "dtype", _NARROWER, "the derivative by a number is a number of 32 bits",
        " default .*(python|weak) ",
    ),
    *_of_derivatives(
        ANY, "value", _WIDE, "the tangent of a number is a number of 32 bits",
        " python default .*(python|weak) ", near=1e-5,
    ),
    Purpose(
        r"numpy\.piecewise", "dtype", r"32\[.*; not \w+(64|128)\[",
        "the dtype is that of x, and a number alone has 32 bits",
        given=r" default .*python \w+\[\], ",
    ),
    Purpose(
        r"jac\w+|hessian|vjp|jvp|linear\w+|grad|value_and_grad", "dtype", _NARROWER,
        "the derivative by a number is a number of 32 bits",
        given=" default .*(python|weak) ",
    ),
    Purpose(
        r"numpy\.apply_along_axis", "dtype", "", "the function is given an array",
        given=r"numpy|python|scalar|weak",
    ),
    # Sets and percentiles.
    Purpose(
        r"numpy\.setxor1d", "shape", "", "NaN is one element, in both sets or in one",
        given=" special: ",
    ),
    Purpose(
        r"numpy\.(nan)?(percentile|quantile|median)", "shape", r"\[\]; not \w+\[1",
        "a number has no axis to keep", given=r"\[\], .*keepdims=True",
    ),
    *_of_derivatives(
        r"numpy\.(nan)?(percentile|quantile|median)", "value",
        r"\(1\.1.*; not .*\(1\.0\)",
        "a number has no axis to keep, nor has its cotangent",
        r"python .*\[\], .*keepdims=True",
    ),
    Purpose(
        r"random\.choice", "shape", "", "whole rows are drawn", given=r"array|numpy"
    ),
    Purpose(
        r"random\.choice", "dtype", r"\[(\d+, )*0[],]",
        "nothing drawn of n has the dtype of what is drawn of n, too",
        given=r"(scalar|0d|python) ",
    ),
    Purpose(
        r"ops\.segment_\w+", "shape", "", "one number of a segment has the whole array",
        given=r"(scalar|python|0d) \w+\[\]",
    ),
    # Errors.
    *(
        Purpose(names, "accepts", "|".join(texts), _MORE)
        for names, texts in REFUSED_BY_JAX.items()
    ),
    Purpose(
        r"lax\.(?!linalg|conv).*", "accepts", "arguments to have the same dtypes",
        "Python's numbers, and weak ones, take the dtype of the others",
        given="(python|weak) (int|float)",
    ),
    Purpose(
        r"numpy\.choose", "accepts", "must be integer typed", "bools are 0 and 1, too",
        given=r"\(\w+ bool\[",
    ),
    Purpose(
        r"numpy\.(unique.*|union1d|setdiff1d)", "accepts", "Abstract tracer",
        "where there is one element, their number is known",
    ),
    Purpose(ANY, "refuses", "^IndexBoundsError:", "a known index out of bounds raises"),
    Purpose(
        ANY, "refuses", "^DtypeOverflowError:", "a Python int that does not fit raises"
    ),
    *(
        Purpose(names, "refuses", "|".join(texts), _STRICT)
        for names, texts in REFUSED_BY_FTRACE.items()
    ),
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
        r"numpy\.argpartition", "dtype", r"int64\[.*; not int32\[",
        "indices are of int64 with the switch", given=" wide ",
    ),
    Purpose(
        r"numpy\.(nan)?(var|std|mean|median)", "dtype", r"^int.*; not float",
        "a result has the dtype that is asked for", given="dtype='int",
    ),
    Purpose(
        r"scipy\.fft\..*", "dtype", r"^(result \d+: )?float.*; not \w*(int|bool)",
        "a transform along no axis is of floats, too",
    ),
    Purpose(
        r"lax\.dot_general", "dtype", "", "a weak operand gives way", given="weak "
    ),
)  # fmt: skip


def purpose_of(case: Case, difference: Difference) -> Purpose | None:
    """The row that a difference belongs to; None where it is a fault."""
    return next((row for row in PURPOSES if row.holds(case, difference)), None)
