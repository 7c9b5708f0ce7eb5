"""What one of the two libraries refuses on purpose: patterns of what it says."""

from __future__ import annotations

#: What JAX says where ftrace does what is asked, by the functions that say so.
REFUSED_BY_JAX = {
    # A number as a cotangent; int and bool ones are refused by both.
    r".*": (
        r"VJP function: got (float64\[\], but expected float32"
        r"|complex128\[\], but expected complex64)\[\]",
    ),
    # What is not implemented there.
    r"(lax|numpy)\.linalg\.eig": ("Derivatives of non-symmetric eigenvectors",),
    r"lax\.linalg\.(cholesky_update|householder_product|ormqr|symmetric_product)"
    r"|scipy\.linalg\.(qr_multiply|solve_sylvester|sqrtm)": (
        "(Differentiation|Batching) rule for .* not implemented",
    ),
    r"numpy\.(nextafter|spacing)": ("Differentiation rule for 'nextafter'",),
    r"lax\.scatter_(apply|mul)|ops\.segment_prod": (
        "scatter_apply JVP not implemented",
        "scatter_mul gradients are only implemented",
    ),
    r"scipy\.linalg\.(eigh_tridiagonal|polar)|lax\.while_loop": (
        "Reverse-mode differentiation does not work",
    ),
    r"lax\.p(max|min)": ("Differentiation rule for 'p(max|min)'",),
    r"lax\.all_gather": ("AssertionError: axis size doesn't match",),
    r"lax\.ppermute": ("Permutation doesn't match the axis size",),
    r"lax\.pbroadcast": (
        "take requires ndarray or scalar arguments",
        "collective broadcast doesn't fit in the axis size",
    ),
    r"lax\.(pswapaxes|all_to_all|psum_scatter)": ("ZeroDivisionError",),
    r"custom_batching\.sequential_vmap": (
        "Linearization failed to produce known values",
        "scan got no values to scan over",
    ),
    r"custom_derivatives\.linear_call": ("Batching rule for 'linear_call'",),
    r"experimental\.sparse\.\w+": (
        "Transpose rule .* for 'bcoo_spdot_general' not implemented",
        "broadcast_in_dim operand dimension sizes must",
        "broadcast_in_dim broadcast_dimensions must have length",
        "lax.mul requires arguments to have the same dtypes",
    ),
    r"ref\.\w+": (
        "Out of bound indexer",
        r"at vmap out_axes\[0\], got axis spec None but output was batched",
        r"Invalid dtype for `addupdate`. Ref dtype: \[\('float0'",
    ),
    r"interpreters\.\w+\.\w+": (
        r"(Batching|Differentiation) rule for 'own\d+' not implemented",
    ),
    r"scipy\.fft\.i?dctn?": ("Only DCT type 2 is implemented",),
    r"scipy\.special\.zeta": ("Riemann zeta function not implemented",),
    r"numpy\.(arg)?partition": ("partition for complex dtype is not implemented",),
    r"numpy\.ravel": ("order=A is not implemented",),
    r"numpy\.ix_": ("Boolean arguments to jax.numpy.ix_ are not implemented",),
    r"scipy\.special\.(poch|xlog(1p)?y)|scipy\.stats\.gumbel_[lr]\.\w+": (
        "float0 array",
    ),
    r"(lax|scipy\.(special|stats))\..*": (
        "(Betainc|polygamma) gradient with respect to",
        "Differentiation rule for '(zeta|igamma_grad_a|random_gamma_grad)'",
    ),
    r"lax\.random_gamma_grad|scipy\.special\.\w+|scipy\.stats\..*|random\.\w+": (
        "Reverse-mode differentiation does not work",
    ),
    r"scipy\.sparse\.linalg\.\w+": ("input and carry output must have equal types",),
    r"scipy\.stats\.multinomial\..*": ("must be of integer type",),
    r"random\.\w+": ("cannot safely cast argument",),
    # Dtypes.
    r"scipy\.(special\.(log_ndtr|ndtri?)|stats\..*)": (
        r"x.dtype=\w+ is not supported",
    ),
    r"lax\.(abs|atan2|complex|conj|cum(max|min)|scatter_(add|mul)|square)"
    r"|nn\.(log_sigmoid|one_hot|sigmoid|silu|swish)"
    r"|numpy\.(argpartition|bincount|indices|right_shift|vander)"
    r"|numpy\.(nan)?(mean|quantile|var)|(lax|scipy)\.linalg\.\w+"
    r"|scipy\.(ndimage\.map_coordinates|special\.(softmax|xlog1?p?y))": (
        "does not accept dtype",
    ),
    r"numpy\.(around|round)|scipy\.linalg\.polar": ("not inexact",),
    r"lax\.conv\w*|(lax|scipy)\.linalg\.(cholesky_update|eigh_tridiagonal)": (
        "same dtypes?",
    ),
    r"numpy\.(dot|inner)": ("must not be narrower",),
    r"numpy\.(lcm|gcd)": ("must be integers",),
    r"lax\.pow": ("inexact dtype",),
    r"lax\.approx_(max|min)_k": ("must be a floating type", "k must be"),
    r"(lax\.index_)?take|numpy\.take": ("must have an integer type",),
    r"scipy\.linalg\.expm_frechet": ("primal and tangent arguments to jax.jvp",),
    r"scipy\.optimize\.minimize": ("requires real- or complex-valued inputs",),
    r"nn\.standardize": ("complex value",),
    r"numpy\.block": ("OverflowError: An overflow was encountered while parsing",),
    # Axes that count from the end, and of numbers that have none.
    r"lax\.(rev|cum\w+|associative_scan)": (
        "every element be nonnegative",
        "negative axes",
    ),
    r"lax\.(reduce_\w+|concatenate|broadcasted_iota|arg(max|min)|index_take)": (
        r"contains out-of-bounds indices",
        r"Out-of-bounds dimension -",
        r"out of bounds: dimension -",
        r"dimension=-",
        r"Invalid axis -",
        r"permutation of operand dimensions, got dimensions \(-",
        r"Invalid start_index_map; .* 0->-",
        r"axis \d+ is out of bounds for array of dimension",
        "must be disjoint",
    ),
    r"numpy\.(nan)?cum(sum|prod)": ("for array of dimension 0",),
    r"numpy\.permute_dims": ("'NoneType' object", r"got permutation \(.*-"),
    # Arrays without elements.
    r"numpy\.histogram\w*|ops\.segment_(min|max)": ("zero-size array to reduction",),
    r"numpy\.(fft\.irfftn|unpackbits)": ("ZeroDivisionError",),
    r"numpy\.fft\.rfft[2n]?": ("type of return operand",),
    r"lax\.linalg\.hessenberg": ("invalid tensor dimension size",),
    r"lax\.linalg\.tridiagonal": (r"must be a square matrix. Got shape \(.*0",),
    r"(numpy|scipy)\.linalg\.\w+|numpy\.(nanmedian|indexed_set)|ops\.segment_\w+": (
        "index is out of bounds for axis 0 with size 0",
    ),
    r"scipy\.linalg\.fiedler_companion": ("nonzero length",),
    r"numpy\.(nan)?(median|percentile|quantile)|ops\.segment_\w+|lax\.index_take": (
        "Slice size at",
    ),
    # Lists in the place of arrays, batches, one element for a scalar.
    r"numpy\.(histogram\w*|copy|insert|delete|repeat)": ("got <class '(list|tuple)'>",),
    r"lax\.empty": ("unhashable", "must have __hash__"),
    r"numpy\.unique_\w+": ("no attribute 'shape'",),
    r"scipy\.linalg\.(lu|sqrtm)": ("too many values", "diag input"),
    r"numpy\.(at_(set|add)|put)|ops\.segment_\w+": (
        "Cannot broadcast to shape with fewer",
    ),
    r"numpy\.at_\w+": ("AttributeError",),
    r"numpy\.indexed_set": ("NonConcreteBooleanIndexError",),
    r"lax\.clamp": ("select cases must have the same shapes",),
    # The rest.
    r"numpy\.(array_|h|v)?split": ("Sizes passed to split",),
    r"numpy\.histogramdd": ("not large enough to hold flattened index",),
    r"lax\.scatter_apply": ("The type of reduction-region's parameter",),
    r"lax\.convert_element_type": ("must be specified",),
}

