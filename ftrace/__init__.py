"""ftrace: pure Python functions over arrays become fast programs.

    import ftrace as ft
    import ftrace.numpy as fnp

    @ft.jit
    def step(params, x, y):
        return ft.value_and_grad(loss)(params, x, y)

A function is traced into an immutable graph; `grad`, `vmap`, `jvp` and `jit` rewrite
that graph; lowering fuses it into kernels for the CPU, for OpenCL, or for NumPy.
Names, arguments and meanings are JAX's.
"""

# Names of `__all__` that are loaded later are in the stub, which a test holds to them.
# pyright: reportUnsupportedDunderAll=false

import gc as _gc
import os as _os
from functools import partial as _partial
from importlib import import_module
from typing import Any

_collects = _gc.isenabled()
try:  # as `_importing` does
    _gc.disable()
    from ftrace import errors, numpy
    from ftrace.ground import VERSION, settings as _settings
    from ftrace.ground.missing_names import (
        no_attribute as _no_attribute,
        offer as _offer,
        tell_missing as _tell_missing,
    )
    from ftrace.ground.tracebacks import show_users_frames as _show_users_frames
    from ftrace.trace.backend import Backend as _Backend, register as _register
    from ftrace.trace.calls.checkpoint import checkpoint as remat
    from ftrace.trace.python_limits import (
        importing as _importing,
        put_away as _put_away,
    )
    from ftrace.trace.tracing.scopes import value_of_dim as _value_of_dim
    from ftrace.trace.tracing.tracer import aval_of as _aval_of
    from ftrace.transforms import device_placement as _placement
    from ftrace.transforms.jacobian import jacrev as jacobian
    from ftrace.transforms.jit import compiled_graph as _runs, eager_programs as _eager
    from ftrace.transforms.vmap import vmap
finally:
    if _collects:
        _gc.enable()
_put_away()


def _member(module: str, name: str) -> Any:
    """What a module has, which is loaded now: few programs ask for it."""
    return getattr(__import__(f"ftrace.{module}", fromlist=(name,)), name, None)


def _call_of(module: str, name: str, *args: Any, **options: Any) -> Any:
    return _member(module, name)(*args, **options)


_register(
    _Backend(
        run_graph=_runs.run_graph,
        compiles=_eager.compiles,
        program_of=_eager.program_of,
        has_compiled=_runs.has_compiled,
        run_call=_eager.run_call,
        run_operation=_eager.run_operation,
        make_native=_runs.make_native,
        call_placed=_partial(_call_of, "transforms.jit.placed_calls", "call_placed"),
        value_of_dim=_value_of_dim,
        aval_of=_aval_of,
        typeof=_partial(_call_of, "transforms.environment", "typeof"),
        html_of=_partial(_call_of, "transforms.viz.regions", "html_of"),
        jaxpr_of=_partial(_call_of, "compat.view", "jaxpr_of_graph"),
        device_of=_placement.device_of,
        sharding_of=_partial(_call_of, "transforms.shardings", "sharding_of"),
        format_of=_placement.format_of,
        shards_of=_partial(_call_of, "transforms.shardings", "shards_of"),
        devices=_placement.devices,
        device_put=_placement.device_put,
        block_until_ready=_placement.block_until_ready,
        vmap=vmap,
        reduce=_partial(_call_of, "lax", "reduce"),
        scan=_partial(_call_of, "lax", "scan"),
        while_loop=_partial(_call_of, "lax", "while_loop"),
    )
)
# What modules offer and is made on floors above them: JAX's primitives are functions of
# `lax`, and `sparsify` reads jaxprs.
for _module, _home, _names in (
    ("custom_derivatives", "compat.lax_primitives",
     "custom_jvp_call_p custom_vjp_call_p"),
    ("dtypes", "compat.jax.dtypes",
     "canonicalize_dtype finfo iinfo issubdtype itemsize_bits result_type "
     "scalar_type_of TypePromotionError prng_key extended"),
    ("experimental", "compat", "hijax"),
    ("experimental.sparse", "compat.sparsify", "sparsify"),
    ("lax", "compat.lax_primitives", "*_p"),
):  # fmt: skip
    _offer(f"ftrace.{_module}", _names.split(), _partial(_member, _home))
_show_users_frames()
_tell_missing(errors.__name__)  # which stands below what tells

