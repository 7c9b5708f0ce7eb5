"""What the examples of many devices share: where they run, one bar, and one device.

    python examples/fsdp.py --steps 50                  8 devices of this process
    mpirun -n 4 python examples/fsdp.py --steps 50      a device of each process

Each example computes the same with arrays that are not divided, and `compare` tells how
far the two are apart.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

import ftrace as ft
from ftrace.experimental import multihost_utils

BAR = 30


def start(text: str | None, steps: int) -> argparse.Namespace:
    """Reads the command line, and joins the processes that mpirun started."""
    parser = argparse.ArgumentParser(description=(text or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument(
        "--explain", action="store_true", help="show how a step is divided"
    )
    options = parser.parse_args()
    if not ft.distributed.is_initialized():
        ft.distributed.initialize()
    if ft.process_count() == 1:
        ft.config.update("jax_num_cpu_devices", 8)
    say(f"{ft.device_count()} devices, {ft.process_count()} process(es)")
    return options


def say(text: str) -> None:
    """Prints once, however many processes there are."""
    if ft.process_index() == 0:
        print(text, flush=True)


class Progress:
    """One bar, of the first process; where a line cannot be redrawn, a few lines."""

    def __init__(self, steps: int) -> None:
        self.steps, self.done = steps, 0
        self.redraws = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, **numbers: Any) -> None:
        """A step is done, after which there are these numbers."""
        self.done += 1
        last = self.done == self.steps
        if not (self.redraws or last or self.done % max(1, self.steps // 5) == 0):
            return
        texts = [f"{name} {float(value):.4f}" for name, value in numbers.items()]
        text = "  ".join([f"{self.done:>5}/{self.steps}", *texts])
        if self.redraws:
            full = BAR * self.done // self.steps
            text = f"\r{'━' * full}{'╌' * (BAR - full)}{text}"
        if ft.process_index() == 0:
            print(text, end="" if self.redraws and not last else "\n", flush=True)


def quiet(**numbers: Any) -> None:
    """In the place of `Progress`, for what is only computed to be compared with."""


def whole(x: Any) -> Any:
    """What is divided as one NumPy array, in all processes."""
    if isinstance(x, ft.Array) and not x.is_fully_replicated:
        return multihost_utils.process_allgather(x, tiled=True)
    return np.asarray(x)


def compare(what: str, many: Any, one: Any, within: float) -> int:
    """Tells how far what many devices computed is from what one did.

    Args:
      many, one: trees of arrays.
      within: what is allowed between two arrays, relative to the greatest number.

    Returns:
      1 if they are further apart, or not finite, else 0.
    """
    pairs = [
        (whole(x), whole(y))
        for x, y in zip(ft.tree.leaves(many), ft.tree.leaves(one), strict=True)
    ]
    if all(x.tobytes() == y.tobytes() for x, y in pairs):
        say(f"{what}: the same bits as on one device")
        return 0
    apart = max(float(abs(x - y).max() / abs(y).max()) for x, y in pairs)
    good = apart <= within
    end = "" if good else f": more than {within:.0e}"
    say(f"{what}: {apart:.1e} of the greatest from those of one device{end}")
    return int(not good)
