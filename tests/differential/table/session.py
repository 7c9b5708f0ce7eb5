"""Rows of settings, of what a process is, and of what is told, recorded and checked."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.differential.rows import names, read

SETTINGS = """
allow_f16_reductions auto_pcast debug_key_reuse enable_checks enable_custom_prng
    explain_cache_misses jax2tf_associative_scan_reductions log_compiles
    remove_size_one_mesh_axis_from_type softmax_custom_jvp thread_guard {modes=plain}:
    real [False,True]
check_tracer_leaks debug_infs debug_nans no_execution no_tracing
    threefry_partitionable {modes=eager}: real [False,True]
enable_x64 {switched modes=plain}: real [False,True]
array_garbage_collection_guard {modes=eager}: real ['allow','log','fatal','foo']
default_matmul_precision {modes=plain}: real ['float32','highest','foo']
default_prng_impl {modes=plain}: real ['threefry2x32','rbg','foo']
legacy_prng_key {modes=plain}: real ['allow','warn','error','foo']
numpy_dtype_promotion {modes=plain}: real ['standard','strict','foo']
numpy_rank_promotion {modes=plain}: real ['allow','warn','raise','foo']
transfer_guard transfer_guard_device_to_device transfer_guard_device_to_host
    transfer_guard_host_to_device {modes=eager}: array ['allow','log','foo']
checking_leaks {modes=eager}: real
"""

PROCESS = """
default_backend process_count process_index process_indices host_count host_id host_ids
    {modes=eager}: [0]?
live_arrays print_environment_info {modes=eager}: [0]?
typeof {modes=plain}: any
ensure_compile_time_eval {modes=plain}: any
copy_to_host_async {modes=plain}: array
fwd_and_bwd {modes=plain}: inexact argnums=[0,1,(0,1),2]! jitted=flag
freeze new_ref free_ref {modes=plain}: array
empty_ref {modes=jit}: array
"""

TOLD = """
debug.print debug.log {modes=eager}: any
    ['x {x}','{} {}','{x:.2f}','no place','{y}','{x!r:>12}']
debug.callback {modes=eager}: any ordered=flag
ad_checkpoint.print_saved_residuals {modes=eager}: floats
experimental.io_callback {modes=plain}: floats ordered=flag
dlpack.from_dlpack {modes=eager}: array
dlpack.is_supported_dtype {modes=eager}:
    ['float32','bool','int8','bfloat16','complex64','U3',None]
profiler.annotate_function {modes=plain}: any
profiler.trace profiler.start_trace profiler.stop_trace {modes=eager}: any
"""

MONITORING = """
monitoring.record_event monitoring.record_event_duration_secs
    monitoring.record_event_time_span monitoring.record_scalar
    monitoring.register_event_listener monitoring.register_event_duration_secs_listener
    monitoring.register_event_time_span_listener monitoring.register_scalar_listener
    monitoring.unregister_event_listener monitoring.unregister_event_duration_listener
    monitoring.unregister_event_time_span_listener
    monitoring.unregister_scalar_listener monitoring.clear_event_listeners
    {modes=eager}: ['/a/b','']
"""

CHECKS = """
test_util.check_grads {modes=eager}: floats [1,2] modes=[('fwd',),('rev',),('foo',)]
    [False,True]?
