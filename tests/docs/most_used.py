"""The names of each module that are used most; their docstrings have an example."""

from __future__ import annotations

MOST_USED = {
    "ftrace": """
        Array bisect block_until_ready checkpoint clear_caches closure_convert config
        custom_gradient custom_jvp custom_vjp default_device device_count device_get
        device_put devices disable_jit eval_shape explain grad hessian io_callback
        jacfwd jacrev jit jvp linear_transpose linearize load make_graph make_jaxpr
        named_scope no_compiles pure_callback record remat save set_threads
        ShapeDtypeStruct typeof value_and_grad viz vjp vmap
    """,
    "ftrace.ad_checkpoint": "checkpoint_name",
    "ftrace.debug": "callback nan_origin print",
    "ftrace.flatten_util": "ravel_pytree",
    "ftrace.image": "resize scale_and_translate",
    "ftrace.lax": """
        all_gather all_to_all argmax argmin associative_scan axis_index axis_size
        batch_matmul bitcast_convert_type broadcast broadcast_in_dim broadcasted_iota
        clamp collapse concatenate cond conv conv_general_dilated conv_transpose
        convert_element_type cummax cumprod cumsum custom_linear_solve custom_root dot
        dot_general dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim
        dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim
        expand_dims fori_loop full full_like gather integer_pow iota map mul pad pmax
        pmean pmin pow ppermute psum psum_scatter reduce reduce_max reduce_min
        reduce_prod reduce_sum reduce_window reshape rev round scan scatter scatter_add
        select select_n slice slice_in_dim sort sort_key_val split square squeeze
        stop_gradient switch top_k transpose while_loop
    """,
    "ftrace.lax.linalg": """
        cholesky eigh lu qr svd triangular_solve tridiagonal_solve
    """,
    "ftrace.nn": """
        celu dot_product_attention elu gelu glu hard_tanh leaky_relu log_sigmoid
        log_softmax logsumexp one_hot relu relu6 selu sigmoid silu softmax softplus
        standardize swish tanh
    """,
    "ftrace.nn.initializers": """
        constant glorot_normal glorot_uniform he_normal he_uniform lecun_normal normal
        ones orthogonal truncated_normal uniform variance_scaling zeros
    """,
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
    "ftrace.numpy.fft": """
        fft fft2 fftfreq fftn fftshift ifft ifft2 ifftn ifftshift irfft irfftn rfft
        rfftfreq rfftn
    """,
    "ftrace.numpy.linalg": """
        cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_power matrix_rank
        multi_dot norm pinv qr slogdet solve svd
    """,
    "ftrace.ops": "segment_max segment_min segment_prod segment_sum",
    "ftrace.optim": """
        adagrad adam adamw apply_updates chain clip clip_by_global_norm
        cosine_decay_schedule ema exponential_decay global_norm huber_loss
        incremental_update inject_hyperparams join_schedules l2_loss linear_schedule
        lion masked MultiSteps partition piecewise_constant_schedule rmsprop sgd
        sigmoid_binary_cross_entropy softmax_cross_entropy
        softmax_cross_entropy_with_integer_labels squared_error
        warmup_cosine_decay_schedule
    """,
    "ftrace.profiler": "profile",
    "ftrace.random": """
        bernoulli beta bits categorical choice dirichlet exponential fold_in gamma
        gumbel key key_data laplace multivariate_normal normal permutation poisson
        PRNGKey rademacher randint split truncated_normal uniform wrap_key_data
    """,
    "ftrace.scipy.linalg": """
        cho_factor cho_solve cholesky det eigh inv lu lu_factor qr solve
        solve_triangular svd
    """,
    "ftrace.scipy.special": """
        betainc betaln digamma entr erf erfc erfinv expit gamma gammainc gammaln i0
        log_ndtr logit logsumexp ndtr ndtri polygamma softmax xlogy zeta
    """,
    "ftrace.scipy.stats": "gaussian_kde mode rankdata",
    "ftrace.testing": """
        assert_close assert_num_kernels assert_num_traces check check_grads
    """,
    "ftrace.tree": """
        all broadcast flatten flatten_with_path leaves leaves_with_path map
        map_with_path reduce static structure transpose unflatten
    """,
    "ftrace.tree_util": """
        Partial register_dataclass register_pytree_node register_pytree_node_class
        tree_map
    """,
}
