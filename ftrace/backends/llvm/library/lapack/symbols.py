"""BLAS and LAPACK as addresses: those that SciPy offers to other compiled modules.

OpenBLAS has threads of its own, which spin for a while when they have nothing to do.
On the cores on which our workers wait for the next kernel both are many times slower.
So small problems run on the calling thread, and batches on our threads:

    ftrace_blas_alone()      the library uses one thread
    ftrace_blas_together()   as many as before, when nobody else needs it alone
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

from ftrace.backends.llvm.compile import Code, emit_object, link
from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.ir.symbols import ROUTINE
from ftrace.errors import MissingExtraError

ALONE, TOGETHER = ROUTINE + "alone", ROUTINE + "together"

_MODULES = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")
#: How builds of OpenBLAS call the functions for their threads.
_NAMES = ("scipy_openblas_{}", "openblas_{}", "scipy_openblas_{}64_", "openblas_{}64_")


def routine_address(symbol: str) -> int:
    """Where a routine, or one of the two functions above, is.

    Raises:
      MissingExtraError: SciPy is not installed.
    """
    if symbol in (ALONE, TOGETHER):
        return _guard().address(symbol)
    name = symbol.removeprefix(ROUTINE)
    for module in _MODULES:
        try:
            capsules: dict[str, Any] = _module(module).__pyx_capi__
        except ImportError as error:
            raise MissingExtraError(
                f"{name} needs SciPy: install it with pip install 'ftrace[scipy]'"
            ) from error
        if name in capsules:
            return _pointer(capsules[name])
    raise MissingExtraError(f"this SciPy has no {name}: a newer one is needed")


@cache
def _module(name: str) -> Any:
    """One of `_MODULES`, without the packages that it is in.

    Importing those takes a hundred milliseconds more, and nothing of them is needed.
    The module leaves no trace: who imports it later gets this one, in its packages.
    """
    found = sys.modules.get(name) or _alone(name)
    return import_module(name) if found is None else found


def _alone(name: str) -> Any | None:
    package, _, inner = name.partition(".")
    folder = inner.split(".")[0]
    try:
        whole = find_spec(package)
        places = whole.submodule_search_locations if whole is not None else None
        spec = PathFinder.find_spec(name, [f"{p}/{folder}" for p in places or ()])
        if spec is None or spec.loader is None:
            return None
        found = module_from_spec(spec)
        spec.loader.exec_module(found)
    except Exception:  # whatever it does not like: it is imported as usual
        return None
    finally:
        sys.modules.pop(name, None)
    return found if hasattr(found, "__pyx_capi__") else None


def _pointer(capsule: Any) -> int:
    api: Any = ctypes.pythonapi
    name_of, pointer_of = api.PyCapsule_GetName, api.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return pointer_of(capsule, name_of(capsule))


def _thread_functions() -> tuple[int, int] | None:
    """Where SciPy's BLAS is told and tells how many threads it uses."""
    try:
        library = ctypes.CDLL(_module(_MODULES[1]).__file__)
    except OSError:
        return None
    for pattern in _NAMES:
        names = [pattern.format(f"{verb}_num_threads") for verb in ("get", "set")]
        try:
            get, put = (getattr(library, name) for name in names)
        except AttributeError:
            continue
        return tuple(  # pyright: ignore[reportReturnType]
            ctypes.cast(function, ctypes.c_void_p).value or 0 for function in (get, put)
        )
    return None


@cache
def _guard() -> Code:
    """The two functions, compiled; without effect for a BLAS that we do not know."""
    found = _thread_functions()
    names = "get_threads", "set_threads"
    imports: dict[str, int] = dict(zip(names, found or (), strict=False))
    text = _change(ALONE, 1, bool(found)) + _change(TOGETHER, -1, bool(found))
    return link(emit_object(_LOCK + text), (ALONE, TOGETHER), imports)


_LOCK = """
@lock = internal global i32 0, align 128
@users = internal global i64 0, align 8
@threads = internal global i32 0, align 4

declare i32 @get_threads()
declare void @set_threads(i32)
"""


def _change(name: str, by: int, known: bool) -> str:
    """Changes how many users there are.

    The one that leaves none, or comes where none is, sets the threads, if there are
    several.
    """
    f = Function(name, "void", visible=True)
    if not known:
        f.ret()
        return f.text
    with f.hold_lock("@lock"):
        before = f.load("i64", "@users")
        after = f.sum(before, by)
        f.store("i64", after, "@users")
        with f.when(f.let(f"icmp eq i64 {before if by > 0 else after}, 0")):
            if by > 0:
                f.store("i32", f.let("call i32 @get_threads()"), "@threads")
            threads = f.load("i32", "@threads")
            with f.when(f.let(f"icmp sgt i32 {threads}, 1")):
                wanted = 1 if by > 0 else threads
                f.do(f"call void @set_threads(i32 {wanted})")
    f.ret()
    return f.text
