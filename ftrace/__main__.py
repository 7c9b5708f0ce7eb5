"""`python -m ftrace`: what is installed here, and whether calls are native."""

from __future__ import annotations

import platform
import sys

import numpy as np

from ftrace.backends.base import get_device, platform_names
from ftrace.backends.llvm.call.install import native_for
from ftrace.backends.llvm.call.object_layout import VERSIONS, offsets
from ftrace.ground import VERSION, settings


def native_calls() -> str:
    """Are calls native, and if not, why not?"""
    if not settings.current().native_calls:
        return "no: the setting native_calls is off (FTRACE_NATIVE_CALLS=0)"
    if offsets() is None:
        first, last = (".".join(map(str, VERSIONS[i])) for i in (0, -1))
        return (
            "no: this interpreter lays out its objects in an unknown way. They are "
            f"made for CPython {first} to {last}. All results are the same; a jitted "
            "call takes about 5 µs instead of 0.2 µs (docs/calling.md)"
        )
    cpu = get_device("cpu")
    cpu.make_native()
    return "yes" if native_for(cpu) is not None else "no: see the warning above"


def main() -> None:
    """Prints all of it."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    lines = [
        f"ftrace {VERSION}, {python}, NumPy {vars(np)['__version__']}",
        f"devices: {', '.join(platform_names())}",
        f"native calls: {native_calls()}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
