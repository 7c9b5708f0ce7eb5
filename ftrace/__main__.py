"""What is installed here, and does it work?

    python -m ftrace                      all of it: versions, devices, caches, a check
    python -m ftrace check [DEVICE …]     a few programs on each device, or on these
    python -m ftrace cache info | clear   what the disk cache holds
    python -m ftrace completion SHELL     a script that completes these words: of bash,
                                          zsh or fish

It ends with 1 where a device that is there gives a wrong result, or none.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, random
from ftrace.backends.base import get_device, platform_names
from ftrace.backends.llvm.call.install import native_for
from ftrace.backends.llvm.call.object_layout import VERSIONS, offsets
from ftrace.backends.llvm.compile import object_cache
from ftrace.errors import FtraceError, MissingExtraError
from ftrace.ground import VERSION, settings

SHELLS = ("bash", "zsh", "fish")
#: Each command, and the words that may follow it.
COMMANDS: dict[str, Sequence[str]] = {
    "info": (),
    "check": platform_names(),
    "cache": ("info", "clear"),
    "completion": SHELLS,
}


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


# The check: programs, each with what NumPy makes of the same arguments.

X: Any = np.float32(-2) + np.indices((6, 10)).sum(0, np.float32) / 4
SQUARE: Any = X[:, :6] + 4 * np.eye(6, dtype=np.float32)


def _cubes(x: Any) -> Any:
    return (x**3).sum()


def _sum_of_powers(x: Any) -> Any:
    def step(i: Any, total: Any) -> Any:
        return total * x + 1

    return lax.fori_loop(0, 5, step, 0 * x)


def _bits(seed: Any) -> Any:
    return random.bits(random.key(seed), (2,))


#: Of each what it computes, of what, and what NumPy makes of that.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "arithmetic": (lambda x: fnp.exp(-x * x) + 1, X, np.exp(-X * X) + 1),
    "sum": (lambda x: x.sum(0), X, X.sum(0)),
    "product": (lambda x: x @ x.T, X, X @ X.T),
    "gradient": (ft.grad(_cubes), X, 3 * X**2),
    "vmap": (ft.vmap(fnp.sum), X, X.sum(1)),
    "loop": (_sum_of_powers, X, 1 + X + X**2 + X**3 + X**4),
    "sort": (lambda x: fnp.sort(x, 0), -X, np.sort(-X, 0)),
    "solve": (lambda x: fnp.linalg.solve(x, X), SQUARE, np.linalg.solve(SQUARE, X)),
    "random": (_bits, 0, np.array([4070199207, 4202968722], np.uint32)),
}


def problems(device: str) -> Iterator[str]:
    """What is wrong with a device: a line for each program."""
    for name, (function, given, expected) in PROGRAMS.items():
        try:
            with ft.config(device=device):
                found = np.asarray(ft.jit(function)(given))
        except Exception as error:  # whatever it is: it is told
            text = next(iter(str(error).splitlines()), "")
            yield f"{name}: {type(error).__name__}: {text:.200}"
            continue
        if not np.allclose(found, expected, 1e-4, 1e-4):
            worst = np.abs(found.astype(float) - expected).max()
            yield f"{name}: it is {worst:.3g} away from NumPy's result"


def check(names: Sequence[str]) -> bool:
    """Says of each device whether it is right; is none wrong?"""
    right = True
    for name in names:
        try:
            get_device(name)
        except MissingExtraError as error:
            _say(f"  {name}: not there: {error.message}")
            continue
        except FtraceError as error:
            _say(f"  {name}: WRONG: {error.message}")
            right = False
            continue
        begin = time.perf_counter()
        wrong = list(problems(name))
        took = f"{len(PROGRAMS)} programs, {time.perf_counter() - begin:.1f} s"
        _say(f"  {name}: {'WRONG' if wrong else 'ok'} ({took})")
        for line in wrong:
            _say(f"    {line}")
        right = right and not wrong
    return right


# What is cached.


def cache_info() -> str:
    """Where the disk cache is, and what it holds."""
    if not object_cache.limit:
        return "disk cache: off (FTRACE_CACHE_SIZE=0, or FTRACE_CACHE_DIR=/dev/null)"
    try:
        folder = object_cache.folder
    except (OSError, RuntimeError) as error:
        return f"disk cache: none: {error}; FTRACE_CACHE_DIR names a folder"
    count, size = object_cache.content()
    place = folder if os.path.isdir(folder) else f"{folder} (not made yet)"
    return (
        f"disk cache: {place}: {count} files, {_bytes(size)} of at most "
        f"{_bytes(object_cache.limit)}"
    )


def _bytes(size: float) -> str:
    units = ["B", "kB", "MB", "GB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"


def clear_cache() -> None:
    """Removes what the disk cache holds; programs compile anew."""
    count, size = object_cache.content()
    object_cache.clear()
    left, _ = object_cache.content()
    _say(f"removed {count - left} files, {_bytes(size)}; {left} are left")


def info() -> bool:
    """Prints all of it."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    _say(f"ftrace {VERSION}, {python}, NumPy {vars(np)['__version__']}")
    _say(f"machine: {platform.machine()}, {os.cpu_count()} cores, {sys.platform}")
    _say(f"native calls: {native_calls()}")
    _say(cache_info())
    memory = _bytes(settings.current().cache_memory)
    _say(f"memory for what was traced and compiled: at most {memory}")
    _say("devices:")
    return check(platform_names())


