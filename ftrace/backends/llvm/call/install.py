"""The native code of calls in this process: compiled, and put in place.

It stays for as long as the process: objects die through it until the very end. What
Python's allocator and counters count, and what native code does, is added up when it
is read.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from ftrace.backends.llvm.call.object_layout import (
    DEALLOC,
    Offsets,
    offset_of,
    offsets,
    word,
)
from ftrace.backends.llvm.call.records import CLASSES, LOOPS, BufferObject, State
from ftrace.backends.llvm.compile import emit_own, link
from ftrace.backends.llvm.runtime.runtime import WarmAllocator, runtime
from ftrace.backends.out_of_memory import no_working_memory
from ftrace.errors import DeviceError, NativeCallsWarning, warn_user
from ftrace.ground import settings
from ftrace.ground.errstate import silence
from ftrace.ground.fork_safe import cached_property, free_after_fork
from ftrace.trace.arrays.array import HOST, Array, ArrayLike
from ftrace.trace.arrays.buffer import Buffer
from ftrace.trace.eager.function_objects import Eager, RecordedCallable
from ftrace.trace.tracing.tracer import open_in_all_threads

#: How a function takes its arguments: METH_FASTCALL, METH_KEYWORDS.
FASTCALL, KEYWORDS = 0x80, 0x02


_EXPORTED = (
    "set_state", "call", "give_out", "admit", "trim", "buffer_dies", "array_dies",
    "call_eager",
)  # fmt: skip

_NOT_NATIVE = (
    "__contains__", "__delitem__", "__getitem__", "__iter__", "__len__", "__round__",
    "__setitem__",
)  # fmt: skip


#: Properties of arrays that are arrays.
_PROPERTIES = ("T", "mT", "real", "imag")


def method_names() -> list[str]:
    """The methods of arrays whose calls may be native."""
    return [
        name
        for name, value in vars(ArrayLike).items()
        if type(value) is FunctionType and name not in _NOT_NATIVE
    ]


_OBJECT, _SIZE = 16, 19  # kinds of members: T_OBJECT_EX, T_PYSSIZET
#: In CPython's `typeslots.h`.
_DEALLOC_SLOT, _MEMBERS_SLOT = 52, 72


def _code(places: Offsets) -> bytes:
    versions: list[Any] = [sys.version, vars(np)["__version__"]]
    count = len(method_names())

    def text() -> str:
        from ftrace.backends.llvm.call.entry import native_ir

        return native_ir(places, count)

    return emit_own("calls", (places, count, versions), text)


def _plain_call() -> int:
    """The address of what calls a function of Python's; versions name it differently.

    Raises:
      AttributeError: there is none.
    """
    api: Any = ctypes.pythonapi
    name = "PyObject_Vectorcall"
    found = getattr(api, name if hasattr(api, name) else "_PyFunction_Vectorcall")
    return ctypes.cast(found, ctypes.c_void_p).value or 0


def _make_array() -> int:
    """The address of `PyArray_NewFromDescr`, whose place NumPy's interface for C fixes.

    Raises:
      AttributeError: there is no such interface.
    """
    core: Any = getattr(np, "_core", None)
    table = core._multiarray_umath._ARRAY_API
    find: Any = ctypes.pythonapi.PyCapsule_GetPointer
    find.restype, find.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return word(find(table, None) + 8 * 94)


def raise_no_memory() -> NoReturn:
    raise no_working_memory()


class Native:
    """The native code, and what it works on.

    Args:
      places: of the slots of Arrays and buffers.
      device: the device whose calls these are.

    Attributes:
      words: the state.
      device: as given.
      buffer: the class of its buffers.
      take: `take(number of the size class, bytes)`: a free buffer, or None.
    """

    def __init__(self, places: Offsets, device: Any) -> None:
        self._imports = {
            "run_pointers": runtime().run_pointers,
            "plain_call": _plain_call(),
        }
        stubs = [f"method_{number}" for number in range(len(method_names()))]
        names = [*_EXPORTED, *stubs, *LOOPS.values()]
        self._code = link(_code(places), names, self._imports)
        self.device = device
        self.words = np.zeros(len(State.fields), np.int64)
        self._free = np.zeros(CLASSES, np.int64)
        self.sizes: list[int] = []
        self._numbers: dict[int, int] = {}
        self._references: list[Any] = []  # what native code refers to
        self.buffer = self._buffer_class()
        self.take: Callable[[int, int], Any] = self._function("give_out", FASTCALL)
        none, one = ctypes.PYFUNCTYPE(None), ctypes.PYFUNCTYPE(None, ctypes.py_object)
        self._admit = one(self._code.address("admit"))
        self.trim: Callable[[], None] = none(self._code.address("trim"))
        self._set_state()
        self._take_over_arrays()
        self._stand_before_functions()
        for kept in (self, self._code):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    def _words(self, *words: int) -> int:
        """The address of words that stay: structures of C's, without gaps but zeros."""
        kept = np.array(words, np.int64)
        self._references.append(kept)
        return int(kept.ctypes.data)

    def _text(self, text: str) -> int:
        return self._words(*np.frombuffer(text.encode().ljust(96, b"\0"), np.int64))

    def _buffer_class(self) -> Any:
        fields = list(enumerate(BufferObject.fields))[2:-1]
        members: list[int] = []  # name, kind, offset, flags, docstring
        for i, name in fields:
            members += self._text(name), _OBJECT if i <= 4 else _SIZE, i * 8, 0, 0
        slots = self._words(
            _DEALLOC_SLOT, self._code.address("buffer_dies"),
            _MEMBERS_SLOT, self._words(*members, *[0] * 5), 0, 0,
        )  # fmt: skip
        name = self._text("ftrace.trace.arrays.buffer.NativeBuffer")
        size = len(BufferObject.fields) * 8
        make: Any = ctypes.pythonapi.PyType_FromSpec
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p,)
        return make(self._words(name, size, 1 << 18, slots))

    def _method(self, name: str, function: str, flags: int) -> int:
        """The address of a `PyMethodDef`."""
        address = self._code.address(function)
        return self._words(self._text(name), address, flags, 0)

    def _function(self, name: str, flags: int) -> Any:
        make: Any = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        return make(self._method(name, name, flags), None, None)

    def refer(self, thing: Any) -> int:
        """The address of an object that stays."""
        self._references.append(thing)
        return id(thing)

    @cached_property
    def loops(self) -> dict[int | str, int]:
        """The addresses of the loops that NumPy lacks, by what is said in `LOOPS`."""
        return {key: self._code.address(name) for key, name in LOOPS.items()}

    @cached_property
    def eager_records(self) -> Any:
        """The records of eager calls; what makes them is loaded now."""
        from ftrace.backends.llvm.call.record_eager import EagerRecords

        recording = State.fields.index("recording")
        return EagerRecords(self, self.words[recording : recording + 1])

    def put(self, field: str, value: int) -> None:
        """Sets a word of the state."""
        self.words[State.fields.index(field)] = value

    def _set_state(self) -> None:
        variable, module = settings.sources()
        tuple_new: Any = vars(tuple)["__new__"]
        objects: dict[str, Any] = {
            "array": Array, "buffer": self.buffer, "host_buffer": Buffer,
            "ndarray": np.ndarray, "host": HOST, "device": self.device,
            "variable": variable, "settings": module, "default": "_default",
            "more": self.more, "no_memory": raise_no_memory, "plain": "plain_call",
            "none": None, "dict": dict, "text": str, "float": float, "int": int,
            "tuple_new": tuple_new, "exception": Exception,
            "traces": open_in_all_threads, "host_of": Array.numpy,
        }  # fmt: skip
        for field, value in objects.items():
            self.put(field, self.refer(value))
        self.put("limit", self.device.memory.limit)
        self.put("free", self._free.ctypes.data)
        set_state = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
        set_state(self._code.address("set_state"))(self.words.ctypes.data)

    def _take_over_arrays(self) -> None:
        """From now on Arrays die in native code."""
        place = ctypes.c_void_p.from_address(id(Array) + DEALLOC)
        place.value = self._code.address("array_dies")

    def _stand_before_functions(self) -> None:
        """From now on calls go through native code.

        Other threads may call before this ends: the state is whole when they can.
        """
        self.put("links", offset_of(RecordedCallable(), "_links"))
        kinds = set(RecordedCallable.__subclasses__())
        methods: dict[str, Any] = {}
        if silence is None:
            kinds.discard(Eager)
        else:
            for field, value in zip(("hush_variable", "silence"), silence, strict=True):
                self.put(field, self.refer(value))
            self.put("make_array", _make_array())
            self.put("behind", offset_of(object.__new__(Eager), "behind"))
            methods = self._methods_of_arrays()

            def plain_call(function: Eager, *args: Any, **kwargs: Any) -> Any:
                return self.eager_records.call(function, args, kwargs)

            public: Any = Eager
            public.plain_call = plain_call
        for kind in kinds:
            given: Any = kind
            given.__call__ = self._method_of(kind, "__call__", kind.entry)
        for name, method in methods.items():
            setattr(Array, name, method)

    def _methods_of_arrays(self) -> dict[str, Any]:
        """What stands for methods that are public functions, which the state names.

        And for properties that are.
        """
        functions: list[Eager] = []
        methods: dict[str, Any] = {}
        for number, name in enumerate(method_names()):
            plain: Any = vars(ArrayLike)[name]
            numbers = (float, np.integer) if name.startswith("__") else ()
            functions.append(Eager(plain, numbers, plain.__module__))
            methods[name] = self._method_of(Array, name, f"method_{number}")
        for name in _PROPERTIES:
            plain = vars(ArrayLike)[name]
            function = Eager(plain.fget, (), plain.fget.__module__)
            methods[name] = property(function, doc=plain.__doc__)
        listed = (ctypes.py_object * len(functions))(*functions)
        self._references.append(listed)
        self.put("methods", ctypes.addressof(listed))
        return methods

    def _method_of(self, kind: Any, name: str, function: str) -> Any:
        make: Any = ctypes.pythonapi.PyDescr_NewMethod
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.py_object, ctypes.c_void_p)
        return make(kind, self._method(name, function, FASTCALL | KEYWORDS))

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
        made.memory, made.device = memory, self.device
        made.allocator = self.device.memory
        made.nbytes, made.data, made.size_class = nbytes, memory.ctypes.data, number
        made.raw, made.size = id(memory.base), size
        self._admit(made)
        return made