test_util.check_jvp test_util.check_vjp {modes=eager small=40}: floats [False,True]
"""


# Settings: what is computed within them, and what they say they are.


def _leak(L: Any, x: Any) -> Any:
    kept: list[Any] = []
    return L.jit(lambda v: (kept.append(v), L.numpy.sin(v))[1])(x)


#: What a setting decides; of the others it is a sine.
WORK: dict[str, Callable[[Any, Any], Any]] = {
    "debug_nans": lambda L, x: L.numpy.log(x),
    "debug_infs": lambda L, x: 1 / L.numpy.asarray(x),
    "numpy_dtype_promotion": lambda L, x: L.numpy.add(x, L.numpy.arange(1)),
    "numpy_rank_promotion": lambda L, x: L.numpy.multiply(x, L.numpy.ones((1, 1))),
    "no_tracing": lambda L, x: L.jit(lambda v: L.numpy.sin(v) * 3)(x),
    "default_prng_impl": lambda L, x: L.random.key_data(L.random.key(3)),
    "enable_custom_prng": lambda L, x: str(L.random.PRNGKey(0).shape),
    "legacy_prng_key": lambda L, x: L.random.split(L.random.PRNGKey(0)),
    "threefry_partitionable": lambda L, x: L.random.uniform(
        L.random.PRNGKey(0), (3,), "float32"
    ),
    "softmax_custom_jvp": lambda L, x: L.nn.softmax(L.numpy.sin(x)),
    "enable_x64": lambda L, x: (L.numpy.asarray(x), L.numpy.ones(2), L.numpy.sin(x)),
    "default_matmul_precision": lambda L, x: L.numpy.dot(x, 2.0),
    "check_tracer_leaks": _leak,
    "checking_leaks": _leak,
}


def _within(name: str, L: Any, x: Any, *value: Any) -> Any:
    """What comes of work within a setting, and what the setting is there."""
    with L.find(name)(*value):
        setting = name if value else "check_tracer_leaks"
        full = setting if setting.startswith("jax") else f"jax_{setting}"
        inside = getattr(L.config, full)
        result = WORK.get(name, lambda L, x: L.numpy.sin(x))(L, x)
    return getattr(inside, "value", inside), result


# The process.


def _of_process(name: str, L: Any, *_: Any) -> Any:
    return L.find(name)()


def _live(L: Any, *_: Any) -> bool:
    made = L.numpy.arange(3) + 1
    return any(found is made for found in L.live_arrays())


def _environment(L: Any, *_: Any) -> Any:
    text = L.print_environment_info(return_string=True)
    return [word in text for word in ("numpy:", "python:", "device info:")]


def _type(L: Any, x: Any) -> Any:
    found = L.typeof(x)
    weak = found.weak_type if isinstance(x, L.Array) else None
    return found.shape, str(found.dtype), weak, found.size, found.ndim


def _eagerly(L: Any, x: Any) -> Any:
    """In a traced function: a branch of Python's, on what is known."""

    def f(v: Any) -> Any:
        with L.ensure_compile_time_eval():
            known = L.numpy.arange(3).sum() > 2
            return L.numpy.sin(v) if known else v

    return L.jit(f)(x)


def _forward_and_back(L: Any, x: Any, **options: Any) -> Any:
    def f(x: Any, y: Any) -> Any:
        return L.numpy.sin(x) * y

    forward, backward = L.fwd_and_bwd(f, **options)
    out, residuals = forward(x, L.numpy.ones_like(x) * 2)
    return out, backward(residuals, L.numpy.ones_like(out))


def _top_ref(name: str, L: Any, x: Any) -> Any:
    if name == "empty_ref":
        ref = L.empty_ref(L.typeof(L.numpy.asarray(x)))
        ref[...] = x
        return L.freeze(ref)
    ref = L.new_ref(L.numpy.asarray(x))
    ref[...] = ref[...] + ref[...]
    if name == "freeze":
        return L.freeze(ref)
    found = ref[...]
    if name == "free_ref":
        L.free_ref(ref)
    return found


# What is told: printed, called back, recorded.


def printed(call: Callable[[], Any], L: Any) -> str:
    """What a call prints, and what is called back from within it."""
    text = io.StringIO()
    with redirect_stdout(text):
        call()
        L.effects_barrier()
    return text.getvalue()


def _print(name: str, L: Any, x: Any, form: str) -> str:
    printer = L.find(f"debug.{name}")
    given = ((x, 2.5), {}) if form == "{} {}" else ((), {"x": x})

    def call() -> None:
        L.jit(lambda v: printer(form, *given[0], **given[1]))(1)

    return printed(call, L)


def _callback(L: Any, x: Any, **options: Any) -> Any:
    seen: list[Any] = []

    def see(v: Any, *, k: Any) -> None:
        seen.append((np.asarray(v), k))

    L.jit(lambda v: L.debug.callback(see, v * 2, k="k", **options))(x)
    L.effects_barrier()
    return seen


def _residuals(L: Any, x: Any) -> Any:
    """The types of what is kept, one a line; how the lines go on is each one's own."""
    show = L.find("ad_checkpoint.print_saved_residuals")
    text = printed(lambda: show(lambda v: L.numpy.sin(L.numpy.cos(v)), x), L)
    return sorted(line.split(" ")[0] for line in text.splitlines())


def _io_callback(L: Any, x: Any, **options: Any) -> Any:
    shape = L.ShapeDtypeStruct(x.shape, x.dtype)
    call = L.find("experimental.io_callback")
    return call(lambda v: np.asarray(v) * np.asarray(2, v.dtype), shape, x, **options)


def _traced(name: str, L: Any, x: Any) -> Any:
    """A function of which a profile is written."""
    profiler = L.profiler
    with tempfile.TemporaryDirectory() as folder:
        if name == "trace":
            with profiler.trace(folder):
                result = L.numpy.sin(x)
        else:
            profiler.start_trace(folder)
            result = L.numpy.sin(x)
            profiler.stop_trace()
        return result, any(Path(folder).rglob("*"))


