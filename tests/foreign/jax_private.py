"""What JAX's tests take from its private modules, over ftrace.

    executed from the checkout   its test_util, and what is plain Python beside it
    served                       by the public modules of the same subject
    anything else                a `Private` name: to use it leaves the test out

It finds `jax._src…` before `ftrace.compat` does; only tests want it.
"""

from __future__ import annotations

import re
import sys
import unittest
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

import ftrace as ft
from ftrace.compat.alias import home_of
from ftrace.compat.private import MODULES

#: Private modules that run as they are.
EXECUTED = (
    "deprecations", "internal_test_util", "internal_test_util.lax_test_util",
    "lax_reference", "public_test_util", "test_loader", "test_util",
    "test_warning_util", "util",
)  # fmt: skip

#: Public modules of tests, which run as they are.
OF_TESTS = ("jax.experimental.sparse.test_util",)

#: Modules beside public ones whose names are private, all that tests take of them.
UNDOCUMENTED = ("jax.experimental.sparse.util",)

#: Private module -> the modules that have its public names, first come first.
PUBLIC = {
    "ad_checkpoint": "jax.ad_checkpoint jax",
    "api": "jax",
    "api_util": "jax.api_util",
    "array": "jax",
    "checkify": "jax.experimental.checkify",
    "core": "jax.extend.core jax jax.core jax.errors jax.ref",
    "custom_batching": "jax.custom_batching",
    "custom_derivatives": "jax.custom_derivatives",
    "debugging": "jax.debug",
    "dispatch": "jax",
    "dtypes": "jax.dtypes jax.numpy",
    "errors": "jax.errors",
    "image": "jax.image",
    "interpreters.ad": "jax.interpreters.ad",
    "interpreters.batching": "jax.interpreters.batching",
    "interpreters.mlir": "jax.interpreters.mlir",
    "interpreters.partial_eval": "jax.interpreters.partial_eval",
    "lax": "jax.lax",
    "lax.control_flow": "jax.lax",
    "lax.lax": "jax.lax",
    "lax.linalg": "jax.lax.linalg jax.lax",
    "lax.slicing": "jax.lax",
    "lax.windowed_reductions": "jax.lax",
    "linear_util": "jax.extend.linear_util",
    "mesh": "jax.sharding",
    "monitoring": "jax.monitoring",
    "nn": "jax.nn",
    "numpy": "jax.numpy",
    "random": "jax.random",
    "scipy": "jax.scipy",
    "shard_map": "jax",
    "sharding": "jax.sharding",
    "sharding_impls": "jax.sharding jax",
    "tree": "jax.tree",
    "tree_util": "jax.tree_util",
    "typing": "jax.typing",
}

#: Modules that tests name names of while they are imported.
LENIENT = """
    jax jax.dtypes jax.lax jax.nn jax.nn.initializers jax.numpy jax.numpy.linalg
    jax.random jax.scipy jax.scipy.linalg jax.scipy.special jax.scipy.signal
    jax.scipy.stats jax.tree jax.tree_util jax.errors jax.debug jax.core jax.ref
    jax.extend.core jax.sharding jax.experimental jax.experimental.sparse
    jax.experimental.sparse.bcoo
    jax.experimental.jet jax.interpreters.ad jax.interpreters.batching
"""

#: Are tests running, rather than being collected?
running = False


class Private:
    """A private name that nobody serves. Whoever uses it in a test leaves it out."""

    def __init__(self, name: str) -> None:
        self.__dict__["_private"] = name

    def _leave(self, made: Any) -> Any:
        if running:
            raise unittest.SkipTest(f"private: {self._private}")
        return made

    def __getattr__(self, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return self._private
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "cache_clear":
            return _no
        return type(self)(f"{self._private}.{name}")

    def __call__(self, *args: Any, **_: Any) -> Any:
        # While a test module is imported it may be a decorator.
        plain = len(args) == 1 and callable(args[0])
        return self._leave(args[0] if plain else self)

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, instance: object) -> bool:
        return self._leave(False)

    def __iter__(self) -> Iterator[Any]:
        return self._leave(iter((self,)))  # while a test module is imported

    def __enter__(self) -> Any:
        return self._leave(self)

    def __exit__(self, *_: object) -> None: ...

    def __bool__(self) -> bool:
        return self._leave(False)

    def __getitem__(self, key: Any) -> Any:
        return self._leave(self)

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __add__ = __radd__ = __or__


