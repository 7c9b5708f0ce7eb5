"""One cold start, in a process of its own: `python -m benchmarks.cold`.

A new process is the only one in which nothing at all is cached. The import of the
library, of its compiler and the start of its threads are paid by a tiny program that
is not timed; then one program is traced, compiled and run, and the seconds printed.
Imports stand inside the functions, since the import itself is one of the programs. So
is all that a user waits for at his first jitted call: "first jit" is the time from the
start of the process to the result of that tiny program.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TIMEOUT = 300


class ColdStartError(Exception):
    """The process that was to be timed failed."""


def mlp_step(library: Any) -> tuple[Any, tuple[Any, ...]]:
    from benchmarks import models

    step = models.sgd_step(library.api, models.mlp_loss(library.api))
    return step, models.mlp_inputs((64, 128, 128, 10), 64)


def block_step(library: Any) -> tuple[Any, tuple[Any, ...]]:
    from benchmarks import models

    step = models.sgd_step(library.api, models.block_loss(library.api, 4))
    return step, models.block_inputs(2, 32, 64)


def stack_step(library: Any) -> tuple[Any, tuple[Any, ...]]:
    from benchmarks import models

    step = models.sgd_step(library.api, models.stack_loss(library.api, 4))
    return step, models.stack_inputs(12, 2, 32, 64)


def convolution_step(library: Any) -> tuple[Any, tuple[Any, ...]]:
    from benchmarks import models

    step = models.sgd_step(library.api, models.cnn_loss(library.api))
    return step, models.cnn_inputs(16)


def recurrent_step(library: Any) -> tuple[Any, tuple[Any, ...]]:
    from benchmarks.rows import control

    loss = control.recurrent_loss(library.api)
    return library.api.value_and_grad(loss), control.recurrent_inputs(32, 16, 32)


def many_operations(library: Any) -> tuple[Any, tuple[Any, ...]]:
    from benchmarks.inputs import normal

    np = library.api.np

    def chain(x: Any, y: Any) -> Any:
        for i in range(75):  # of four operations
            x = np.sin(x) * y + (0.5 + i / 64)
            x = x - y
        return x

    return chain, (normal(1000), normal(1000, seed=1))


PROGRAMS: dict[str, Callable[[Any], tuple[Any, tuple[Any, ...]]]] = {
    "MLP step": mlp_step,
    "transformer block step": block_step,
    "12 transformer blocks step": stack_step,
    "CNN step": convolution_step,
    "RNN scan, with gradient": recurrent_step,
    "300 elementwise operations": many_operations,
}


#: What is timed with the import of the library.
WITH_IMPORT = ("import", "first jit")


def in_new_process(library: str, program: str, cache: Path | None) -> float:
    """The seconds of a cold start.

    Args:
      library: "ftrace" or "jax"; for the program "import" any.
      program: of `PROGRAMS`, or of `WITH_IMPORT`.
      cache: the folder of the disk cache; None for none.

    Raises:
      ColdStartError: the process failed; the message is its last line.
    """
    if program in WITH_IMPORT:
        _keep_bytecode(library, program)
    return _run(library, program, cache)


def _run(library: str, program: str, cache: Path | None) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cold", library, program, str(time.time())],
        cwd=ROOT,
        env=_environment(cache),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise ColdStartError(f"{library}, {program}: {lines[-1]}")
    return float(done.stdout)


@cache
def _keep_bytecode(library: str, program: str) -> None:
    """Runs it once, so that its bytecode is on disk, as where it was installed."""
    _run(library, program, None)


def _environment(cache: Path | None) -> dict[str, str]:
    found = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        folder = str(cache)
        found |= {
            "FTRACE_CACHE_DIR": folder,
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    else:
        found |= {"FTRACE_CACHE_SIZE": "0", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    return found


def time_import(name: str) -> float:
    """Seconds to import a library when NumPy is there; every one of them needs it."""
    if name != "numpy":
        importlib.import_module("numpy")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    start = time.perf_counter()
    importlib.import_module(name)
    if name == "jax":
        importlib.import_module("jax.numpy")
    return time.perf_counter() - start


def time_first_jit(name: str, started: float) -> float:
    """Seconds from the start of the process to the first result of a tiny program.

    Args:
      started: when that was, by `time.time()`: the clock that processes share.
    """
    import numpy as np

    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    library = importlib.import_module(name)
    argument = importlib.import_module(f"{name}.numpy").asarray(np.ones(4, np.float32))
    library.block_until_ready(library.jit(lambda x: x + 1)(argument))
    return time.time() - started


def time_program(name: str, program: str) -> float:
    """Seconds from a Python function to its first result."""
    import numpy as np

    from benchmarks.libraries import load_library

    library = load_library(name)
    assert library.jit is not None
    with library.session():
        function, inputs = PROGRAMS[program](library)
        arguments = library.arguments(inputs)
        library.wait(library.jit(lambda x: x + 1)(library.put(np.ones(4, np.float32))))
        start = time.perf_counter()
        library.wait(library.jit(function)(*arguments))
        return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description="Times one cold start.")
    parser.add_argument("library")
    parser.add_argument("program", choices=(*WITH_IMPORT, *PROGRAMS))
    parser.add_argument("started", type=float, nargs="?", default=time.time())
    options = parser.parse_args()
    if options.program == "import":
        print(time_import(options.library))
    elif options.program == "first jit":
        print(time_first_jit(options.library, options.started))
    else:
        print(time_program(options.library, options.program))
    return 0


if __name__ == "__main__":
    sys.exit(main())
