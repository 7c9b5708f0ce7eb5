"""LLVM IR text to machine code in this process, by way of the disk cache.

    text -> object code (from the cache, or by LLVM) -> addresses

Vector code with phi loops needs no IR passes: only the code generator runs. llvmlite
is imported at the first compilation: it takes 50 ms.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any

from ftrace.devices.llvm.cache import ObjectCache
from ftrace.devices.llvm.target import Target, host_target
from ftrace.errors import DeviceError

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
object_cache = ObjectCache()


class Code:
    """Machine code in memory; it stays as long as this object."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def address(self, name: str) -> int:
        """Where the function of that name begins."""
        return int(self._tracker[name])


class _Compiler:
    """LLVM's objects of this process.

    Attributes:
      jit: loads object code.
      version: of everything that turns text into object code.
    """

    def __init__(self) -> None:
        llvmlite: Any = import_module("llvmlite")
        llvm: Any = import_module("llvmlite.binding")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.llvm: Any = llvm
        self.jit: Any = llvm.create_lljit_compiler(self._machine(host_target()))
        self.numbers = itertools.count()
        llvm_version = ".".join(map(str, llvm.llvm_version_info))
        parts = (
            _own_version(),
            llvmlite.__version__,
            llvm_version,
            CODEGEN_LEVEL,
            LEAN_OPTIONS,
        )
        self.version = " ".join(map(str, parts))
        self._lock = threading.Lock()
        self._lean_blocks = 0
        # A context and a machine serve one thread at a time; they are kept for reuse.
        self._benches: dict[Target, list[tuple[Any, Any]]] = {}

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

    def emit(self, text: str, target: Target) -> bytes:
        benches = self._benches.setdefault(target, [])
        try:
            bench = benches.pop()
        except IndexError:
            bench = self.llvm.create_context(), self._machine(target)
        context, machine = bench
        module = self.llvm.parse_assembly(text, context)
        module.verify()
        try:
            return _emit_unlocked(machine, module)
        finally:
            benches.append(bench)


def _own_version() -> str:
    try:
        return metadata.version("ftrace")
    except metadata.PackageNotFoundError:
        return "source"


@lru_cache(maxsize=1)
def _compiler() -> _Compiler:
    return _Compiler()


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


def emit_object(text: str, target: Target | None = None) -> bytes:
    """The object code of a module of IR, from the disk cache where it is there.

    Args:
      text: LLVM IR.
      target: the processor to generate code for; by default this one.

    Raises:
      DeviceError: LLVM does not take the text: a fault of a renderer.
    """
    compiler = _compiler()
    target = target or host_target()
    key = (text, target.triple, target.cpu, target.features, compiler.version)
    code = object_cache.load(*key)
    if code is None:
        try:
            with compiler.lean():
                code = compiler.emit(text, target)
        except RuntimeError as error:
            message = f"LLVM does not take this code: {error}\n{text}"
            raise DeviceError(message) from error
        object_cache.store(code, *key)
    return code


def emit_objects(texts: Iterable[str], threads: int) -> list[bytes]:
    """The object code of several modules; LLVM works while the next text is made."""
    if threads <= 1:
        return [emit_object(text) for text in texts]
    with _compiler().lean(), ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(copy_context().run, emit_object, text) for text in texts]
        return [job.result() for job in jobs]


def link(
    code: bytes, names: Sequence[str], imports: Mapping[str, int] | None = None
) -> Code:
    """Loads object code; functions that it calls are found in this process.

    Args:
      code: object code.
      names: the functions of it whose addresses will be asked for.
      imports: addresses of functions that are nowhere else.
    """
    compiler = _compiler()
    builder = compiler.llvm.JITLibraryBuilder().add_current_process()
    builder.add_object_img(code)
    for name, address in (imports or {}).items():
        builder.import_symbol(name, address)
    for name in names:
        builder.export_symbol(name)
    return Code(builder.link(compiler.jit, f"ftrace{next(compiler.numbers)}"))