class NativeAllocator(WarmAllocator):
    """Gives out buffers that native code takes back.

    Memory of buffers from before goes back to the system.
    """

    native: Native

    @property
    def in_use(self) -> int:
        self._take_back()
        return self._in_use + int(self.native.words[_IN_USE])

    @property
    def cached(self) -> int:
        return int(self.native.words[_CACHED])

    @property
    def peak(self) -> int:
        before = self._in_use
        highest = int(self.native.words[_PEAK])
        return max(self.__dict__["peak"], before + highest)

    @peak.setter
    def peak(self, value: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        own = vars(self)
        own["peak"] = value
        self.native.words[_PEAK] = value - self._in_use

    def allocate(self, nbytes: int) -> Buffer:
        return self.allocate_all([(nbytes, self.size_class(nbytes))])[0]

    def allocate_all(self, wanted: Sequence[tuple[int, int]]) -> list[Buffer]:
        native = self.native
        take, number_of = native.take, native.number_of
        buffers: list[Buffer] = []
        for nbytes, size in wanted:
            number = number_of(size)
            buffers.append(take(number, nbytes) or native.more(number, nbytes))
        return buffers

    def _reusable(self, memory: Any) -> bool:
        return False

    def trim(self) -> None:
        super().trim()
        self.native.trim()


_IN_USE, _CACHED, _PEAK = map(State.fields.index, ("in_use", "cached", "peak"))


def count_natively(native: Native) -> None:
    """Lets the device of native calls have such an allocator, and counts with it."""
    device = native.device
    allocator: Any = device.memory
    with allocator.lock:
        allocator.trim()  # its lists are not used any more
        allocator.__dict__.setdefault("peak", 0)
        allocator.native = native
        allocator.__class__ = NativeAllocator
    counters, first = device.counters, State.fields.index("kernels")
    runs = native.words.data[first : first + len(counters.runs)]
    runs[:] = counters.runs
    counters.runs = runs


def _try_native(places: Offsets, device: Any) -> Native | None:
    try:
        return Native(places, device)
    except (LookupError, AttributeError, DeviceError, RuntimeError) as error:
        # It lacks a function, or has its objects elsewhere, and should not.
        with suppress(NativeCallsWarning):  # where warnings are errors
            warn_user(
                f"calls cannot be native ({type(error).__name__}: {error}) and stay in "
                "Python, which is slower. This interpreter should have native calls: "
                "please report it; FTRACE_NATIVE_CALLS=0 silences this",
                NativeCallsWarning,
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
            _ready.append(None if places is None else _try_native(places, device))
        found = _ready[0]
    return found if found is not None and found.device is device else None
