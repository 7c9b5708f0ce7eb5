"""One frozen configuration, read from the environment once.

It is changed for a block, or for good:

    with ft.config(debug=1, disabled_rules={"merge_reshapes"}):
        step(params, batch)

    ft.config.update("jax_enable_x64", True)
    ft.set_threads(2)

The settings of JAX that have no counterpart here stand last. They are accepted and keep
their values, so that programs which set them run; that they decide nothing is said
once, where one is given another value than its default.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import cache, partial
from importlib import import_module
from typing import Any, cast

import numpy as np

from ftrace.errors import ArgumentError, UnknownSettingError, ValueRangeError
from ftrace.ground.fast_dataclasses import dataclass

#: Bytes that the disk cache may hold, if nothing else is set.
CACHE_SIZE = 256 << 20
#: Bytes of memory that what was traced and compiled may take, if nothing else is set.
CACHE_MEMORY = 40 << 20
#: The pool's ticket has room for no more.
MAX_THREADS = 4095
#: As many devices the host may be seen as.
MAX_DEVICES = 4096
#: More threads than the machine has processors are refused.
MACHINE_THREADS = min(os.cpu_count() or 1, MAX_THREADS)
#: Kinds of processors that code can be generated for, besides the machine's own.
CPUS = ("generic", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")

#: What only the environment sets.
OF_PROCESS = frozenset(("cpu", "fence"))


#: On which settings, besides `enable_x64`, it depends what a function is traced to.
_TRACED_BY = (
    "check_static_indices", "default_prng_impl", "mesh", "numpy_dtype_promotion",
    "numpy_rank_promotion", "threefry_partitionable",
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Settings of one thread at one time.

    Attributes:
      enable_x64: None honours the dtype of every input and creates 32-bit arrays;
        True and False give JAX's behaviour with that switch.
      device: name of the default device.
      debug: 0 silent, 1 a line per kernel compiled, 2 a line per kernel run,
        3 the source of every kernel.
      observed: what is told to those who record a profile, which sets it: 1 the steps
        of programs, 2 eager calls of functions as well; see `spans.py`.
      disabled_rules: names of rewrite rules that are not applied.
      disable_jit: run jitted functions operation by operation.
      check_static_indices: an index that is known and out of bounds raises; False is
        JAX's default: reading clips it, writing drops it, and a list is no index.
      check_specs: check the graph against its specification between passes.
      threads: number of threads of the CPU device, no more than the machine has;
        None takes all cores that the process may use.
      cpu_devices: as how many devices the host is seen, "cpu", "cpu:1" and so on; None
        is one, or what programs for JAX tell XLA.
      distributed_timeout: seconds after which a process gives up waiting for others.
      native_calls: jitted functions are called in native code, where this interpreter
        allows it.
      cache_dir: folder of the disk cache; empty for the platform's own.
      cache_size: bytes that the disk cache may hold; 0 is no disk cache.
      cache_memory: bytes of memory, roughly, that graphs and programs may take which
        are cached for calls to come: see `tables.py`.
      tune: try several schedules of each kernel on this machine and keep the fastest.
      cpu: the kind of processor that code is generated for; empty for this machine.
      fence: buffers lie beside memory that nobody may touch, so that an access outside
        of one ends the process: "end", "front", or empty for none.

      progress: what takes more than a second shows on a terminal how far it is.
      traceback: "user", or "full": frames of ftrace are shown, too: see
        `tracebacks.py`.
      debug_nans, debug_infs: an operation or program that gives a NaN, or an infinity,
        raises FloatingPointError: see `trace/eager/checked_calls.py`.
      numpy_dtype_promotion: "standard", or "strict": arrays that differ in dtype are
        refused.
      numpy_rank_promotion: "allow", or "warn" or "raise" where arrays that differ in
        their number of axes meet.
      log_compiles: a line for each function that is traced, and each that is compiled.
      explain_misses: a line that says why a jitted function is traced.
      check_tracer_leaks: traced values that outlive their function are an error then.
      no_tracing: no jitted function may be traced.
      no_compiles: none may be traced, and nothing compiled.
      no_execution: no program may run.
      default_prng_impl: the generator of keys that name none.
      threefry_partitionable: an element of a random array depends on its position
        alone; False draws the bits of JAX before 0.5.
      mesh: along whose axes a `PartitionSpec` divides: see `set_mesh`.
      others: settings of JAX that decide nothing here, and their values, where these
        are not the defaults: see `jax_settings.json`.

    `cpu` and `fence` are those of the process: only the environment sets them.
    """

    enable_x64: bool | None = None
    device: str = "cpu"
    debug: int = 0
    observed: int = 0
    disabled_rules: frozenset[str] = frozenset()
    disable_jit: bool = False
    check_static_indices: bool = True
    check_specs: bool = False
    threads: int | None = None
    cpu_devices: int | None = None
    distributed_timeout: int = 300
    native_calls: bool = True
    cache_dir: str = ""
    cache_size: int = CACHE_SIZE
    cache_memory: int = CACHE_MEMORY
    tune: bool = False
    cpu: str = ""
    fence: str = ""
    progress: bool = True
    traceback: str = "user"
    debug_nans: bool = False
    debug_infs: bool = False
    numpy_dtype_promotion: str = "standard"
    numpy_rank_promotion: str = "allow"
    log_compiles: bool = False
    explain_misses: bool = False
    check_tracer_leaks: bool = False
    no_tracing: bool = False
    no_compiles: bool = False
    no_execution: bool = False
    default_prng_impl: str = "threefry2x32"
    threefry_partitionable: bool = True
    mesh: Any = None
    others: tuple[tuple[str, Any], ...] = ()

    # No fields: they follow from these.

    #: Are calls of functions and programs, or their results, checked? Such calls are
    #: not native.
    checks_calls = False
    #: Has any configuration of this process asked for it, for eager calls to be told,
    #: or for a device that is not the first one? Until then no call looks.
    any_looks_at_calls = False
    #: The settings on which it depends what a function is traced to: of the keys of
    #: traces.
    trace_key = cast(Any, None)

    @property
    def compile_key(self) -> tuple[Any, ...]:
        """The settings on which compiled code depends: of the keys of programs."""
        return self.disabled_rules, self.tune

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name), name))
        promotes = self.numpy_dtype_promotion, self.numpy_rank_promotion
        strict = promotes != ("standard", "allow")
        traced_by = [(name, getattr(self, name)) for name in _TRACED_BY]
        unusual = [
            *[pair for pair in traced_by if pair[1] != getattr(Config, pair[0])],
            *[pair for pair in self.others if pair[0] in _JAX_READ],
        ]
        key: Any = (self.enable_x64, *unusual) if unusual else self.enable_x64
        object.__setattr__(self, "trace_key", key)
        checks = strict or self.debug_nans or self.debug_infs or self.no_execution
        object.__setattr__(self, "checks_calls", checks)
        looks = checks or self.observed > 1 or ":" in self.device
        Config.any_looks_at_calls |= looks


