"""LLVM IR text to machine code in this process, by way of the disk cache.

    text -> object code (from the cache, or by LLVM) -> addresses (elf_loader.py, or
    LLVM)

Vector code with phi loops needs no IR passes: only the code generator runs. llvmlite
is imported at the first compilation, which takes 20 ms: a process that finds all code
on disk does without.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ftrace.backends.llvm.compile_threads import shield
from ftrace.backends.llvm.elf_loader import load
from ftrace.backends.llvm.object_cache import ObjectCache, machine, sources
from ftrace.backends.llvm.target import Target, host_target
from ftrace.errors import DeviceError
from ftrace.ground import VERSION
from ftrace.ground.fork_safe import Once, cached_property, fresh_after_fork

#: 0 … 3; 1 gives code as fast as 3 for loops that are already in vectors.
CODEGEN_LEVEL = 1
#: Passes that take half of the code generator's time and bring such loops nothing:
#: LLVM's option, our value, its default. They belong to the whole process, so they
#: are set only while our code is compiled.
LEAN_OPTIONS = (
    ("disable-lsr", "true", "false"),
    ("disable-cgp", "true", "false"),
    ("enable-misched", "false", "true"),
)
#: Characters of text that go through a context of LLVM until it is thrown away: it
#: keeps each constant and type that it has seen, some bytes for each character.
CONTEXT_LENGTH = 1 << 18
object_cache = ObjectCache()


class Code:
    """Machine code in memory; it stays as long as this object.

    Attributes:
      nbytes: what it takes.
    """

    def __init__(self, tracker: Any, nbytes: int) -> None:
        self._tracker = tracker
        self._references: list[Any] = []
        self.nbytes = nbytes

    def address(self, name: str) -> int:
        """Where the function of that name begins."""
        return int(self._tracker[name])

    def keep(self, what: Any) -> None:
        """It stays as long as this does: the code knows where it is."""
        self._references.append(what)


class _Compiler:
    """LLVM's objects of this process.

    Attributes:
      numbers: name the modules that were loaded.
    """

    def __init__(self) -> None:
        llvm: Any = import_module("llvmlite.binding")
        # It is told of the end of a process, unless that has begun when it is imported.
        llvm.ffi.ObjectRef.__del__.__defaults__ = (sys.is_finalizing,)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.llvm: Any = llvm
        self.numbers = itertools.count()
        self._lock = fresh_after_fork(threading.Lock())
        self._lean_blocks = 0
        # A context and a machine serve one thread at a time; they are cached for reuse,
        # with how much they have compiled.
        self._benches: dict[Target, list[tuple[Any, Any, int]]] = {}

    @cached_property
    def jit(self) -> Any:
        """Loads object code."""
        return self.llvm.create_lljit_compiler(self._machine(host_target()))

    def _machine(self, target: Target) -> Any:
        return self.llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu, features=target.features, opt=CODEGEN_LEVEL, jit=True
        )

    @contextmanager
    def lean(self) -> Generator[None]:
        """A block in which the code generator leaves out what we do not need."""
        with self._lock:
            if self._lean_blocks == 0:
                for name, ours, _ in LEAN_OPTIONS:
                    self.llvm.set_option("", f"-{name}={ours}")
            self._lean_blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._lean_blocks -= 1
                if self._lean_blocks == 0:
                    for name, _, default in LEAN_OPTIONS:
                        self.llvm.set_option("", f"-{name}={default}")

    def assembly(self, text: str, target: Target) -> str:
        """The machine code of a module, as text."""
        machine, context = self._machine(target), self.llvm.create_context()
        with self.llvm.parse_assembly(text, context) as module:
            return machine.emit_assembly(module)

    def emit(self, text: str, target: Target) -> bytes:
        benches = self._benches.setdefault(target, [])
        try:
            bench = benches.pop()
        except IndexError:
            bench = self.llvm.create_context(), self._machine(target), 0
        context, machine, length = bench
        try:  # the module ends before its context, also where LLVM refuses it
            with self.llvm.parse_assembly(text, context) as module:
                module.verify()
                return _emit_unlocked(machine, module)
        finally:
            if (length := length + len(text)) < CONTEXT_LENGTH:
                benches.append((context, machine, length))
            else:
                context.close()
                _give_back()


#: The compiler of this process.
shared_compiler = Once(_Compiler)


def _give_back() -> None:
    """Returns what LLVM has freed: glibc keeps it, in an arena for each thread."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other libraries: none
        if trim is not None:
            trim(0)


