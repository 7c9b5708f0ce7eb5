"""What becomes of each public name of JAX: the table of docs/jax-names.md.

`ftrace/ground/jax_names.txt` lists the names, `ground.missing_names` says why some are
missing, and `DIFFERS` what is otherwise where they are there.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ftrace.compat.alias import HOMES
from ftrace.ground.missing_names import NOT_YET, names_of_jax, reason_of

SAME, DIFFERS_ = "same", "differs"

#: How some differ, and which. "docs" is docs/coming-from-jax.md.
DIFFERS = {
    "its result is ftrace's graph under JAX's face": (
        "make_jaxpr extend.core.jaxpr_as_fun core.eval_jaxpr"
    ),
    "functions see values outside of jit": (
        "grad value_and_grad jvp vjp linearize jacfwd jacrev jacobian hessian"
    ),
    "devices are cpu, opencl and interpreter, of cpu as many as are asked for": """
        devices local_devices device_count local_device_count default_backend
        lax.platform_dependent""",
    "programs run there; what is made outside of them lies on device 0": (
        "default_device"
    ),
    "shares the memory of a NumPy array": """
        device_put numpy.asarray numpy.from_dlpack numpy.reshape numpy.ravel
        numpy.transpose numpy.squeeze numpy.expand_dims numpy.flip numpy.broadcast_to
        numpy.split numpy.unstack numpy.diagonal lax.reshape lax.transpose lax.squeeze
        lax.slice lax.rev""",
    "reads the JSON that profiler.trace and profile write": """
        profiler.ProfileData profiler.ProfileEvent profiler.ProfilePlane""",
    "arrays by type and device, not by the lines that made them": """
        profiler.device_memory_profile profiler.save_device_memory_profile""",
    "session_id names the folder; the others decide nothing": (
        "profiler.ProfileOptions"
    ),
    "−0 is less than +0": "numpy.sort numpy.partition",
    "the sum of −0 alone is −0": "numpy.sum numpy.mean numpy.median numpy.dot",
    "has a gradient in reverse mode": "lax.while_loop",
    "elements that tie share the gradient": "lax.reduce_window",
    "derivatives are limits at 0 and ±∞": "lax.reduce_prod numpy.power",
    "slope 1 in a bound that x is equal to, and at NaN": "lax.clamp",
    "slope 1 at NaN": "nn.relu nn.relu6",
    "NaN is greatest": "lax.top_k lax.approx_max_k lax.approx_min_k",
    "exact, where JAX approximates": "numpy.sinc numpy.modf numpy.spacing",
    "the derivative left of 0 is that of its own branch": "numpy.arccosh numpy.acosh",
    "derivatives are those of the elements picked": """
        numpy.unique numpy.unique_values numpy.unique_all numpy.unique_counts
        numpy.unique_inverse numpy.union1d numpy.intersect1d numpy.setdiff1d
        numpy.setxor1d""",
    "a NaN stays in its own places": "scipy.linalg.toeplitz scipy.linalg.hankel",
    "a step of the host outside of derivatives; it needs SciPy": """
        lax.linalg.schur lax.linalg.hessenberg lax.linalg.tridiagonal
        scipy.linalg.schur scipy.linalg.sqrtm scipy.linalg.hessenberg""",
    "done by singular values": "scipy.linalg.polar",
    "reads now: in a traced function once; JAX has an error": (
        "numpy.fromfile numpy.fromiter"
    ),
    "Philox only": "lax.rng_bit_generator",
    "computed in float32 of numbers rounded to the format; on any device": (
        "nn.scaled_matmul nn.scaled_dot_general"
    ),
    "an element is a byte, also in `view`": """
        numpy.float4_e2m1fn numpy.float6_e2m3fn numpy.float6_e3m2fn numpy.int1
        numpy.int2 numpy.int4 numpy.uint1 numpy.uint2 numpy.uint4""",
    "accepted; all products are as exact as their dtype": """
        lax.Precision lax.DotAlgorithm lax.DotAlgorithmPreset lax.AccuracyMode
        lax.Tolerance default_matmul_precision""",
    "accepted, and decides nothing": """
        allow_f16_reductions array_garbage_collection_guard auto_pcast debug_key_reuse
        jax2tf_associative_scan_reductions
        remove_size_one_mesh_axis_from_type softmax_custom_jvp thread_guard
        transfer_guard transfer_guard_device_to_device transfer_guard_device_to_host
        transfer_guard_host_to_device""",
    "of where an array lies its type says nothing": """
        reshard sharding.reshard sharding.auto_axes
        sharding.explicit_axes""",
    "takes a `WrappedFun` and gives one": "interpreters.ad.jvp",
    "in the order of their axes only": "experimental.layout.with_layout_constraint",
    "an interactive console of Python": "debug.breakpoint",
    "prints its dtype in short, f32[3]": "typeof",
    "NumPy shares the memory, and has no bfloat16": "dlpack.is_supported_dtype",
    "takes away the listeners of numbers as well": "monitoring.clear_event_listeners",
    "a class above those that are raised": """
        errors.JAXTypeError errors.JAXIndexError errors.JaxRuntimeError
        errors.JaxprTypeError errors.InconclusiveDimensionOperation""",
}


#: Of the primitives of `lax`, which are there by name.
_PRIMITIVES = (
    "can be bound, and has its rules; a jaxpr has what the graph has in its place"
)


@cache
def _differences() -> dict[str, str]:
    found = {name: how for how, names in DIFFERS.items() for name in names.split()}
    names = [name for name in names_of_jax()["lax"] if name.endswith("_p")]
    primitives = [name for name in names if is_there("lax", name)]
    return {f"lax.{name}": _PRIMITIVES for name in primitives} | found


def in_alias_alone(module: str, name: str) -> bool:
    """Is it there only where ftrace stands in the place of jax?"""
    return is_there(module, name) and not is_there(module, name, ROOTS[:1])


ROOTS = ("ftrace", "ftrace.compat.jax")
MISSING = object()


def is_there(module: str, name: str, roots: tuple[str, ...] = ROOTS) -> bool:
    """Is a name of JAX's in ftrace, or in what stands in the place of jax?"""
    return find(module, name, roots) is not MISSING


def find(module: str, name: str, roots: tuple[str, ...] = ROOTS) -> Any:
    """What a name of JAX's is here: `MISSING` where it is nothing."""
    for root in roots:
        home = f"{root}.{module}" if module else root
        if root == ROOTS[1]:
            home = HOMES.get(f"jax.{module}", home)
        try:
            owner = import_module(home)
            if hasattr(owner, name):
                return getattr(owner, name)
            return import_module(f"{home}.{name}")
        except ImportError:
            continue
    return MISSING


def status_of(module: str, name: str) -> tuple[str, str]:
    """(status, how or why) of a name of JAX's."""
    full = f"{module}.{name}" if module else name
    if is_there(module, name):
        how = _differences().get(full)
        return (DIFFERS_, how) if how else (SAME, "")
    status, reason, instead = reason_of(full)
    return status, "; ".join(filter(None, [reason, instead and f"use {instead}"]))


def statuses() -> dict[str, dict[str, tuple[str, str]]]:
    """Those of all names, by module."""
    return {
        module: {name: status_of(module, name) for name in names}
        for module, names in names_of_jax().items()
    }


def stale() -> list[str]:
    """Names of `DIFFERS` that JAX has not, or that are missing."""
    known = {
        f"{m}.{n}" if m else n: s for m, ns in statuses().items() for n, s in ns.items()
    }
    return [n for n in _differences() if known.get(n, (NOT_YET,))[0] != DIFFERS_]