__version__ = VERSION

__all__ = [
    "ad_checkpoint", "all_counters", "Array", "block_until_ready", "cache_clear",
    "checkpoint", "checkpoint_policies", "Checkpoints", "clear_caches",
    "closure_convert", "compat",
    "Config", "config", "counters", "custom_batching", "custom_derivatives",
    "custom_gradient", "custom_jvp", "custom_vjp", "debug", "default_device",
    "device_count", "device_get", "device_put", "devices", "Dim", "disable_jit",
    "distributed", "effects_barrier", "errors", "eval_shape", "experimental", "extend",
    "float0", "grad", "hessian", "image", "io_callback", "jacfwd", "jacobian", "jacrev",
    "dlpack", "dtypes", "jit", "memory", "monitoring", "profiler", "sharding", "stages",
    "jvp", "lax", "linear_transpose", "linearize", "load", "make_graph", "make_jaxpr",
    "named_call", "named_scope", "nn", "numpy", "ops", "optim", "pure_callback",
    "random", "ref", "remat", "save", "scipy", "set_threads", "ShapeDtypeStruct",
    "testing", "tree", "tree_util", "typing", "value_and_grad", "vjp", "vmap",
]  # fmt: skip

#: Where the names are written that are looked for when they are first asked for: most
#: programs need few. Type checkers read of them in `__init__.pyi`: see docs/stubs.py.
_HOMES = {
    name: home
    for home, names in {
        "backends.base": "Device",
        "compat.view": "make_jaxpr",
        "debug": "nan_origin",
        "dtypes": "float0",
        "ground.settings": "Config config set_threads",
        "profiler": "profile",
        "ref": "Ref empty_ref free_ref freeze new_ref",
        "testing.bisect": "bisect",
        "testing.replay": "record replay",
        "trace.arrays.array": "Array",
        "trace.calls.checkpoint": "checkpoint checkpoint_policies",
        "trace.symbolic": "Dim",
        "transforms.checkpoints": "Checkpoints",
        "transforms.contexts": " ".join(
            (*_settings.CONTEXTS, "checking_leaks", "ensure_compile_time_eval")
        ),
        "transforms.custom.callbacks": "effects_barrier io_callback pure_callback",
        "transforms.custom.closure_convert": "closure_convert custom_gradient",
        "transforms.custom.custom_derivatives": "custom_jvp custom_vjp",
        "transforms.device_placement": "all_counters block_until_ready counters "
        "default_device device_count device_get device_put devices",
        "transforms.environment": "copy_to_host_async default_backend "
        "device_put_replicated device_put_sharded host_count host_id host_ids "
        "live_arrays local_device_count local_devices make_array_from_callback "
        "make_array_from_process_local_data make_array_from_single_device_arrays "
        "print_environment_info process_count process_index process_indices typeof",
        "transforms.grad": "grad jvp linear_transpose linearize value_and_grad vjp",
        "transforms.jacobian": "hessian jacfwd jacrev",
        "transforms.jit.compiled_graph": "cache_clear clear_caches",
        "transforms.jit.jit": "disable_jit eval_shape jit make_graph named_call "
        "named_scope",
        "transforms.jit.misses": "no_compiles",
        "transforms.structs": "ShapeDtypeStruct",
        "transforms.mapped": "pmap reshard shard_map smap",
        "transforms.meshes": "P make_mesh set_mesh",
        "transforms.viz.explain_sharding": "explain_sharding",
        "transforms.passes": "fwd_and_bwd",
        "transforms.save_load": "load save",
        "transforms.shardings": "NamedSharding Shard",
        "transforms.viz.explain": "explain",
        "transforms.viz.picture": "viz",
        "transforms.zero_gradients": "zero_gradients",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in __all__ and name not in _HOMES:
        raise _no_attribute(__name__, name)
    if name not in _HOMES:
        return _importing(lambda: import_module(f"ftrace.{name}"))
    found = getattr(import_module(f"ftrace.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES})


if (_asked := _os.environ.get("FTRACE_AS_JAX", "")) == "1":
    import_module("ftrace.compat").install_as_jax()
elif _asked not in ("", "0"):
    raise import_module("ftrace.errors").ArgumentError(
        f"the environment variable FTRACE_AS_JAX must be 1 or 0, got {_asked!r}"
    )
