"""The command line of the soak; see the package."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextvars import Context
from pathlib import Path
from random import Random
from typing import Any

import ftrace as ft
from tests.soak import trouble
from tests.soak.watch import Memory, watch
from tests.soak.work import Known, Record, Worker

THREADS = 3
#: Programs whose bits are known from the start.
KNOWN = 24
#: Bytes of what is traced and compiled: it is full when memory is looked at.
CACHE_MEMORY = 16 << 20
#: Bytes of files, of all processes: the oldest go, as they do after years of use.
CACHE_SIZE = 16 << 20
#: Share of the steps of a thread during which an exception arrives.
INTERRUPTED = 0.3
#: Steps of the main thread until it forks.
FORK_EVERY = 5


def work(worker: Worker) -> None:
    """Steps until the end; whatever arrives, the next step is right again."""
    while not worker.record.stop.is_set():
        try:
            if worker.random.random() < INTERRUPTED:
                trouble.interrupted(worker.step, worker.record, worker.random)
            else:
                worker.step()
        except Exception as error:
            worker.record.fault(f"{type(error).__name__}: {error}")


class CtrlC:
    """KeyboardInterrupt in the main thread while it computes, and not elsewhere."""

    def __init__(self) -> None:
        self.armed = False
        signal.signal(signal.SIGINT, self._arrive)

    def _arrive(self, *_: Any) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


def compute(worker: Worker, ctrl_c: CtrlC) -> None:
    try:
        ctrl_c.armed = True
        worker.step()
        ctrl_c.armed = False
    except KeyboardInterrupt:
        worker.record.counts["Ctrl-C arrived"] += 1
    except Exception as error:
        ctrl_c.armed = False
        worker.record.fault(f"{type(error).__name__}: {error}")


def soak(minutes: float, seed: int, folder: Path) -> int:
    record, memory, random = Record(), Memory(), Random(seed)
    known = [Context().run(Known.of, seed * 1000 + n) for n in range(KNOWN)]
    ctrl_c = CtrlC()
    workers = [Worker(record, known, seed * 100 + n) for n in range(THREADS + 1)]
    threads = [
        trouble.start(f"worker {n}", work, worker)
        for n, worker in enumerate(workers[1:])
    ]
    others = [
        trouble.start("watch", watch, record, memory),
        trouble.start("cache", trouble.damage_cache, record, folder, Random(seed)),
        trouble.start("processes", trouble.run_processes, record, Random(seed + 1)),
        trouble.start("Ctrl-C", trouble.press_ctrl_c, record, Random(seed + 2)),
    ]
    begun, seen = time.monotonic(), 0
    while time.monotonic() - begun < minutes * 60:
        compute(workers[0], ctrl_c)
        if random.randrange(FORK_EVERY) == 0:
            trouble.fork_once(record, known, random.randrange(1 << 20))
        for fault in record.faults[seen:]:
            print(f"{time.monotonic() - begun:.0f} s: {fault}", flush=True)
        seen = len(record.faults)
    record.stop.set()
    for thread in [*threads, *others]:
        thread.join(trouble.PATIENCE)
        if thread.is_alive():
            record.fault(f"{thread.name} does not end")
    return report(record, memory)


def report(record: Record, memory: Memory) -> int:
    for name, count in sorted(record.counts.items()):
        print(f"{count:8d} {name}")
    if memory.is_leaking():
        record.fault(f"memory grows by {memory.slope():.2f} MiB a minute")
    held = memory.held or [0.0]
    print(
        f"memory: {held[0]:.0f} MiB, then {max(held):.0f}, at the end {held[-1]:.0f};"
    )
    print(f"        {memory.slope():+.2f} MiB a minute after the first two fifths")
    print(f"{len(record.faults)} faults")
    for fault in record.faults:
        print(f"  {fault}")
    return int(bool(record.faults))


def child(seed: int) -> int:
    """A process beside the soak's: some steps, with the same cache."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    record = Record()
    known = [Context().run(Known.of, seed * 1000 + n) for n in range(3)]
    worker = Worker(record, known, seed)
    for _ in range(12):
        worker.step()
    for fault in record.faults:
        sys.stderr.write(f"in a process beside: {fault}\n")
    return int(bool(record.faults))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ft.errors.CacheWarning)  # it is damaged on purpose
    if options.child is not None:
        return child(options.child)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FTRACE_CACHE_DIR"] = folder  # for the processes beside
        os.environ["FTRACE_CACHE_SIZE"] = str(CACHE_SIZE)
        ft.config.update("cache_dir", folder)
        ft.config.update("cache_size", CACHE_SIZE)
        ft.config.update("cache_memory", CACHE_MEMORY)
        return soak(options.minutes, options.seed, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
