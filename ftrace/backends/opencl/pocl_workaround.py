"""A fault of PoCL 3.0, the last one on PyPI, worked around.

Its LLVM 14 does not know processors that came after it: it calls them "generic", which
its own compiler then refuses ("unknown target CPU 'generic'", PoCL's issue 1049), so
that no kernel can be built. No option or environment variable of that version names
another one (`POCL_LLVM_CPU_NAME` came later). What is left is to change the name where
the library keeps it: in the record of the device, behind the handle that OpenCL gives
out, the name stands as a pointer right after that of the target's triple.

It is done only for that library, only where the name is "generic", only if exactly one
pair of pointers in the record fits, and before the first build.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Any

from ftrace.errors import DeviceError

_RECORD_BYTES = 4096
#: The name given to each device, by its handle. PoCL keeps pointers to these texts.
_names: dict[int, Any] = {}


def name_processor(device: Any) -> str:
    """Gives PoCL a processor that its LLVM knows, if it found none itself.

    Args:
      device: of pyopencl.

    Returns:
      the name that was given, or nothing where there was no need. PoCL's cache of
      compiled kernels does not know of it: a build option must tell it.

    Raises:
      DeviceError: the name must be changed, and this build of PoCL is unknown.
    """
    if "PoCL" not in device.version or not device.version.endswith("-generic"):
        return ""
    if device.int_ptr in _names:
        return _names[device.int_ptr].value.decode()
    if platform.machine() != "x86_64" or not os.path.exists("/proc/self/mem"):
        raise _refused(device)
    field = _find_name(device.int_ptr)
    if field is None:
        raise _refused(device)
    name = _instruction_set()
    text = _names[device.int_ptr] = ctypes.create_string_buffer(name.encode())
    ctypes.c_void_p.from_address(field).value = ctypes.addressof(text)
    return name


def _refused(device: Any) -> DeviceError:
    return DeviceError(
        f"{device.version.strip()} does not know this processor and cannot compile for "
        "it; install a newer PoCL, or another OpenCL driver"
    )


def _find_name(record: int) -> int | None:
    """The address of the pointer to "generic" in the record of a device."""
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        words = _read(memory, record, _RECORD_BYTES)
        pointers = struct.unpack(f"{len(words) // 8}Q", words[: len(words) // 8 * 8])
        found = [
            number
            for number in range(1, len(pointers))
            if _text(memory, pointers[number]) == b"generic"
            and _text(memory, pointers[number - 1]).startswith(b"x86_64-")
        ]
    finally:
        os.close(memory)
    return record + 8 * found[0] if len(found) == 1 else None


def _read(memory: int, address: int, count: int) -> bytes:
    """Bytes of this process; fewer, or none, where nothing is mapped."""
    if not 4096 <= address < 1 << 47:
        return b""
    try:
        return os.pread(memory, count, address)
    except OSError:
        return b""


def _text(memory: int, address: int) -> bytes:
    return _read(memory, address, 64).partition(b"\0")[0]


def _instruction_set() -> str:
    """The x86-64 level of this machine, as LLVM names it."""
    with open("/proc/cpuinfo") as file:
        line = next((line for line in file if line.startswith("flags")), "")
    flags = set(line.split())
    if flags >= {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}:
        return "x86-64-v4"
    if flags >= {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}:
        return "x86-64-v3"
    return "x86-64"
