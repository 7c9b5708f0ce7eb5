"""The native code of calls in this process: compiled, and put in place.

It stays for as long as the process: objects die through it until the very end.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from ftrace.arrays.array import HOST, Array, ArrayLike
from ftrace.arrays.buffer import Buffer
from ftrace.devices.llvm.call.cpython.buffer_objects import BufferObject
from ftrace.devices.llvm.call.cpython.method_table import (
    HELPERS,
    PLACES,
    SCALARS,
    method_names,
    method_of,
    operator_names,
    stubs,
)
from ftrace.devices.llvm.call.cpython.object_layout import (
    DEALLOC,
    IMMORTAL_SINCE,
    Offsets,
    offset_of,
    offsets,
)
from ftrace.devices.llvm.call.cpython.records import CLASSES, Class, State
from ftrace.devices.llvm.compile.compile import emit_own, link
from ftrace.devices.llvm.runtime.runtime import runtime
from ftrace.devices.out_of_memory import no_working_memory
from ftrace.errors import DeviceError, NativeCallsWarning
from ftrace.ground import settings
from ftrace.ground.errstate import silence
from ftrace.ground.fork_safe import cached_property, free_after_fork
from ftrace.trace.eager.dispatch import Eager, constant_classes, integer_classes
from ftrace.trace.tracing.tracer import open_in_all_threads

#: How a function takes its arguments: METH_FASTCALL, METH_KEYWORDS.
FASTCALL, KEYWORDS = 0x80, 0x02


class Method(ctypes.Structure):
    """A `PyMethodDef`; it must outlive the functions that are made of it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_EXPORTED = (
    "set_state", "call", "give_out", "admit", "trim", "buffer_dies", "array_dies",
    "call_eager",
)  # fmt: skip

