"""A progress bar on the error stream: by rich where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

WIDTH = 30


@contextmanager
def steps_with_progress(
    title: str, names: Sequence[str]
) -> Generator[Callable[[], None], None, None]:
    """A block of steps; calling what it gives says that one more is done.

    Nothing is shown where there are no steps. Where the error stream is no terminal,
    each step becomes a line.

    Args:
      title: what is being done.
      names: the steps, in order.
    """
    if not names:
        yield lambda: None
    elif sys.stderr.isatty():
        with _bar(title, names) as advance:
            yield advance
    else:
        yield _lines(title, names)


def _lines(title: str, names: Sequence[str]) -> Callable[[], None]:
    left = enumerate(names, 1)

    def advance() -> None:
        number, name = next(left)
        sys.stderr.write(f"{title}: {number} of {len(names)}, {name}\n")

    return advance


@contextmanager
def _bar(title: str, names: Sequence[str]) -> Generator[Callable[[], None], None, None]:
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield _plain_bar(title, names)
        return
    with Progress(console=Console(stderr=True)) as progress:
        task: Any = progress.add_task(title, total=len(names))
        yield lambda: progress.advance(task)


def _plain_bar(title: str, names: Sequence[str]) -> Callable[[], None]:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        filled = WIDTH * done // len(names)
        bar = "#" * filled + "." * (WIDTH - filled)
        end = "\n" if done == len(names) else ""
        sys.stderr.write(f"\r{title} [{bar}] {done}/{len(names)}{end}")
        sys.stderr.flush()

    return advance