# Completion.

_BASH = """\
_ftrace() {
  local at="${COMP_WORDS[*]:1:COMP_CWORD-1}" found=""
  case "$at" in
%s
  esac
  [ -n "$found" ] && COMPREPLY=($(compgen -W "$found" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o bashdefault -o default -F _ftrace python python3
"""
_ZSH = """\
_ftrace() {
  local found=""
  case "${words[2,CURRENT-1]}" in
%s
  esac
  if [[ -n $found ]]; then compadd -- ${=found}; else _default; fi
}
compdef _ftrace python python3
"""


def completion(shell: str) -> str:
    """A script for a shell: what it completes after `python -m ftrace`."""
    before = "-m ftrace"
    words = {before: (*COMMANDS, "--help", "--version")}
    words |= {f"{before} {name}": more for name, more in COMMANDS.items() if more}
    if shell == "fish":
        lines = [
            f'complete -c {python} -f -n \'test (string join " " (commandline -opc)'
            f"[2..]) = \"{at}\"' -a '{' '.join(more)}'"
            for python in ("python", "python3")
            for at, more in words.items()
        ]
        return "\n".join(lines) + "\n"
    cases = [f'  "{at}") found="{" ".join(more)}";;' for at, more in words.items()]
    return {"bash": _BASH, "zsh": _ZSH}[shell] % "\n".join(cases)


# The program.


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    said = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m ftrace",
        description="\n\n".join(said),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ftrace {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("info", help="versions, devices, caches, a check (the default)")
    checked = commands.add_parser("check", help="a few programs on each device")
    checked.add_argument("devices", nargs="*", metavar="DEVICE")
    cache = commands.add_parser("cache", help="what the disk cache holds")
    cache.add_argument("action", choices=COMMANDS["cache"], nargs="?", default="info")
    shell = commands.add_parser("completion", help="a script that completes all this")
    shell.add_argument("shell", choices=SHELLS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the arguments say; 1 where a device is wrong."""
    given = _parser().parse_args(arguments)
    if given.command == "check":
        return 0 if check(given.devices or platform_names()) else 1
    if given.command == "completion":
        sys.stdout.write(completion(given.shell))
    elif given.command == "cache":
        clear_cache() if given.action == "clear" else _say(cache_info())
    else:
        return 0 if info() else 1
    return 0


def run() -> int:
    """`main`, which ends without a word where it is broken off."""
    try:
        return main()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `python -m ftrace | head -1` reads no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(run())
