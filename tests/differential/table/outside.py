"""Public names that have no row, each group with its reason."""

#: The modules whose public functions have rows.
MODULES = (
    "", "numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "nn",
    "nn.initializers", "random", "scipy.special", "scipy.linalg", "scipy.signal",
    "scipy.ndimage", "scipy.optimize", "scipy.fft", "scipy.sparse.linalg",
    "scipy.integrate", "scipy.interpolate", "scipy.cluster.vq", "scipy.stats", "image",
    *(f"scipy.stats.{name}" for name in (
        "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet",
        "expon", "gamma", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace",
        "logistic", "multinomial", "multivariate_normal", "nbinom", "norm", "pareto",
        "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
    )),
    "ops", "tree", "tree_util", "flatten_util",
)  # fmt: skip

#: Names by the reason why they are not called by a generator.
OUTSIDE = {
    "dtypes, and classes of them": """
        numpy.bfloat16 numpy.bool numpy.bool_ numpy.cdouble numpy.complex128
        numpy.complex64 numpy.complex_ numpy.complexfloating numpy.csingle numpy.double
        numpy.dtype numpy.finfo numpy.float16 numpy.float32 numpy.float64
        numpy.float_ numpy.floating numpy.generic numpy.iinfo numpy.inexact
        numpy.int16 numpy.int32 numpy.int64 numpy.int8 numpy.int_ numpy.integer
        numpy.number numpy.signedinteger numpy.single numpy.uint numpy.uint16
        numpy.uint32 numpy.uint64 numpy.uint8 numpy.unsignedinteger lax.dtype
        numpy.float4_e2m1fn numpy.float6_e2m3fn numpy.float6_e3m2fn numpy.float8_e3m4
        numpy.float8_e4m3 numpy.float8_e4m3b11fnuz numpy.float8_e4m3fn
        numpy.float8_e4m3fnuz numpy.float8_e5m2 numpy.float8_e5m2fnuz
        numpy.float8_e8m0fnu numpy.int1 numpy.int2 numpy.int4 numpy.uint1 numpy.uint2
        numpy.uint4""",
    "classes of values, results and options": """
        Array Config Dim numpy.ndarray numpy.linalg.EigResult numpy.linalg.EighResult
        numpy.linalg.QRResult numpy.linalg.SVDResult numpy.linalg.SlogdetResult
        lax.AccuracyMode lax.ConvDimensionNumbers lax.DotAlgorithm
        lax.DotAlgorithmPreset lax.DotDimensionNumbers lax.FftType
        lax.GatherDimensionNumbers lax.GatherScatterMode lax.Precision
        lax.RaggedDotDimensionNumbers lax.RandomAlgorithm lax.RoundingMethod
        lax.ScatterDimensionNumbers lax.Tolerance lax.linalg.EigImplementation
        lax.linalg.EighImplementation lax.linalg.SvdAlgorithm
        nn.initializers.Initializer
        scipy.interpolate.RegularGridInterpolator scipy.stats.ModeResult
        image.ResizeMethod
        scipy.stats.gaussian_kde random.key_dtype
        scipy.optimize.OptimizeResults tree_util.DictKey tree_util.FlattenedIndexKey
        tree_util.GetAttrKey tree_util.KeyEntry tree_util.KeyPath tree_util.SequenceKey
        tree_util.PyTreeDef tree_util.PyTreeRegistry""",
    "settings, devices, files and effects: they have no result to compare": """
        all_counters cache_clear clear_caches config counters default_device
        device_count devices disable_jit effects_barrier io_callback load save
        named_scope set_threads profiler.device_memory_profile
        profiler.save_device_memory_profile""",
    "held to SciPy's values: tests/scipy/test_special_functions.py": """
        scipy.special.lpmn scipy.special.lpmn_values scipy.special.sph_harm_y""",
    "held to recorded values: tests/surface/test_recorded_names.py": """
        image.resize image.scale_and_translate lax.broadcast_like lax.composite
        lax.conv_general_dilated_local lax.conv_general_shape_tuple lax.conv_shape_tuple
        lax.conv_transpose_shape_tuple lax.dce_sink lax.platform_dependent
        lax.ragged_dot lax.ragged_dot_general lax.reduce_window_shape_tuple
        lax.rng_bit_generator lax.rng_uniform lax.scaled_dot lax.shape_as_value
        lax.stage numpy.array_repr numpy.array_str numpy.fromfile numpy.fromiter
        numpy.fromstring numpy.frompyfunc numpy.get_printoptions numpy.iterable
        numpy.load numpy.printoptions numpy.save numpy.savez numpy.set_printoptions
        numpy.ufunc nn.get_scaled_dot_general_config nn.scaled_dot_general
        nn.scaled_matmul nn.initializers.orthogonal nn.initializers.delta_orthogonal
        tree.static""",
    "held to SciPy's values: tests/scipy/test_values_of_scipy.py": """
        scipy.linalg.funm""",
    "solvers that are held to their equations: tests/lax/test_solvers.py": """
        lax.custom_linear_solve lax.custom_root""",
    "its results are ftrace's own": "make_graph",
    "of shardings, which move nothing on one device": "lax.pcast "
    "lax.with_sharding_constraint",
    "they have no values, or free them": "ref.empty_ref ref.free_ref",
    "the same functions as those of the top": """
        custom_derivatives.closure_convert custom_derivatives.custom_gradient
        dtypes.finfo dtypes.iinfo""",
    "called by the row of `lstm_ref`, or draws": """
        experimental.rnn.lstm experimental.rnn.init_lstm_weight
        experimental.rnn.unpack_lstm_weights experimental.sparse.random_bcoo""",
    "takes a function of the caller's": "numpy.mask_indices",
    "names of types": """
        stages.CompilerOptions core.ParamDict extend.core.Effects""",
    "several processes are started: tests/distributed": """
        distributed.initialize distributed.shutdown
        experimental.multihost_utils.host_local_array_to_global_array
        experimental.multihost_utils.global_array_to_host_local_array""",
    "files: tests/transforms/test_checkpoints.py": "Checkpoints",
    "JAX's CPU does not run it: tests/lax/test_collectives.py": """
        lax.ragged_all_to_all""",
    "waits for what a person types": "debug.breakpoint",
    "called while a program is made: tests/transforms/test_many_devices.py": (
        "debug.inspect_array_sharding"
    ),
    "the version of what compiles JAX's programs": "extend.backend.backend_xla_version",
    "JAX's takes trees that only its private modules make": "interpreters.ad.jvp",
    "called by every case: its second name has the row": "numpy.at",
    "the same functions as those of tree_util": """
        tree.all tree.broadcast tree.flatten tree.flatten_with_path tree.leaves
        tree.leaves_with_path tree.map tree.map_with_path tree.reduce
        tree.reduce_associative tree.structure tree.transpose tree.unflatten""",
    "registries of classes, and parts of trees: tests/trace/pytree/test_tree.py": """
        tree_util.flatten_one_level tree_util.flatten_one_level_with_keys
        tree_util.is_tree_node tree_util.keystr tree_util.treedef_children
        tree_util.treedef_is_leaf tree_util.treedef_tuple tree_util.register_dataclass
        tree_util.register_pytree_node tree_util.register_pytree_node_class
        tree_util.register_pytree_with_keys tree_util.register_pytree_with_keys_class
        tree_util.register_static""",
}
