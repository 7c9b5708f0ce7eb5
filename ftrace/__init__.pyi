# Made by docs/generate.py of the functions; do not edit.

from ftrace import ad_checkpoint as ad_checkpoint, compat as compat, custom_batching as custom_batching, custom_derivatives as custom_derivatives, debug as debug, distributed as distributed, dlpack as dlpack, dtypes as dtypes, errors as errors, experimental as experimental, extend as extend, image as image, lax as lax, memory as memory, monitoring as monitoring, nn as nn, numpy as numpy, ops as ops, optim as optim, profiler as profiler, random as random, ref as ref, scipy as scipy, sharding as sharding, stages as stages, testing as testing, tree as tree, tree_util as tree_util, typing as typing
from ftrace.backends.base import Device as Device
from ftrace.compat.view import make_jaxpr as make_jaxpr
from ftrace.debug import nan_origin as nan_origin
from ftrace.dtypes import float0 as float0
from ftrace.ground import VERSION as VERSION
from ftrace.ground.settings import Config as Config, config as config, set_threads as set_threads
from ftrace.profiler import profile as profile
from ftrace.ref import Ref as Ref, empty_ref as empty_ref, free_ref as free_ref, freeze as freeze, new_ref as new_ref
from ftrace.testing.bisect import bisect as bisect
from ftrace.testing.replay import record as record, replay as replay
from ftrace.trace.arrays.array import Array as Array
from ftrace.trace.calls.checkpoint import checkpoint as checkpoint, checkpoint as remat, checkpoint_policies as checkpoint_policies
from ftrace.trace.symbolic import Dim as Dim
from ftrace.transforms.checkpoints import Checkpoints as Checkpoints
from ftrace.transforms.contexts import allow_f16_reductions as allow_f16_reductions, array_garbage_collection_guard as array_garbage_collection_guard, auto_pcast as auto_pcast, check_tracer_leaks as check_tracer_leaks, checking_leaks as checking_leaks, debug_infs as debug_infs, debug_key_reuse as debug_key_reuse, debug_nans as debug_nans, default_matmul_precision as default_matmul_precision, default_prng_impl as default_prng_impl, enable_checks as enable_checks, enable_custom_prng as enable_custom_prng, enable_x64 as enable_x64, ensure_compile_time_eval as ensure_compile_time_eval, explain_cache_misses as explain_cache_misses, jax2tf_associative_scan_reductions as jax2tf_associative_scan_reductions, legacy_prng_key as legacy_prng_key, log_compiles as log_compiles, no_execution as no_execution, no_tracing as no_tracing, numpy_dtype_promotion as numpy_dtype_promotion, numpy_rank_promotion as numpy_rank_promotion, remove_size_one_mesh_axis_from_type as remove_size_one_mesh_axis_from_type, softmax_custom_jvp as softmax_custom_jvp, thread_guard as thread_guard, threefry_partitionable as threefry_partitionable, transfer_guard as transfer_guard, transfer_guard_device_to_device as transfer_guard_device_to_device, transfer_guard_device_to_host as transfer_guard_device_to_host, transfer_guard_host_to_device as transfer_guard_host_to_device
from ftrace.transforms.custom.callbacks import effects_barrier as effects_barrier, io_callback as io_callback, pure_callback as pure_callback
from ftrace.transforms.custom.closure_convert import closure_convert as closure_convert, custom_gradient as custom_gradient
from ftrace.transforms.custom.custom_derivatives import custom_jvp as custom_jvp, custom_vjp as custom_vjp
from ftrace.transforms.device_placement import all_counters as all_counters, block_until_ready as block_until_ready, counters as counters, default_device as default_device, device_count as device_count, device_get as device_get, device_put as device_put, devices as devices
from ftrace.transforms.environment import copy_to_host_async as copy_to_host_async, default_backend as default_backend, device_put_replicated as device_put_replicated, device_put_sharded as device_put_sharded, host_count as host_count, host_id as host_id, host_ids as host_ids, live_arrays as live_arrays, local_device_count as local_device_count, local_devices as local_devices, make_array_from_callback as make_array_from_callback, make_array_from_process_local_data as make_array_from_process_local_data, make_array_from_single_device_arrays as make_array_from_single_device_arrays, print_environment_info as print_environment_info, process_count as process_count, process_index as process_index, process_indices as process_indices, typeof as typeof
from ftrace.transforms.grad import grad as grad, jvp as jvp, linear_transpose as linear_transpose, linearize as linearize, value_and_grad as value_and_grad, vjp as vjp
from ftrace.transforms.jacobian import hessian as hessian, jacfwd as jacfwd, jacrev as jacobian, jacrev as jacrev
from ftrace.transforms.jit.compiled_graph import cache_clear as cache_clear, clear_caches as clear_caches
from ftrace.transforms.jit.jit import disable_jit as disable_jit, eval_shape as eval_shape, jit as jit, make_graph as make_graph, named_call as named_call, named_scope as named_scope
from ftrace.transforms.jit.misses import no_compiles as no_compiles
from ftrace.transforms.mapped import pmap as pmap, reshard as reshard, shard_map as shard_map, smap as smap
from ftrace.transforms.meshes import P as P, make_mesh as make_mesh, set_mesh as set_mesh
from ftrace.transforms.passes import fwd_and_bwd as fwd_and_bwd
from ftrace.transforms.save_load import load as load, save as save
from ftrace.transforms.shardings import NamedSharding as NamedSharding, Shard as Shard
from ftrace.transforms.structs import ShapeDtypeStruct as ShapeDtypeStruct
from ftrace.transforms.viz.explain import explain as explain
from ftrace.transforms.viz.explain_sharding import explain_sharding as explain_sharding
from ftrace.transforms.viz.picture import viz as viz
from ftrace.transforms.vmap import vmap as vmap
from ftrace.transforms.zero_gradients import zero_gradients as zero_gradients

__version__: str
__all__ = ['ad_checkpoint', 'all_counters', 'Array', 'block_until_ready', 'cache_clear', 'checkpoint', 'checkpoint_policies', 'Checkpoints', 'clear_caches', 'closure_convert', 'compat', 'Config', 'config', 'counters', 'custom_batching', 'custom_derivatives', 'custom_gradient', 'custom_jvp', 'custom_vjp', 'debug', 'default_device', 'device_count', 'device_get', 'device_put', 'devices', 'Dim', 'disable_jit', 'distributed', 'effects_barrier', 'errors', 'eval_shape', 'experimental', 'extend', 'float0', 'grad', 'hessian', 'image', 'io_callback', 'jacfwd', 'jacobian', 'jacrev', 'dlpack', 'dtypes', 'jit', 'memory', 'monitoring', 'profiler', 'sharding', 'stages', 'jvp', 'lax', 'linear_transpose', 'linearize', 'load', 'make_graph', 'make_jaxpr', 'named_call', 'named_scope', 'nn', 'numpy', 'ops', 'optim', 'pure_callback', 'random', 'ref', 'remat', 'save', 'scipy', 'set_threads', 'ShapeDtypeStruct', 'testing', 'tree', 'tree_util', 'typing', 'value_and_grad', 'vjp', 'vmap']