#: What ftrace says of what JAX makes something of, by the functions that say so.
REFUSED_BY_FTRACE = {
    r"experimental\.layout\.with_layout_constraint": ("arrays lie row by row",),
    r"test_util\.check_grads": ("modes must be 'fwd' or 'rev'",),
    r"nn\.(log_softmax|logsumexp)": (
        r"where: shape \(.*\) does not broadcast",
        r"axis -?\d+ is out of bounds for an array of 0 dim",
    ),
    r"nn\..*|numpy\.\w+": ("initial= is not",),
    r"lax\.psum_scatter": (r"must be \d+, for \d+ instances along the named axis",),
    r"lax\.(gather|scatter\w*)": ("windows, of shape .* must fit the array of shape",),
    r"numpy\.unravel_index": ("takes integers, got (bool|float)",),
    r"numpy\.fft\.r?fftfreq": ("n must be at least 0, got -",),
    r"scipy\.linalg\.(hessenberg|schur)": ("has no derivative: the",),
    r"scipy\.fft\..*": ("a real array is required, got complex",),
    r"(lax|numpy)\.full(_like)?": ("is complex, and",),
    r"lax\.collapse": ("there are no axes from",),
    r"numpy\.linspace": ("linspace is not defined for c",),
    r"ops\.segment_\w+": (
        "segment_ids must be integers, got bool",
        "must match the leading axes",
    ),
    r"numpy\.at_\w+": (
        "do not broadcast to the place",
        "mode must be 'fill'",
    ),
    r"scipy\.stats\..*": ("is not defined for complex numbers",),
    r"random\.uniform": ("do not broadcast to shape",),
    r"random\.choice": ("must be an array or a count, got c",),
    r"nn\.initializers.*|numpy\.\w+|lax\.\w+": (
        "must be a scalar or have the shape",
        "elements no 0 can",
    ),
    r"lax\.broadcast_in_dim": ("must name an axis of",),
    r"lax\.dot": ("requires operands of one dtype",),
    r"lax\.index_take": ("indices must be integers",),
    r"lax\.(eq|ne|lt|le|gt|ge)": ("operands with the same number of axes",),
    r"lax\.cumlogsumexp": ("is not defined for u?int",),
    r"numpy\.setdiff1d": ("how many elements the result has",),
    r"scipy\.signal\.\w+": ("must be float32 or float64, got b?float16",),
    r"(numpy|lax|scipy)\.linalg\..*|lax\.fft|numpy\.polyfit": (
        r"dtype must be float32, float64, complex64 or complex128, got b?f16",
    ),
    r"lax\.fft": ("at least one axis, and 0 of the operand",),
    r"numpy\.polyint": ("with m=0 the constants must have the shape",),
    r"numpy\.pad": ("no elements to extend by mode",),
    r"numpy\.put": ("an index must be an integer or bool, got f",),
    r"(numpy|lax|ops)\.\w+": (
        r"m(in|ax)(imum)? is not defined for c",
        r"no m(ax|in)imum at",
    ),
}