_TUPLE: type[Any] = tuple


def settings_of(trace_key: Any) -> dict[str, Any]:
    """The settings that a `Config.trace_key` holds, by name."""
    unusual: Any = trace_key[1:] if isinstance(trace_key, _TUPLE) else ()
    usual = {name: getattr(Config, name) for name in _TRACED_BY}
    enable_x64 = trace_key[0] if unusual else trace_key
    return {"enable_x64": enable_x64, **usual, **dict(unusual)}


def _wrong(name: str, wanted: str, value: Any) -> ArgumentError:
    kind = type(value).__name__
    return ArgumentError(f"{name} must be {wanted}, got {kind}: {value!r}")


_FLAGS: tuple[type, ...] = (bool, int, np.bool_)


def _flag(value: Any, name: str, wanted: str = "True or False") -> bool:
    if isinstance(value, _FLAGS) and value in (0, 1):
        return bool(value)
    raise _wrong(name, wanted, value)


def _flag_or_none(value: Any, name: str) -> bool | None:
    return None if value is None else _flag(value, name, "None, True or False")


def _read_int(value: Any, name: str, wanted: str = "a whole number") -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise _wrong(name, wanted, value) from None


#: What raises for a name that nobody has: those who know the names add it.
name_checks: dict[str, Callable[[Any], object]] = {}