class Missing(Private):
    """A public name of JAX's that is missing: whoever uses it in a test fails."""

    def _leave(self, made: Any) -> Any:
        if running:
            raise AttributeError(f"missing: {self._private}")
        return made


#: The folder of the repository of JAX; None for the tests of a library.
checkout: Path | None = None


@cache
def is_public(module: str, name: str) -> bool:
    """Does the source of a public module of JAX speak of the name?"""
    assert checkout is not None
    path = checkout.joinpath(*module.split("."))
    files = path.with_suffix(".py"), path / "__init__.py"
    text = "".join(file.read_text() for file in files if file.exists())
    return re.search(rf"\b{name}\b", text) is not None


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any, target: object = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition("jax._src")
        if fullname in OF_TESTS and checkout is not None:
            file = checkout.joinpath(*fullname.split(".")).with_suffix(".py")
            loader = SourceFileLoader(fullname, str(file))
            return ModuleSpec(fullname, loader, origin=loader.path)
        if package or name[:1] not in ("", ".") or checkout is None:
            named = fullname.startswith("jax.") and fullname not in MODULES
            if named and home_of(fullname) is None:
                return ModuleSpec(fullname, _Gone(), is_package=True)
            return None
        name = name[1:]
        if name not in EXECUTED:
            return ModuleSpec(fullname, _Served(name), is_package=True)
        file = checkout.joinpath("jax", "_src", *name.split("."))
        if file.is_dir():
            return ModuleSpec(fullname, _Served(name), is_package=True)
        loader = SourceFileLoader(fullname, str(file.with_suffix(".py")))
        return ModuleSpec(fullname, loader, origin=loader.path)


class _Gone(Loader):
    """A public module that is missing: it can be imported, its names not used."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__getattr__"] = _missing(module.__name__)


def _missing(module: str, before: Any = None) -> Callable[[str], Any]:
    """The `__getattr__` of a public module: what is missing is told when it is used.

    A test module that names it while it is imported can so run its other tests.
    """

    def get(name: str) -> Any:
        public = name[0] != "_"
        if (inner := f"{module}.{name}") in OF_TESTS or (public and home_of(inner)):
            return import_module(inner)
        if inner in UNDOCUMENTED:
            return Private(inner)
        try:
            if before is not None:
                return before(name)
        except AttributeError:
            if name.startswith("__") or (running and name[0] != "_"):
                raise
        if name.startswith("__") or (running and name[0] != "_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return (Private if name[0] == "_" else Missing)(f"{module}.{name}")

    return get


class _Served(Loader):
    """Fills a module with names of ftrace's; what is missing is `Private`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(SERVED.get(self.name, dict)())
        homes = PUBLIC.get(self.name, "").split()

        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if (inner := f"{self.name}.{name}".lstrip(".")) in KNOWN:
                return import_module(f"jax._src.{inner}")
            for home in homes:
                try:
                    public = getattr(import_module(home), name)
                    if type(public) is Missing:
                        raise AttributeError(name)
                    if not isinstance(public, ModuleType):
                        return public
                except (AttributeError, ImportError):
                    if is_public(home, name):
                        return Missing(f"{home}.{name}")
            return Private(f"{module.__name__}.{name}")

        module.__dict__["__getattr__"] = missing


