"""Which of JAX's tests are not about what ftrace serves, and why.

A row: what the name of a test (`file.py::Class::test`) contains as a regular
expression, and the reason. A test that uses a private name of JAX's leaves itself out:
see `jax_private`.
"""

from __future__ import annotations

import re

BACKEND = "the insides of XLA, its caches and its clients"
TEXT = "the text of HLO and of jaxprs"
JAXPR = "which equations a jaxpr has: those of the graph are others"
ERRORS = "the exact words of messages"
PULLBACK = "what JAX's pullbacks are made of, and the residuals in them"
JAXPRS = "operations counted in jaxprs: ours share equal nodes and drop unused ones"
PRIVATE = "functions of JAX's that are not public"
OPTREE = "optree's: how treedefs print, the order of keys, who flattens what"
TAKEN = "JAX refuses what has its meaning here"
TRACES = "how often a function of Python's is traced"
LANES = "lanes for which JAX asks a rule of vmap, in its jvp, beside those of the call"
ORDER = "the order of lanes, and runs of finished ones, in what is printed"
AGAIN = "how often checkpoints within checkpoints compute again"
STANDARD = "where JAX does not do what the array API standard asks for"
TOKENS = "tokens: effects keep their order by themselves"

ROWS: tuple[tuple[str, str], ...] = (
    (r"(?i)stablehlo|_hlo|hlo_|mlir|_lowering_", TEXT),
    (r"(?i)core_test.*pretty_print|custom_api_test.*pretty_print", TEXT),
    (r"custom_api_test.*(test_dce$|test_sequential_vmap)", JAXPRS),
    (r"custom_api_test.*vmap_with_collective", JAXPR),
    (r"custom_api_test.*nary_mixed_batching", TRACES),
    (r"custom_api_test.*(extra_batched_(primals|tangents)|dataflow_violation)$", LANES),
    (r"debugging_primitives_test.*(nested_vmap|in_batched_while_cond)", ORDER),
    (r"mutable_array_test.*jvp_closed_over_ref_error", TAKEN),
    (r"mutable_array_test.*basic_closed_over_nested", AGAIN),
    (r"shard_map_test.*pvary_errors", TAKEN),
    (r"shard_map_test.*pvary_no_op", TEXT),
    (r"x64_context_test.*near_singular", "zeros that XLA makes of denormal numbers"),
    (r"array_api_test.*(capabilities|device|devices)_info", STANDARD),
    (r"sparsify_test.*(Sparse(Add|Mul\d|Subtract)$|SparsifyValue|Sparsify$)", PRIVATE),
    (r"sparsify_test.*TracerIsInstance", "the class of JAX's tracers"),
    (r"sparse_bcoo_bcsr_test.*bcoo_vmap_shape", PRIVATE),
    (r"sparse_test.*(SparseUtilTest|bcoo_to_bcsr_round_trip|todense_ad)", PRIVATE),
    (r"sparse_bcoo_bcsr_test.*BCOOTest::test_repr", TEXT),
    (r"sparse_bcoo_bcsr_test.*bcoo_reshape_error", TAKEN),
    (r"checkify_test.*test_shard_map", ERRORS),
    (r"checkify_test.*checkify_of_vmap_of_while", TAKEN),
    (r"vmap_preserves_docstr", "docstrings and signatures"),
    (r"key_reuse_test", "a checker of keys that are used twice"),
    (r"(?i)cache_miss|persistent|compilation_cache|compiler_ir|cpp_cache", BACKEND),
    (r"(?i)cudnn|cublas|rocm|_tpu|magma|_gpu", "accelerators"),
    (r"errors_test|traceback", "how frames are left out of tracebacks"),
    (
        r"Arange\w*Jaxpr|testIntegerPower\d|MatmulBothSize1BatchDims|testPreferredElementType"
        r"|SimpleIndexingUsesSlice|NormalizationByType|UnsignedNoNormalization"
        r"|preferred_element_type|select_jvp_complexity|WhereExtraCode|lax_test.*testReduce\d"
        r"|InBounds\w*Wrap|forwards_extensive|input_to_output_forw"
        r"|typecheck_param|NestedBatchingMatMat",
        JAXPR,
    ),
    (r"CustomElementTypes|ExtendedDType|EArrayTest|edtype", "dtypes of one's own"),
    (r"[dD]ocstrings|SignaturesMatch", "docstrings and signatures"),
    (r"(?i)logging_test|residual_logging", "what JAX and XLA log"),
    (r"(?i)leak_checker|leaks_tracer|garbage", "leak checks of tracers"),
    (r"TracebackTest", "the number of frames between user and user"),
    (r"cse_widget|cse_prevention|lower_as_text|replica_attributes|lax_logistic", TEXT),
    (r"print_environment_info|AutodidaxTest|user_(trace_)?context", BACKEND),
    (r"compilation_(caching|time)|clear_cache|cache_clear|global_cache", BACKEND),
    (r"static_args_equality|cache_key_defaults|fastpath_cache|_live_exec", BACKEND),
    (r"compiler_options?(_multiple|_invalid|$)|effort_level|no_pruning", BACKEND),
    (r"num_cpu_devices|if_platform_specified|trivial_computations", BACKEND),
    (r"api_test.*(forces_retrace|dot_precision_|jit_inline|_hoist)", BACKEND),
    (r"api_test.*(test_fun_name|jit_repr|make_jaxpr_name)", BACKEND),
    (r"with_tokens?|print_token|_token$|token_consuming", TOKENS),
    (r"vjp3_dont_want|MutableArrayTest.*test_(closed_over_)?basic\d", JAXPRS),
    (r"MutableArrayTest.*slicing_with_vjp3", JAXPRS),
    (r"CustomVJP3Test.*(closed_over_(tracer3|vmap)|closure_with_vmap2)", TAKEN),
    (r"custom_api_test.*nondiff_arg_(tracer_error|hiding)", TAKEN),
    (r"custom_api_test.*partial_eval_raises", TAKEN),
    (r"python_callback_test.*(cannot_(vmap_of|call_ordered)|vmap_method_raise)", TAKEN),
    (r"python_callback_test.*io_callback_in_checkpoint", TAKEN),
    (r"api_test.*(InputSavedVJP|structured_residuals|deferred_primal)", PULLBACK),
    (r"Remat.*(checkpoint_dots|custom_policy|saved_residuals_utility)", PULLBACK),
    (r"Remat.*(remat_scan|expand_stages)", PULLBACK),
    (r"Remat.*(of_while_loop|of_cond|of_scan_|basic(_policy)?$|eval_counter)", JAXPRS),
    (r"Remat.*(retracing|name_stack|excess_precision)", JAXPRS),
    (r"api_test.*(DCETest|JaxprTest|deduplicates_consts|close_jaxpr)", JAXPRS),
    (r"api_test.*(test_binop_mismatch|dot_mismatch|_shape_error|_aval_error)", ERRORS),
    (
        r"api_test.*(grad_(nonscalar|tuple|unit)_output|issue_871|axis_sizes_err)",
        ERRORS,
    ),
    (r"vmap_(inconsistent_sizes|mismatched_keyword)", ERRORS),
    (
        r"tree_util_test.*(TreePrefixErrors|testBroadcast(Error)?\d*$|with_registries)",
        PRIVATE,
    ),
    (r"tree_util_test.*(StringRepres|OptionalFlatten|testFlattenDictKey)", OPTREE),
    (r"tree_util_test.*serialize_treedef", OPTREE),
    (r"core_test.*(pp_kv_pair|tracer_reprs|test_str_aval|mem_space)", TEXT),
    (r"core_test.*(residual_forwarding)", PULLBACK),
    (r"array_test.*array_impl_name", PRIVATE),
    (r"concreteness_error_includes|unimplemented_interpreter|wrong_output_abs", ERRORS),
)


def reason(name: str) -> str | None:
    """Why a test is left out; None for one that is to pass."""
    for pattern, said in ROWS:
        if re.search(pattern, name):
            return said
    return None