def _device(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _wrong(name, "the name of a device", value)
    name_checks.get(name, str)(value)
    return value


def _rules(value: Any, name: str) -> frozenset[str]:
    names: Any = [None] if isinstance(value, str) else value
    try:
        given = frozenset[Any](names)
    except TypeError:
        given = frozenset[Any]([None])
    if not all(isinstance(each, str) for each in given):
        raise _wrong(name, "names of rules, as {'merge_reshapes'}", value)
    if given:
        name_checks.get(name, frozenset)(given)
    return given


def _others(value: Any, name: str) -> tuple[tuple[str, Any], ...]:
    """Settings of JAX that decide nothing: those that are not the default."""
    try:
        pairs: dict[str, Any] = dict(value)
    except (TypeError, ValueError):
        raise _wrong(name, "pairs of names and values", value) from None
    for setting, wanted in pairs.items():
        choices = _JAX_CHOICES.get(setting)
        if choices and wanted not in choices:
            listed = ", ".join(map(repr, choices))
            raise ValueRangeError(f"{setting} must be one of {listed}; got {wanted!r}")
    kept = [(k, x) for k, x in pairs.items() if x != _jax_defaults()[k]]
    return tuple(sorted(kept, key=operator.itemgetter(0)))


def _one_of(*known: str, **short: str) -> Callable[[Any, str], str]:
    def check(value: Any, name: str) -> str:
        found = short.get(value, value) if isinstance(value, str) else value
        if found and found not in known:
            names = ", ".join(known)
            raise ValueRangeError(f"{name} must be one of {names}; got {value!r}")
        return found

    return check


def _threads(value: Any, name: str = "threads") -> int | None:
    """A number of threads; None is all cores."""
    if value is None:
        return None
    wanted = "a whole number or None"
    if isinstance(value, bool):
        raise _wrong(name, wanted, value)
    count = _read_int(value, name, wanted)
    if not 1 <= count <= MACHINE_THREADS:
        raise ValueRangeError(
            f"{name} must be from 1 to {MACHINE_THREADS}, which is what this machine "
            f"has; got {count}; None takes all cores, as without FTRACE_THREADS"
        )
    return count


def _devices(value: Any, name: str) -> int | None:
    if value is None:
        return None
    count = _read_int(value, name, "a whole number, or None")
    if not 1 <= count <= MAX_DEVICES:
        raise ValueRangeError(f"{name} must be from 1 to {MAX_DEVICES}, got {count}")
    return count


def _seconds(value: Any, name: str) -> int:
    count = _read_int(value, name, "a whole number of seconds")
    if count < 1:
        raise ValueRangeError(f"{name} must be 1 second or more, got {count}")
    return count


def _bytes(value: Any, name: str, none: str = "is no disk cache") -> int:
    size = _read_int(value, name, "a whole number of bytes")
    if size < 0:
        raise ValueRangeError(f"{name} must be 0 or more, got {size}; 0 {none}")
    return size


def _folder(value: Any, name: str) -> str:
    try:
        return os.path.expanduser(os.fsdecode(value))
    except TypeError:
        raise _wrong(name, "the path of a folder", value) from None


def _mesh(value: Any, name: str) -> Any:
    if value is None or hasattr(value, "abstract_mesh"):
        return value
    raise _wrong(name, "a mesh, or None", value)


#: What a setting is, given what the user writes; or it raises.
_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    **{name: _flag for name, kind in Config.__annotations__.items() if kind == "bool"},
    "enable_x64": _flag_or_none,
    "device": _device,
    "debug": _read_int,
    "observed": _read_int,
    "disabled_rules": _rules,
    "threads": _threads,
    "cpu_devices": _devices,
    "distributed_timeout": _seconds,
    "cache_dir": _folder,
    "cache_size": _bytes,
    "cache_memory": partial(_bytes, none="keeps the latest alone"),
    "cpu": _one_of(*CPUS),
    "fence": _one_of("end", "front", **{"1": "end", "0": ""}),
    "traceback": _one_of("user", "full"),
    "numpy_dtype_promotion": _one_of("standard", "strict"),
    "numpy_rank_promotion": _one_of("allow", "warn", "raise"),
    "default_prng_impl": _one_of("threefry2x32", "rbg", "unsafe_rbg"),
    "mesh": _mesh,
    "others": _others,
}  # fmt: skip