class Config:
    """JAX's configuration: ftrace's where it has the setting, else kept here.

    Attributes:
      kept: what tests set that means nothing to ftrace.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    @property
    def values(self) -> dict[str, Any]:
        return {**self.kept, "jax_enable_x64": ft.config.jax_enable_x64}

    def read(self, name: str) -> Any:
        if name in self.kept:
            return self.kept[name]
        try:
            return getattr(ft.config, name)
        except (AttributeError, ft.errors.FtraceError):
            return None

    def update(self, name: str, value: Any) -> None:
        # Tests of JAX's ask before they are run, when devices may have been used.
        name = "cpu_devices" if name == "jax_num_cpu_devices" else name
        try:
            ft.config.update(name, value)
        except (AttributeError, ft.errors.FtraceError):
            self.kept[name] = value

    @contextmanager
    def within(self, name: str, value: Any) -> Generator[None, None, None]:
        if name in ("jax_enable_x64", "jax_disable_jit"):
            value = bool(value)
        context: Any = None
        try:
            context = ft.config(**{name: value})
            context.__enter__()
        except (AttributeError, TypeError, ft.errors.FtraceError):
            context, before = None, dict(self.kept)
            self.kept[name] = value
        try:
            yield
        finally:
            if context is not None:
                context.__exit__(None, None, None)
            else:
                self.kept = before

    def parse_flags_with_absl(self) -> None: ...

    config_with_absl = parse_flags_with_absl

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.read(name)


config = Config()


class State:
    """`config.enable_x64.value`, and `config.enable_x64(True)` for a block."""

    def __init__(self, name: str) -> None:
        self.name = name if name.startswith("jax_") else f"jax_{name}"

    @property
    def value(self) -> Any:
        return config.read(self.name)

    def __call__(self, value: Any = True) -> Any:
        return config.within(self.name, value)


class _States(dict[str, State]):
    def __missing__(self, name: str) -> State:
        return self.setdefault(name, State(name))


class ExplicitX64Mode(IntEnum):
    WARN = 1
    ERROR = 2
    ALLOW = 3


def _flag(name: str, default: Any, help: str = "", **_: Any) -> Any:
    return SimpleNamespace(name=name, value=default)


def _config() -> dict[str, Any]:
    states = _States()
    names = dict.fromkeys(("bool_flag", "int_flag", "string_flag", "float_flag"), _flag)

    known = """
        enable_x64 numpy_dtype_promotion numpy_rank_promotion disable_jit debug_nans
        debug_infs enable_checks check_tracer_leaks explain_cache_misses
        explicit_x64_dtypes use_simplified_jaxpr_constants threefry_partitionable
        use_direct_linearize enable_custom_prng default_matmul_precision
        legacy_prng_key default_prng_impl softmax_custom_jvp log_compiles
        eager_constant_folding custom_vjp_disable_shape_check no_tracing no_execution
        default_device traceback_filtering debug_key_reuse mutable_array_checks
        vjp3 remove_size_one_mesh_axis_from_type random_seed_offset
        threefry_gpu_kernel_lowering
    """
    return {
        **names,
        **{name: states[name] for name in known.split()},
        "config": config, "FLAGS": config, "config_states": states,
        "update": config.update, "_read": config.read,
        "parse_flags_with_absl": config.parse_flags_with_absl,
        "bool_env": lambda name, default: default,
        "int_env": lambda name, default: default,
        "ExplicitX64Mode": ExplicitX64Mode,
        "trace_context": lambda: None,
    }  # fmt: skip


def _dtypes() -> dict[str, Any]:
    known = re.compile(r"b?float|u?int\d")
    small = [name for name in dir(ml_dtypes) if known.match(name)]

    def default(kind: str) -> Callable[[], Any]:
        return lambda: ft.dtypes.default_dtype(kind)

    of_kind = {kind: default(kind) for kind in "iufc"} | {"b": lambda: np.dtype(bool)}
    return {
        **{name: getattr(ml_dtypes, name) for name in small},
        "float0": ft.float0,
        "dtype": ft.numpy.result_type,
        "default_types": of_kind,
        "default_float_dtype": of_kind["f"],
        "default_int_dtype": of_kind["i"],
        "default_uint_dtype": of_kind["u"],
        "default_complex_dtype": of_kind["c"],
        "to_numeric_dtype": lambda x: of_kind["i"]() if np.dtype(x) == bool else x,
        "to_inexact_dtype": lambda x: ft.dtypes.to_inexact(np.dtype(x)),
        "to_complex_dtype": lambda x: ft.dtypes.complex_dtype(np.dtype(x)),
        "python_scalar_types_to_dtypes": {
            bool: np.dtype("bool"), int: np.dtype("int64"),
            float: np.dtype("float64"), complex: np.dtype("complex128"),
        },
        "_intn_dtypes": [getattr(ml_dtypes, name) for name in small if "int" in name],
        "_float8_dtypes": [getattr(ml_dtypes, n) for n in small if "float8" in n],
        "_jax_types": list(ft.dtypes.ALL),
        "_weak_types": [int, float, complex],
        "is_weakly_typed": lambda x: bool(getattr(x, "weak_type", isinstance(
            x, (int, float, complex)) and not isinstance(x, bool))),
    }  # fmt: skip


def _clean() -> bool:
    return import_module("jax.core").trace_state_clean()


def _no() -> bool:
    return False


def _backend() -> dict[str, Any]:
    backend = SimpleNamespace(platform="cpu", platform_version="ftrace")

    def get_backend(name: Any = None) -> Any:
        return backend

    get_backend.cache_clear = lambda: None
    return {
        "get_backend": get_backend,
        "devices": lambda *_: ft.devices(),
        "local_devices": lambda *_, **__: ft.devices(),
        "num_cpu_devices": SimpleNamespace(value=1),
    }


def _callable_cache() -> Any:
    return SimpleNamespace(
        cache_info=lambda: SimpleNamespace(misses=0), cache_clear=lambda: None
    )


def _safe_zip(*args: Any) -> list[Any]:
    return list(zip(*map(list, args), strict=True))


def _safe_map(function: Any, *args: Any) -> list[Any]:
    return [function(*each) for each in _safe_zip(*args)]


class _Mutex:
    """Tests run in one thread."""

    def __getattr__(self, name: str) -> Any:
        return lambda: None


def _foreach(function: Any, *args: Any) -> None:
    _safe_map(function, *args)


def _lib_utils() -> Any:
    return SimpleNamespace(
        safe_zip=_safe_zip, safe_map=_safe_map, foreach=_foreach, Mutex=_Mutex,
        topological_sort=Private("topological_sort"),
        install_failure_signal_handler=lambda: None,
    )  # fmt: skip


def _promoted(*args: Any) -> list[Any]:
    dtype = ft.numpy.result_type(*args)
    return [ft.numpy.asarray(x, dtype) for x in args]


def _promoted_inexact(*args: Any) -> list[Any]:
    dtype = ft.dtypes.to_inexact(ft.numpy.result_type(*args))
    return [ft.numpy.asarray(x, dtype) for x in args]


def _remaining(original: Any, *removed: Any) -> list[Any]:
    return [x for x in original if not any(x in each for each in removed)]


def _numpy_util() -> dict[str, Any]:
    return {
        "promote_dtypes": _promoted, "promote_dtypes_inexact": _promoted_inexact,
    }  # fmt: skip


class _KeyArrays(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return ft.dtypes.is_key(getattr(instance, "dtype", None))


class _PRNGKeyArray(metaclass=_KeyArrays):
    """The class of arrays of keys: theirs is that of all arrays."""


def _unwrapped(keys: Any) -> Any:
    if not isinstance(keys, _PRNGKeyArray):
        raise TypeError(f"random_unwrap takes key array operand, got {keys}")
    return ft.random.key_data(keys)


def _prng() -> dict[str, Any]:
    random = ft.random
    known = {
        name: SimpleNamespace(name=name, key_shape=(dtype.itemsize // 4,))
        for name, dtype in ft.dtypes.KEYS.items()
    }

    def of_known(make: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, *, impl: Any) -> Any:
            if impl not in known.values():
                raise unittest.SkipTest("private: generators of the user's own")
            return make(x, impl=impl.name)

        return call

    return {
        "prngs": known, "PRNGKeyArray": _PRNGKeyArray,
        "PRNGImpl": lambda **parts: SimpleNamespace(**parts),
        "random_seed": of_known(random.key),
        "random_wrap": of_known(random.wrap_key_data), "random_unwrap": _unwrapped,
        "random_bits": lambda key, bit_width, shape: random.bits(
            key, shape, f"uint{bit_width}"
        ),
    }  # fmt: skip


#: Private module -> names that are made for tests.
SERVED: dict[str, Callable[[], dict[str, Any]]] = {
    "api": lambda: {"jit": _renamed(ft.jit)},
    "array": lambda: {"ArrayImpl": ft.Array},
    "cloud_tpu_init": lambda: {
        "running_in_cloud_tpu_vm": False, "is_libtpu_at_least": lambda *_: False,
    },
    "compilation_cache": lambda: {"_cache": None},
    "config": _config,
    "core": lambda: {"reset_trace_state": _clean},
    "debugging": lambda: {
        "debug_print": ft.debug.print, "debug_callback": ft.debug.callback,
    },
    "dispatch": lambda: {
        "xla_primitive_callable": _callable_cache(),
        "runtime_tokens": SimpleNamespace(clear=_no),
    },
    "dtypes": _dtypes,
    "interpreters.mlir": lambda: {"_platforms_with_donation": ["cpu"]},
    "lib": lambda: {
        "_jax": SimpleNamespace(
            is_optimized_build=lambda: True, is_asan=_no, is_msan=_no, is_tsan=_no,
            is_sanitized=_no,
        ),
        "utils": _lib_utils(), "version": (0, 10, 2), "jaxlib_extension_version": 0,
    },
    "lax.lax": lambda: {"remaining": _remaining},
    "lax.utils": dict,
    "lib.cuda_versions": dict,
    "monitoring": lambda: {
        "register_event_duration_secs_listener": lambda _: None,
        "unregister_event_duration_listener": lambda _: None,
    },
    "numpy.util": _numpy_util,
    "random.prng": _prng,
    "named_sharding": lambda: {"DuplicateSpecError": ft.errors.ValueRangeError},
    "sharding": lambda: {"IndivisibleError": ft.errors.ShapeError},
    "random.threefry2x32": lambda: {"threefry_2x32": Private("threefry_2x32")},
    "xla_bridge": _backend,
}  # fmt: skip

KNOWN = {*EXECUTED, *PUBLIC, *SERVED, "interpreters", "lib"}


def _renamed(jit: Any) -> Any:
    """`api.jit`, which test_util writes a name into."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return jit(*args, **kwargs)

    return call


