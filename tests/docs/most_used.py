"""The names of each module that are used most; their docstrings have an example."""

from __future__ import annotations

MOST_USED = {
    "ftrace.numpy": """
        abs add all allclose angle any append apply_along_axis arange arccos arcsin
        arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere array array_equal
        array_split asarray astype atleast_1d atleast_2d average bincount bitwise_and
        bitwise_not bitwise_or bitwise_xor block broadcast_arrays broadcast_to cbrt ceil
        choose clip column_stack concatenate conj convolve copy corrcoef correlate cos
        cosh count_nonzero cov cross cumprod cumsum deg2rad delete diag diagonal diff
        digitize divide dot einsum einsum_path empty equal exp exp2 expand_dims expm1
        eye fabs finfo flip float_power floor floor_divide fmax fmin fmod full full_like
        gcd geomspace gradient greater greater_equal heaviside histogram hstack hypot
        identity iinfo imag indices inner insert interp intersect1d isclose isfinite
        isin isinf isnan issubdtype ix_ kron lcm left_shift less less_equal lexsort
        linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or
        logical_xor logspace matmul max maximum mean median meshgrid min minimum mod
        moveaxis multiply nan_to_num nanmax nanmean nanmin nanstd nansum ndim negative
        nonzero not_equal ones ones_like outer pad percentile polyfit polyval power prod
        promote_types ptp quantile rad2deg ravel ravel_multi_index real reciprocal
        remainder repeat reshape result_type right_shift rint roll roots rot90 round
        searchsorted select setdiff1d shape sign sin sinc sinh size sort split sqrt
        square squeeze stack std subtract sum swapaxes take take_along_axis tan tanh
        tensordot tile trace transpose trapezoid tri tril triu trunc union1d unique
        unravel_index unstack unwrap vander var vdot vectorize vstack where zeros
        zeros_like
    """,
}
