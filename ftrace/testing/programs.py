"""What of a function can be counted and read: its traces, its kernels, their text."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, overload

from ftrace import monitoring
from ftrace.errors import ArgumentError
from ftrace.ground.settings import config
from ftrace.transforms.jit.jit import Jitted, jit

#: Set, goldens are written anew: `pytest --ftrace-update-goldens` sets it.
UPDATE_GOLDENS = "FTRACE_UPDATE_GOLDENS"


@contextmanager
def count_traces() -> Generator[Counter[str]]:
    """A block whose traces of jitted functions are counted, by the functions' names."""
    traces = Counter[str]()

    def listener(event: str, _: float, **more: Any) -> None:
        if event == monitoring.TRACED:
            traces[more["fun_name"]] += 1

    monitoring.register_event_duration_secs_listener(listener)
    try:
        yield traces
    finally:
        monitoring.unregister_event_duration_listener(listener)


class _ExpectTraces(AbstractContextManager[Counter[str]]):
    """Of a class: pytest points at the block, not into a function's `yield`."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __enter__(self) -> Counter[str]:
        self._block = count_traces()
        self._traces = self._block.__enter__()
        return self._traces

    def __exit__(self, kind: Any, value: Any, place: Any) -> None:
        __tracebackhide__ = True
        self._block.__exit__(kind, value, place)
        traces, n = self._traces, self._n
        if kind is None and traces.total() != n:
            each = ", ".join(f"{name} {count} times" for name, count in traces.items())
            raise AssertionError(
                f"assert_num_traces: {traces.total()} traces, not {n}: {each or 'none'}"
            )


@overload
def assert_num_traces(f: int) -> AbstractContextManager[Counter[str]]: ...
@overload
def assert_num_traces(f: Callable[..., Any], n: int) -> None: ...


def assert_num_traces(f: Any, n: int | None = None) -> Any:
    """Raises unless functions under jit were traced so many times.

        assert_num_traces(step, 1)      # of step, since it was made
        with assert_num_traces(0):      # of all functions, in the block
            step(x)

    Args:
      f: a function that `jit` has made, or the number, of a block.
      n: how often it was traced so far.

    Raises:
      AssertionError: it was traced more or less often.
      ArgumentError: `f` is no function under jit, or the number is missing.

    Example:
      >>> f = ft.jit(lambda x: x + 1)
      >>> f(1.0), f(2.0)
      (Array(2., ...), Array(3., ...))
      >>> ft.testing.assert_num_traces(f, 1)
    """
    __tracebackhide__ = True
    if isinstance(f, int) and n is None:
        return _ExpectTraces(f)
    if not isinstance(f, Jitted) or n is None:
        raise ArgumentError(
            "assert_num_traces takes a function that jit has made and a number, or a "
            f"number alone in a with statement; got {f!r} and {n!r}"
        )
    if f.trace_count != n:
        raise AssertionError(
            f"assert_num_traces: {f.__name__} was traced {f.trace_count} times, not {n}"
        )
    return None


def lowered_text(f: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The program that `f` becomes for these arguments, and its kernels, as text.

    Args:
      f: a function, under jit or not; static arguments want it under jit.
      args, kwargs: its arguments; `ShapeDtypeStruct` will do for arrays.
    """
    stages = _lower(f, args, kwargs)
    return "\n\n".join([str(stages.program), *map(str, stages.kernels)]) + "\n"


def _lower(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return (f if isinstance(f, Jitted) else jit(f)).lower(*args, **kwargs)


def assert_num_kernels(
    f: Callable[..., Any], *args: Any, n: int, **kwargs: Any
) -> None:
    """Raises unless `f` becomes `n` kernels for these arguments: has it fused?

    Args:
      f: a function, under jit or not.
      args, kwargs: its arguments; `ShapeDtypeStruct` will do for arrays.
      n: how many kernels are expected.

    Raises:
      AssertionError: they are more or fewer; the program and its kernels follow.

    Example:
      >>> x = ft.ShapeDtypeStruct((1000,), np.float32)
      >>> ft.testing.assert_num_kernels(lambda x: fnp.sum(fnp.exp(x) * 2), x, n=1)
    """
    __tracebackhide__ = True
    found = len(_lower(f, args, kwargs).kernels)
    if found != n:
        raise AssertionError(
            f"assert_num_kernels: {found} kernels, not {n}\n\n"
            f"{lowered_text(f, *args, **kwargs)}"
        )


def assert_kernels(
    f: Callable[..., Any],
    *args: Any,
    golden: str | os.PathLike[str],
    device: str = "cpu",
    **kwargs: Any,
) -> None:
    """Raises unless the program of `f` and its kernels are the text in a file.

    `pytest --ftrace-update-goldens`, or a variable FTRACE_UPDATE_GOLDENS in the
    environment, writes the file; read the difference before you commit it.

    Args:
      f: a function, under jit or not.
      args, kwargs: its arguments; `ShapeDtypeStruct` will do for arrays.
      golden: the file.
      device: the one whose program it is.

    Raises:
      AssertionError: the text is another, or there is no file; with the difference.
    """
    __tracebackhide__ = True
    with config(device=device):
        text = lowered_text(f, *args, **kwargs)
    assert_golden(text, golden)


def assert_golden(
    text: str, golden: str | os.PathLike[str], section: str | None = None
) -> None:
    """Raises unless a text is what a file holds, or one section of it.

    Args:
      text: lines.
      golden: the file; written anew as those of `assert_kernels` are.
      section: the text is that below a line `== section`, up to an empty line.

    Raises:
      AssertionError: the text is another, or there is no file; with the difference.
      ArgumentError: a section with an empty line, which would end it.
    """
    __tracebackhide__ = True
    path, text = Path(golden), text.rstrip("\n") + "\n"
    known = golden_sections(path) if section is not None else {}
    if section is None:
        wanted = path.read_text(encoding="utf-8") if path.exists() else None
    elif "\n\n" in text:
        raise ArgumentError(f"a section of goldens has no empty lines: {section!r}")
    else:
        wanted = known.get(section)
    if text == wanted:
        return
    if os.environ.get(UPDATE_GOLDENS):
        known |= {} if section is None else {section: text}
        parts = [f"== {name}\n{part}" for name, part in known.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts) if parts else text, encoding="utf-8")
        return
    where = path.name if section is None else f"{path.name}, {section}"
    how = "pytest --ftrace-update-goldens writes it"
    if wanted is None:
        raise AssertionError(f"golden {where}: it is not there yet; {how}\n\n{text}")
    old, new = wanted.splitlines(True), text.splitlines(True)
    pairs = enumerate(zip([*old, ""], [*new, ""], strict=False), 1)
    first = next((n for n, (a, b) in pairs if a != b), 0)
    difference = "".join(difflib.unified_diff(old, new, "golden", "now"))
    raise AssertionError(
        f"golden {where}: it differs from line {first} on; {how}\n\n{difference}"
    )


def golden_sections(golden: str | os.PathLike[str]) -> dict[str, str]:
    """The sections of a file of goldens, by the names in their first lines.

    Args:
      golden: the file.
    """
    path = Path(golden)
    if not path.exists():
        return {}
    parts = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    pairs = (part.removeprefix("== ").partition("\n") for part in parts)
    return {name: f"{rest}\n" for name, _, rest in pairs}
