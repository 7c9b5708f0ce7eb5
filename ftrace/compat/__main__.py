"""`python -m ftrace.compat script.py …`: a program of JAX's on ftrace, as it is.

As Python itself: `-m module …`, `-c code …` and `-` in the place of a script. The
programs that it starts run on ftrace as well, where they import ftrace before jax.
With `--autograd` before them, it is a program of autograd's.
"""

from __future__ import annotations

import os
import runpy
import sys

from ftrace.compat.alias import install_as_autograd, install_as_jax

USAGE = (
    "usage: python -m ftrace.compat [--autograd] script.py … | - | -m module … | "
    "-c code …"
)


def main(arguments: list[str]) -> None:
    """Runs what `arguments` name, as Python would do."""
    autograd = arguments[:1] == ["--autograd"]
    arguments = arguments[autograd:]
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(f"{USAGE}\n")
        return
    if not arguments or (arguments[0] in ("-m", "-c") and len(arguments) == 1):
        sys.exit(USAGE)
    if autograd:
        install_as_autograd()
    else:
        install_as_jax()
        os.environ["FTRACE_AS_JAX"] = "1"
    first, *rest = arguments
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first in ("-c", "-"):
        code, *rest = rest if first == "-c" else (sys.stdin.read(), *rest)
        sys.argv = [first, *rest]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        if not os.path.exists(first):
            sys.exit(f"python -m ftrace.compat: there is no file {first!r}\n{USAGE}")
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