_OBJECT, _SIZE = 16, 19  # kinds of members: T_OBJECT_EX, T_PYSSIZET
_DEALLOC_SLOT, _MEMBERS_SLOT = 52, 72


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("pointer", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


def _code(places: Offsets, immortal: bool) -> bytes:
    methods, operators = method_names(), operator_names()
    versions: list[Any] = [sys.version, vars(np)["__version__"]]
    facts = places, immortal, methods, operators, versions

    def text() -> str:
        from ftrace.devices.llvm.call.module_ir import native_ir

        return native_ir(places, immortal, methods, operators)

    return emit_own("calls", facts, text)


def _is_immortal() -> bool:
    """Have some objects a count that must stay as it is?"""
    return sys.version_info >= IMMORTAL_SINCE


def _plain_call() -> int:
    """The address of what calls a function of Python's; versions name it differently.

    Raises:
      AttributeError: there is none.
    """
    api: Any = ctypes.pythonapi
    name = "PyObject_Vectorcall"
    found = getattr(api, name if hasattr(api, name) else "_PyFunction_Vectorcall")
    return ctypes.cast(found, ctypes.c_void_p).value or 0


def raise_no_memory() -> NoReturn:
    raise no_working_memory()


class Native:
    """The native code, and what it works on.

    Args:
      places: of the slots of Arrays and buffers.
      device: the device whose calls these are.

    Attributes:
      words: the state and the size classes.
      device: as given.
      buffer: the class of its buffers.
      take: `take(number of the size class, bytes)`: a free buffer, or None.
    """

    def __init__(self, places: Offsets, device: Any) -> None:
        immortal = _is_immortal()
        self._imports = {
            "run_pointers": runtime().run_pointers,
            "plain_call": _plain_call(),
        }
        names = [*_EXPORTED, *stubs(len(method_names()))]
        self._code = link(_code(places, immortal), names, self._imports)
        self.device = device
        self.words = np.zeros(
            len(State._fields) + CLASSES * len(Class._fields), np.int64
        )
        self.sizes: list[int] = []
        self._numbers: dict[int, int] = {}
        self._served: set[type[Any]] = set()
        self._kept: list[Any] = []  # what native code refers to
        self.buffer = self._buffer_class()
        self.take: Callable[[int, int], Any] = self._function("give_out", FASTCALL)
        none, one = ctypes.PYFUNCTYPE(None), ctypes.PYFUNCTYPE(None, ctypes.py_object)
        self._admit = one(self._code.address("admit"))
        self.trim: Callable[[], None] = none(self._code.address("trim"))
        self._table = np.zeros(PLACES, np.int64)
        self._marks = np.zeros(PLACES, np.int64)
        self._set_state()
        self._take_over_arrays()
        self._stand_before_functions()
        for kept in (self, self._code):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    def _buffer_class(self) -> Any:
        size = len(BufferObject._fields) * 8
        members = [
            (name.encode(), _OBJECT if 2 <= i <= 4 else _SIZE, i * 8, 0, None)
            for i, name in enumerate(BufferObject._fields[:-1])
            if i >= 2
        ]
        listed = (_Member * (len(members) + 1))(*members)
        slots = (_Slot * 3)(
            (_DEALLOC_SLOT, self._code.address("buffer_dies")),
            (_MEMBERS_SLOT, ctypes.addressof(listed)),
        )
        spec = _Spec(b"ftrace.arrays.buffer.NativeBuffer", size, 0, 1 << 18, slots)
        self._kept += [listed, slots, spec]
        make: Any = ctypes.pythonapi.PyType_FromSpec
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p,)
        return make(ctypes.addressof(spec))

    def _method(self, name: str, flags: int) -> Method:
        method = Method(name.encode(), self._code.address(name), flags, None)
        self._kept.append(method)
        return method

    def _function(self, name: str, flags: int) -> Any:
        make: Any = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        return make(ctypes.addressof(self._method(name, flags)), None, None)

    def refer(self, thing: Any) -> int:
        """The address of an object that stays."""
        self._kept.append(thing)
        return id(thing)

    @cached_property
    def inline_cache(self) -> Any:
        """The `InlineCache` of eager calls; what fills it is loaded now."""
        from ftrace.devices.llvm.call.eager.learn_call import InlineCache
        from ftrace.devices.llvm.call.eager.ufunc_loops import new_ndarray

        self.put("new_ndarray", new_ndarray())
        recording = State._fields.index("recording")
        return InlineCache(
            self._table, self._marks, self.words[recording : recording + 1]
        )

    def _miss(
        self, function: Any, args: tuple[Any, ...], names: Any, key: bytes
    ) -> Any:
        """An eager call of which there have been some: see `InlineCache.miss`."""
        with _lock:
            cache = self.inline_cache
        return cache.miss(function, args, names, key)

    def put(self, field: str, value: int) -> None:
        """Sets a word of the state."""
        self.words[State._fields.index(field)] = value

    def _set_state(self) -> None:
        variable, module = settings.sources()
        tuple_new: Any = vars(tuple)["__new__"]
        objects: dict[str, Any] = {
            "array": Array, "buffer": self.buffer, "host_buffer": Buffer,
            "ndarray": np.ndarray, "host": HOST, "device": self.device,
            "variable": variable, "settings": module, "default": "_default",
            "more": self.more, "no_memory": raise_no_memory, "none": None,
            "dict": dict, "text": str, "float": float, "complex": complex,
            "int": int, "int64": np.int64, "float64": np.float64, "bool": bool,
            "true": True, "tuple_new": tuple_new,
            "none_type": type(None),
            "ellipsis_type": type(...), "type": type, "tuple": tuple, "list": list,
            "slice": slice, "exception": Exception, "dtypes": type(np.dtype),
            "constants": constant_classes, "scalars": SCALARS,
            "integers": integer_classes,
            "on_miss": self._miss, "traces": open_in_all_threads, **HELPERS,
        }  # fmt: skip
        for field, value in objects.items():
            self.put(field, self.refer(value))
        self.put("limit", self.device.memory.limit)
        self.put("entries", self._table.ctypes.data)
        self.put("marks", self._marks.ctypes.data)
        set_state = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
        set_state(self._code.address("set_state"))(self.words.ctypes.data)

    def _take_over_arrays(self) -> None:
        """From now on Arrays die in native code."""
        place = ctypes.c_void_p.from_address(id(Array) + DEALLOC)
        place.value = self._code.address("array_dies")

    def _stand_before_functions(self) -> None:
        """From now on eager operations go through native code."""
        if silence is None:
            return
        for field, value in zip(("hush_variable", "silence"), silence, strict=True):
            self.put(field, self.refer(value))
        names = method_names()
        functions = [method_of(name) for name in names]
        listed = (ctypes.py_object * len(functions))(*functions)
        self._kept.append(listed)
        self.put("methods", ctypes.addressof(listed))
        for name, stub in zip(names, stubs(len(names)), strict=True):
            method = self._method_of(Array, name, stub)
            known: Any = vars(ArrayLike)[name]
            if isinstance(known, property):
                setattr(Array, name, property(method, doc=known.__doc__))
            else:
                setattr(Array, name, method)
        for slot in ("behind", "numbers", "indexed"):
            self.put(slot, offset_of(object.__new__(Eager), slot))
        self._give_method(Eager, "__call__", "call_eager")

    def _give_method(self, kind: Any, name: str, function: str) -> None:
        """Gives a class a method of native code."""
        setattr(kind, name, self._method_of(kind, name, function))

    def _method_of(self, kind: Any, name: str, function: str) -> Any:
        make: Any = ctypes.pythonapi.PyDescr_NewMethod
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.py_object, ctypes.c_void_p)
        method = self._method(function, FASTCALL | KEYWORDS)
        method.name = name.encode()
        return make(kind, ctypes.addressof(method))

    # Buffers.

    def number_of(self, size: int) -> int:
        """The number of the size class of so many bytes."""
        found = self._numbers.get(size)
        if found is None:
            with self.device.memory.lock:  # one that no fork leaves locked
                found = self._numbers.setdefault(size, len(self.sizes))
                if found == len(self.sizes):
                    self.sizes.append(size)
            assert found < CLASSES, "sizes have few classes"
        return found

    def more(self, number: int, nbytes: int) -> Any:
        """A new buffer of a size class."""
        size = self.sizes[number]
        memory = self.device.memory.obtain(size)
        made = self.buffer()
        made.memory, made.device, made.allocator = (
            memory,
            self.device,
            self.device.memory,
        )
        made.nbytes, made.data, made.size_class = nbytes, memory.ctypes.data, number
        made.raw, made.size = id(memory.base), size
        self._admit(made)
        return made

    # Calls.

    def serve(self, kind: type[Any], links: str, plain: str) -> None:
        """See `calls.Bound`."""
        with self.device.memory.lock:
            if kind in self._served:
                return
            offset = offset_of(object.__new__(kind), links)
            others = [offset_of(object.__new__(k), links) for k in self._served]
            assert all(other == offset for other in others), "they have one layout"
            self.put("links", offset)
            self.put("plain", self.refer(sys.intern(plain)))
            self._served.add(kind)
            self._give_method(kind, "__call__", "call")


def _tried(places: Offsets, device: Any) -> Native | None:
    try:
        return Native(places, device)
    except (LookupError, AttributeError, DeviceError, RuntimeError) as error:
        # It lacks a function, or has its objects elsewhere, and should not.
        with suppress(NativeCallsWarning):  # where warnings are errors
            warnings.warn(
                f"calls cannot be native ({type(error).__name__}: {error}) and stay in "
                "Python, which is slower. This interpreter should have native calls: "
                "please report it; FTRACE_NATIVE_CALLS=0 silences this",
                NativeCallsWarning,
                stacklevel=3,
            )
        return None


_ready: list[Native | None] = []
_lock = free_after_fork(threading.RLock())


def native_for(device: Any) -> Native | None:
    """The native code of the process, if this interpreter is known.

    The device that asks first has it; others have none.
    """
    with _lock:
        if not _ready:
            places = offsets()
            _ready.append(None if places is None else _tried(places, device))
        found = _ready[0]
    return found if found is not None and found.device is device else None