def _read_flag(text: str, name: str) -> bool:
    return text.lower() not in ("0", "false", "no")


def _read_number(text: str, name: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise ArgumentError(
            f"{name} must be a whole number, written in digits, got {text!r}"
        )
    return int(text)


#: How a variable is read, by the type of its setting.
_READERS: dict[str, Callable[[str, str], Any]] = {
    "bool": _read_flag, "int": _read_number, "str": lambda text, name: text,
}  # fmt: skip


def _from_environment() -> Config:
    """The settings of which there is a variable, `FTRACE_` and the name."""
    found: dict[str, Any] = {}
    for name, kind in Config.__annotations__.items():
        read = _READERS.get(kind.removesuffix(" | None"))
        if read and (text := os.environ.get(f"FTRACE_{name.upper()}")):
            variable = f"the environment variable FTRACE_{name.upper()}"
            found[name] = _CHECKS[name](read(text, variable), variable)
    return Config(**found)


_known: dict[Config, Config] = {}


def _change(before: Config, changes: dict[str, Any]) -> Config:
    """The configuration with changes: equal ones are one object."""
    if "others" in changes:
        changes = {**changes, "others": (*before.others, *changes["others"])}
    made = replace(before, **changes)
    return _known.setdefault(made, made)


_default = _change(_from_environment(), {})
_local: ContextVar[Config | None] = ContextVar("ftrace_config", default=None)
_names = {field.name for field in fields(Config)}


def current() -> Config:
    """The configuration in force for this thread."""
    return _local.get() or _default


def decides(*names: str) -> bool:
    """Is none of these rules and decisions switched off?"""
    return current().disabled_rules.isdisjoint(names)


def host_devices() -> int:
    """As how many devices the host is seen."""
    return current().cpu_devices or (_devices_of_xla() if reads_xla_flags else 1)


#: Are programs for JAX running here? Then XLA's flags say something.
reads_xla_flags = False


@cache
def _devices_of_xla() -> int:
    """What the flag of XLA says, which is read when devices are first used."""
    flag = "--xla_force_host_platform_device_count="
    _, found, rest = os.environ.get("XLA_FLAGS", "").rpartition(flag)
    name = f"{flag} in XLA_FLAGS"
    given = _read_number("".join(rest.split()[:1]), name) if found else 1
    return _devices(given, name) or 1


def _devices_as_in_jax(count: Any) -> int | None:
    """JAX's number of devices, which is set before they are used."""
    wanted = None if count == -1 else count
    if wanted != current().cpu_devices:
        name_checks.get("jax_num_cpu_devices", str)(count)
    return wanted


_steps: dict[int, Config] = {}


def observing_steps() -> Config:
    """The configuration in force, but of a profile only the steps of programs are told.

    Each eager call of a profile asks: a configuration is not made anew for it.
    """
    before = current()
    found = _steps.get(id(before))  # none of them is ever let go: `_known` has them
    if found is None:
        found = _steps[id(before)] = _change(before, {"observed": 1})
    return found


@contextmanager
def standing(config: Config) -> Generator[None]:
    """A block in which this configuration is in force."""
    token = _local.set(config)
    try:
        yield
    finally:
        _local.reset(token)


def change_here(**changes: Any) -> None:
    """Changes the configuration of this context, until a block around it ends.

    A context that is back at the default follows it again.
    """
    changed = _change(current(), changes)
    _local.set(None if changed is _default else changed)


def sources() -> tuple[ContextVar[Config | None], dict[str, Any]]:
    """Where native code reads the configuration.

    A context's own stands in the variable; where that is None it is `_default` of the
    dict of this module.
    """
    return _local, globals()


def _canonical(name: str) -> str:
    """A setting by its own name; JAX's begin with `jax_`, most of them."""
    short = name.removeprefix("jax_")
    short = _JAX_SAME.get(short, short)
    if short in _names or short in _jax_defaults():
        return short
    known = ", ".join(sorted(_names))
    raise UnknownSettingError(f"unknown setting {name!r}; the settings are {known}")


#: What values mean under JAX's names, where these are not ours.
_AS_IN_JAX: dict[str, Callable[[Any], Any]] = {
    "compilation_cache_dir": lambda folder: "" if folder is None else folder,
    "compilation_cache_max_size": lambda size: CACHE_SIZE if size == -1 else size,
    "num_cpu_devices": _devices_as_in_jax,
    "default_device": lambda d: "cpu" if d is None else getattr(d, "name", d),
    "traceback_filtering": lambda how: _TRACEBACKS.get(how, how),
}

#: JAX's ways to show a traceback.
_TRACEBACKS = {
    "off": "full",
    **dict.fromkeys(
        ("auto", "tracebackhide", "remove_frames", "quiet_remove_frames"), "user"
    ),
}

_reported: set[str] = set()


def _tell(name: str) -> None:
    """Says once that a setting of JAX decides nothing."""
    if name not in _reported:
        _reported.add(name)
        sys.stderr.write(
            f"ftrace: the setting jax_{name} is accepted, and decides nothing here\n"
        )


def _changes(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by their own names; those that may change while a process runs."""
    changes: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in settings.items():
        short = _canonical(name)
        read = _AS_IN_JAX.get(name.removeprefix("jax_"))
        value = value if read is None else read(value)
        (changes if short in _names else others)[short] = value
    for name in changes.keys() & OF_PROCESS:
        raise ArgumentError(
            f"{name} is one for the whole process and cannot be changed in it; set the "
            f"environment variable FTRACE_{name.upper()} before Python starts"
        )
    if others:
        _others(others.items(), "others")
        for name, value in others.items():
            met = _jax_defaults()[name], *_JAX_MET.get(name, ())
            if value not in met and name not in _JAX_READ:
                _tell(name)
        changes["others"] = tuple(others.items())
    return changes


class ConfigHandle:
    """`ft.config`: call it for a `with` block, or `update` the default for good.

        with ft.config(threads=1, debug=2): ...
        ft.config.update("enable_x64", True)

    Names are the fields of `Config`; those of JAX's (`jax_enable_x64`) are understood
    as well. `ft.config.threads` reads the setting in force. A block counts for its own
    thread.

    Raises:
      ArgumentError, ValueRangeError: there is no such setting, or no such value of it.

    Example:
      >>> with ft.config(enable_x64=True):
      ...     print(fnp.zeros(2).dtype)
      float64
      >>> fnp.zeros(2).dtype
      dtype('float32')
    """

    def __repr__(self) -> str:
        return f"<the settings: {current()!r}>"

    @contextmanager
    def __call__(self, **changes: Any) -> Generator[Config, None, None]:
        changed = _change(current(), _changes(changes))
        with standing(changed):
            yield changed

    def update(self, name: str, value: Any) -> None:
        """Sets the default for all threads; JAX's names (`jax_enable_x64`) work."""
        global _default
        changes = _changes({name: value})
        _default = _change(_default, changes)
        if (local := _local.get()) is not None:
            _local.set(_change(local, changes))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.read(name)

    def read(self, name: str) -> Any:
        """The value of a setting in force for this thread."""
        short, config = _canonical(name), current()
        if short in _names:
            return getattr(config, short)
        return dict(config.others).get(short, _jax_defaults()[short])

    @property
    def values(self) -> dict[str, Any]:
        """All settings by JAX's names."""
        names = [*_jax_defaults(), *_JAX_SAME, *sorted(_names - {"others"})]
        return {f"jax_{name}": self.read(name) for name in names}

    @property
    def x64_enabled(self) -> bool:
        """Do functions create arrays of 64 bits?"""
        return current().enable_x64 is True

    def parse_flags_with_absl(self) -> None:
        """Settings are read from the environment alone; accepted for JAX's sake."""

    config_with_absl = parse_flags_with_absl


config = ConfigHandle()


class set_threads:  # read as a function: `ft.set_threads(2)`
    """Sets how many threads the CPU device uses, for good or for a block.

        ft.set_threads(2)           # from now on, in all threads of Python
        with ft.set_threads(1):     # in the block, in this thread of Python
            step(params, batch)

    No result depends on it. Where the process may use fewer cores than it asks for, it
    is their number. Until a block begins the number is that of all threads of Python,
    for a moment; where that matters write `with ft.config(threads=1)`.

    Args:
      count: 1 or more; None takes all cores that the process may use.

    Raises:
      ArgumentError: it is no whole number.
      ValueRangeError: it is below 1, or more than the machine has.

    Example:
      >>> with ft.set_threads(1):
      ...     y = ft.jit(fnp.sum)(fnp.ones(1000))
    """

    def __init__(self, count: int | None) -> None:
        self._count = _threads(count, "set_threads: count")
        self._before = _default, _local.get()
        self._block: Any = None
        config.update("threads", self._count)

    def __enter__(self) -> None:
        global _default
        # The block's own, not the process's: that is as it was.
        default, local = self._before
        _default = _change(_default, {"threads": default.threads})
        _local.set(local)
        self._block = config(threads=self._count)
        self._block.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)


# JAX's settings, by its names without `jax_`.


@cache
def _jax_defaults() -> dict[str, Any]:
    """Their defaults, of those that decide nothing here: as recorded from JAX."""
    path = os.path.join(os.path.dirname(__file__), "jax_settings.json")
    with open(path, encoding="utf-8") as file:
        found = import_module("json").load(file)
    return {name: found[name] for name in found if name not in {*_names, *_JAX_SAME}}


#: JAX's rules for copies between memories, and what they may be.
_JAX_GUARDS = (
    "transfer_guard", "transfer_guard_device_to_device",
    "transfer_guard_device_to_host", "transfer_guard_host_to_device",
)  # fmt: skip
_JAX_GUARD = (None, "allow", "log", "disallow", "log_explicit", "disallow_explicit")
#: How products may be computed: how exactly, or by which algorithm.
_JAX_PRECISIONS = (
    None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
)  # fmt: skip
PRODUCT_ALGORITHMS = (
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY",
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16",
    "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9",
    "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip
#: The values that some of them take.
_JAX_CHOICES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(_JAX_GUARDS, _JAX_GUARD),
    "legacy_prng_key": ("allow", "warn", "error"),
    "array_garbage_collection_guard": (None, "allow", "log", "fatal"),
    "default_matmul_precision": (*_JAX_PRECISIONS, *PRODUCT_ALGORITHMS),
}

#: Those that are read, in `random` and by `lax.reduce_sum`.
_JAX_READ = (
    "allow_f16_reductions", "enable_custom_prng", "legacy_prng_key",
    "random_seed_offset",
)  # fmt: skip

#: Values that ask for nothing else than what is done anyway: there is one processor,
#: products are computed with all bits, and nothing is copied where the memory is one.
_JAX_MET: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("platforms", "platform_name"), ("cpu", "", None)),
    **dict.fromkeys(_JAX_GUARDS, _JAX_GUARD),
    "default_matmul_precision": _JAX_PRECISIONS,
}  # fmt: skip

#: JAX's names of settings that are here, without `jax_`.
_JAX_SAME: dict[str, str] = {
    "compilation_cache_dir": "cache_dir",
    "compilation_cache_max_size": "cache_size",
    "default_device": "device",
    "enable_checks": "check_specs",
    "explain_cache_misses": "explain_misses",
    "num_cpu_devices": "cpu_devices",
    "traceback_filtering": "traceback",
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
    "threefry_partitionable", *_JAX_GUARDS,
)  # fmt: skip