def _stopped(L: Any, x: Any) -> Any:
    """A profile is ended that nobody began."""
    return L.profiler.stop_trace()


def _annotated(L: Any, x: Any) -> Any:
    return L.profiler.annotate_function(L.numpy.sin, name="f")(x)


#: The kinds of events: how they are recorded, and how their listeners are known.
_EVENTS = {
    "event": ("record_event", (), "event_listener"),
    "duration": ("record_event_duration_secs", (1.5,), "event_duration_listener"),
    "span": ("record_event_time_span", (1.0, 2.5), "event_time_span_listener"),
    "scalar": ("record_scalar", (3,), "scalar_listener"),
}


def _monitored(name: str, L: Any, event: str) -> Any:
    """What listeners of each kind hear, before they are taken away and after that."""
    monitoring, heard = L.monitoring, []
    kinds = {
        kind: lambda *given, **more: heard.append((*given, more)) for kind in _EVENTS
    }
    for kind, (_, _, listener) in _EVENTS.items():
        of = "event_duration_secs_listener" if kind == "duration" else listener
        getattr(monitoring, f"register_{of}")(kinds[kind])
    try:
        for recorder, given, _ in _EVENTS.values():
            getattr(monitoring, recorder)(event, *given, a="b")
        for kind, (_, _, listener) in _EVENTS.items():
            if name == f"unregister_{listener}":
                getattr(monitoring, name)(kinds[kind])
        if name == "clear_event_listeners":
            monitoring.clear_event_listeners()
        for recorder, given, _ in _EVENTS.values():
            getattr(monitoring, recorder)(event, *given)
    finally:
        for kind, (_, _, listener) in _EVENTS.items():
            if name not in (f"unregister_{listener}", "clear_event_listeners"):
                getattr(monitoring, f"unregister_{listener}")(kinds[kind])
    return heard


# Checks of derivatives: of a right rule, and of a wrong one.


def _ruled(L: Any, wrong: bool) -> Any:
    function = L.custom_jvp(L.numpy.sin)
    function.defjvp(
        lambda p, t: (L.numpy.sin(p[0]), L.numpy.cos(p[0]) * t[0] * (1 + wrong))
    )
    return function


def _check_grads(L: Any, x: Any, order: int, wrong: bool = False, **k: Any) -> Any:
    check = L.find("test_util.check_grads")
    return check(_ruled(L, wrong), (L.numpy.tanh(x),), order, **k)


def _check(name: str, L: Any, x: Any, wrong: bool) -> Any:
    f, x = _ruled(L, wrong), L.numpy.tanh(x)
    derivative = partial(L.jvp if name == "check_jvp" else L.vjp, f)
    return L.find(f"test_util.{name}")(f, derivative, (x,))


_PROCESS: dict[str, Any] = {
    **{name: partial(_of_process, name) for name in names(PROCESS)},
    **{n: partial(_top_ref, n) for n in ("freeze", "new_ref", "empty_ref", "free_ref")},
    "live_arrays": _live, "print_environment_info": _environment,
    "typeof": _type, "ensure_compile_time_eval": _eagerly,
    "fwd_and_bwd": _forward_and_back,
    "copy_to_host_async": lambda L, x: L.copy_to_host_async(L.numpy.asarray(x)),
}  # fmt: skip
_TOLD: dict[str, Any] = {
    "debug.print": partial(_print, "print"), "debug.log": partial(_print, "log"),
    "debug.callback": _callback, "ad_checkpoint.print_saved_residuals": _residuals,
    "experimental.io_callback": _io_callback,
    "dlpack.from_dlpack": lambda L, x: L.dlpack.from_dlpack(L.numpy.asarray(x)),
    "profiler.trace": partial(_traced, "trace"),
    "profiler.start_trace": partial(_traced, "start_trace"),
    "profiler.stop_trace": _stopped, "profiler.annotate_function": _annotated,
}  # fmt: skip

ROWS = [
    *read("", SETTINGS, {name: partial(_within, name) for name in names(SETTINGS)}),
    *read("", PROCESS, _PROCESS),
    *read("", TOLD, _TOLD),
    *read("", MONITORING, {
        name: partial(_monitored, name.partition(".")[2]) for name in names(MONITORING)
    }),
    *read("", CHECKS, {
        "test_util.check_grads": _check_grads,
        "test_util.check_jvp": partial(_check, "check_jvp"),
        "test_util.check_vjp": partial(_check, "check_vjp"),
    }),
]  # fmt: skip