def _emit_unlocked(machine: Any, module: Any) -> bytes:
    """Object code, without the lock that llvmlite holds around each of its calls.

    Nothing of what is touched here is shared between threads, so they may run at the
    same time. Where llvmlite has no such inside the public way does as well.
    """
    ffi: Any = import_module("llvmlite.binding.ffi")
    emit = getattr(ffi.lib.LLVMPY_TargetMachineEmitToMemory, "_cfn", None)
    if emit is None:
        return bytes(machine.emit_object(module))
    with ffi.OutputString() as error:
        memory = emit(machine, module, 1, error)
        if not memory:
            raise RuntimeError(str(error))
    try:
        start = ffi.lib.LLVMPY_GetBufferStart(memory)
        return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(memory))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


def generate(text: str, target: Target | None = None) -> bytes:
    """The object code of a module of IR, by LLVM.

    Args:
      text: LLVM IR.
      target: the processor to generate code for; by default this one.

    Raises:
      DeviceError: LLVM does not take the text: a fault of a renderer.
    """
    return shield(_generate, text, target)


def _generate(text: str, target: Target | None) -> bytes:
    compiler = shared_compiler()
    try:
        with compiler.lean():
            return compiler.emit(text, target or host_target())
    except RuntimeError as error:
        message = f"LLVM does not take this code: {error}\n{text}"
        raise DeviceError(message) from error


def cache_key(text: str, target: Target | None = None) -> tuple[str, ...]:
    """What object code is cached under: what it is made of and all that makes it."""
    if not object_cache.limit:  # nothing is cached, and to read our sources takes time
        return (text,)
    parts = VERSION, machine().llvm, sources(), CODEGEN_LEVEL, LEAN_OPTIONS
    return text, (target or host_target()).text, " ".join(map(str, parts))


def emit_object(text: str, target: Target | None = None) -> bytes:
    """As `generate`, from the disk cache where it is there."""
    return load_or_make(cache_key(text, target), lambda: generate(text, target))


def emit_own(name: str, facts: Iterable[Any], text: Callable[[], str]) -> bytes:
    """The object code of a text of ours, which is not made where the code is on disk.

    Args:
      name: of the text.
      facts: what decides it besides our sources: those are in every key.
      text: makes it.
    """
    if object_cache.limit and not sources():  # nobody knows whether they are the same
        return emit_object(text())
    key = cache_key(" ".join((name, *map(repr, facts))))
    return load_or_make(("own", *key), lambda: generate(text()))


def load_or_make(key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    """What is on disk under a key; if nothing is, it is made and cached there."""
    code = object_cache.load(*key)
    if code is None:
        code = make()
        object_cache.store(code, *key)
    return code


def link(
    code: bytes, names: Sequence[str], imports: Mapping[str, int] | None = None
) -> Code:
    """Loads object code; functions that it calls are found in this process.

    Args:
      code: object code.
      names: the functions of it whose addresses will be asked for.
      imports: addresses of functions that are nowhere else.
    """
    loaded = load(code, names, imports or {})
    if loaded is not None:
        made = Code(loaded, loaded.nbytes)
    else:
        made = Code(shield(_load_by_llvm, code, names, imports), len(code))
    made.keep(imports)
    return made


def _load_by_llvm(
    code: bytes, names: Sequence[str], imports: Mapping[str, int] | None
) -> Any:
    compiler = shared_compiler()
    builder = compiler.llvm.JITLibraryBuilder().add_current_process()
    builder.add_object_img(code)
    for name, address in (imports or {}).items():
        builder.import_symbol(name, address)
    for name in names:
        builder.export_symbol(name)
    return builder.link(compiler.jit, f"ftrace{next(compiler.numbers)}")