def _left_out(what: str) -> Any:
    @contextmanager
    def count(*_: Any, **__: Any) -> Generator[Any, None, None]:
        raise unittest.SkipTest(f"backend: {what}")
        yield

    return count


def tell_when_used() -> None:
    """What is missing is told when it is used, not when it is imported."""
    sys.meta_path.insert(0, _Finder())
    for name in LENIENT.split():
        module = import_module(name)
        vars(module)["__getattr__"] = _missing(name, vars(module).get("__getattr__"))


def _of_public(name: str) -> Any:
    """A property, private in JAX, which has a public name as well."""

    def get(self: Any) -> Any:
        found = getattr(self, name)
        return found() if callable(found) else found

    return property(get)


def install(folder: Path) -> None:
    """Finds private modules from now on; test_util comes from the checkout."""
    global checkout
    checkout = folder
    tell_when_used()
    if not hasattr(type(ft.config), "parse_flags_with_absl"):
        vars(import_module("jax"))["config"] = config
    for private, public in (("_committed", "committed"), ("_value", "__array__")):
        setattr(ft.Array, private, _of_public(public))
    test_util = import_module("jax._src.test_util")
    for name in dir(test_util):
        if name.startswith("count_") and name != "count_events":
            vars(test_util)[name] = _left_out("what XLA compiles and caches is counted")
