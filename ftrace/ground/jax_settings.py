"""The settings of JAX that have no counterpart here: their names and defaults.

They are accepted and keep their values, so that programs which set them run; that they
decide nothing is said once, where one is given another value than its default.
"""

from __future__ import annotations

from typing import Any

#: Name -> default, by what they are about in JAX.
NAMES: dict[str, Any] = {
    # Whom a number is told to, and what is said of a program.
    "debug_key_reuse": False, "debug_log_modules": "", "logging_level": "NOTSET",
    "distributed_debug": False, "log_checkpoint_residuals": False,
    "pprint_use_color": True, "traceback_filtering": "auto",
    "traceback_in_locations_limit": 100, "tracer_error_num_traceback_frames": 5,
    "include_debug_info_in_dumps": True, "dump_ir_to": "",
    "dump_ir_modes": "stablehlo", "include_full_tracebacks_in_locations": True,
    "hlo_source_file_canonicalization_regex": None, "source_url_schema": None,
    "send_traceback_to_runtime": "off", "captured_constants_report_frames": 0,
    "captured_constants_warn_bytes": 2000000000,
    "compiler_detailed_logging_min_ops": 10,
    "debug_leaked_clients_on_clear_backends": False,
    # Checks.
    "check_proxy_envs": True,
    "disable_bwd_checks": False, "disable_vmap_shmap_error": False,
    "disallow_mesh_context_manager": False, "mutable_array_checks": True,
    "array_garbage_collection_guard": None, "thread_guard": False,
    "error_checking_behavior_divide": "ignore",
    "error_checking_behavior_nan": "ignore", "error_checking_behavior_oob": "ignore",
    "transfer_guard": None, "transfer_guard_device_to_device": None,
    "transfer_guard_device_to_host": None, "transfer_guard_host_to_device": None,
    # What is computed.
    "default_matmul_precision": None, "enable_custom_prng": False,
    "explicit_x64_dtypes": "warn", "legacy_prng_key": "allow",
    "threefry_gpu_kernel_lowering": False,
    "high_dynamic_range_gumbel": False, "random_seed_offset": 0,
    "softmax_custom_jvp": False, "allow_f16_reductions": True, "auto_pcast": True,
    "use_direct_linearize": True, "use_simplified_jaxpr_constants": False,
    "custom_vjp3": False, "remat3": False, "scan3": False, "refs_to_pins": False,
    "eager_constant_folding": False, "embedded_constants_max_bytes": 32,
    "check_vma": False, "remove_size_one_mesh_axis_from_type": False,
    # Devices and processes.
    "platforms": None, "platform_name": "", "xla_backend": "", "backend_target": "",
    "num_cpu_devices": -1, "cpu_collectives_implementation": "gloo",
    "cpu_enable_async_dispatch": True, "cpu_get_global_topology_timeout_minutes": 5,
    "cpu_get_local_topology_timeout_minutes": 2, "cuda_visible_devices": "all",
    "rocm_visible_devices": "all", "oneapi_visible_devices": "all",
    "mock_gpu_topology": "", "mock_num_gpu_processes": 0, "use_magma": "auto",
    "pjrt_client_create_options": None, "sort_devices_by_process_index": True,
    "enable_preemption_service": True, "enable_recoverability": False,
    "cross_host_transfer_socket_address": "", "cross_host_transport_addresses": "",
    "cross_host_transfer_timeout_seconds": None,
    "cross_host_transfer_transfer_size": None, "force_dcn_cross_host_transfers": False,
    "share_binary_between_hosts": False,
    "share_binary_between_hosts_timeout_ms": 1200000,
    "use_shardy_partitioner": True,
    "remove_custom_partitioning_ptr_from_cache_key": False,
    # The compiler and its cache.
    "compiler_enable_remat_pass": True, "disable_most_optimizations": False,
    "exec_time_optimization_effort": 0.0, "memory_fitting_effort": 0.0,
    "memory_fitting_level": "O2", "optimization_level": "UNKNOWN",
    "experimental_unsafe_xla_runtime_errors": False, "xla_profile_version": 0,
    "enable_pgle": False, "pgle_aggregation_percentile": 90, "pgle_profiling_runs": 3,
    "enable_compilation_cache": True, "compilation_cache_check_contents": False,
    "compilation_cache_expect_pgle": False,
    "compilation_cache_include_metadata_in_key": False,
    "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "persistent_cache_min_compile_time_secs": 1.0,
    "persistent_cache_min_entry_size_bytes": 0,
    "raise_persistent_cache_errors": False, "serialization_version": 0,
    "export_calling_convention_version": 10,
    "export_ignore_forward_compatibility": False,
    "bcoo_cusparse_lowering": False, "mosaic_allow_hlo": False,
    "pallas_enable_debug_checks": False, "pallas_poison_buffers": False,
    "pallas_use_mosaic_gpu": True, "pallas_verbose_errors": False,
    "use_emit_pipeline_primitive": False,
    "ragged_dot_use_gpu_pallas_triton_lowering": False,
    "ragged_dot_use_ragged_dot_instruction": True,
    "jax2tf_associative_scan_reductions": False,
    "jax2tf_default_native_serialization": True,
}  # fmt: skip

_GUARD = (None, "allow", "log", "disallow", "log_explicit", "disallow_explicit")
#: The values that some of them take.
CHOICES: dict[str, tuple[Any, ...]] = {
    **{name: _GUARD for name in NAMES if name.startswith("transfer_guard")},
    "legacy_prng_key": ("allow", "warn", "error"),
    "array_garbage_collection_guard": (None, "allow", "log", "fatal"),
}

#: Those that are read, in `random`.
READ = ("legacy_prng_key", "random_seed_offset")

#: Values that ask for nothing else than what is done anyway: there is one processor,
#: products are computed with all bits, and nothing is copied where the memory is one.
MET: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("platforms", "platform_name"), ("cpu", "", None)),
    **{name: _GUARD for name in NAMES if name.startswith("transfer_guard")},
    "default_matmul_precision": (
        "default", "high", "highest", "float32", "tensorfloat32", "bfloat16",
        "bfloat16_3x",
    ),
}  # fmt: skip

#: JAX's names of settings that are here, without `jax_`.
SAME: dict[str, str] = {
    "compilation_cache_dir": "cache_dir",
    "compilation_cache_max_size": "cache_size",
    "default_device": "device",
    "enable_checks": "check_specs",
}

#: The settings that JAX has as contexts under their own names, in
#: `transforms/contexts.py`.
CONTEXTS = (
    "allow_f16_reductions", "array_garbage_collection_guard", "auto_pcast",
    "check_tracer_leaks", "debug_infs", "debug_key_reuse", "debug_nans",
    "default_matmul_precision", "default_prng_impl", "enable_checks",
    "enable_custom_prng", "enable_x64", "explain_cache_misses",
    "jax2tf_associative_scan_reductions", "legacy_prng_key", "log_compiles",
    "no_execution", "no_tracing", "numpy_dtype_promotion", "numpy_rank_promotion",
    "remove_size_one_mesh_axis_from_type", "softmax_custom_jvp", "thread_guard",
    "threefry_partitionable", "transfer_guard", "transfer_guard_device_to_device",
    "transfer_guard_device_to_host", "transfer_guard_host_to_device",
)  # fmt: skip
