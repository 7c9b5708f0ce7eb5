"""Memory, and whether everybody still works."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import time
from dataclasses import dataclass, field

import numpy as np

from tests.soak.work import Record

#: Seconds without a sign of life of one thread, and of all.
PATIENCE = 180
#: Seconds between two samples, and of a run that tells whether memory is flat.
EVERY, LONG = 5, 1800
#: MiB a minute: an hour's run has 0.4, which is memory that is freed and held.
FLAT = 1.0


def resident() -> float:
    """MiB that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


@dataclass
class Memory:
    """Samples of resident memory."""

    seconds: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)

    def sample(self) -> None:
        self.seconds.append(time.monotonic())
        self.held.append(resident())

    def slope(self, warm_up: float = 0.4) -> float:
        """MiB per minute, by least squares, after a part of the time."""
        first = int(len(self.held) * warm_up)
        seconds, held = np.array(self.seconds[first:]), np.array(self.held[first:])
        if len(held) < 3:
            return 0.0
        return float(np.polyfit(seconds - seconds[0], held, 1)[0] * 60)

    def is_leaking(self) -> bool:
        """Does it grow, in a run that is long enough to tell?"""
        return len(self.held) * EVERY >= LONG and self.slope() > FLAT


def watch(record: Record, memory: Memory) -> None:
    """Until the end: memory is noted, and a thread that hangs ends the process.

    Where not even this thread goes on, the timer of faulthandler ends it.
    """
    while not record.stop.wait(EVERY):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        memory.sample()
        now = time.monotonic()
        for name, beat in list(record.beats.items()):
            if now - beat > PATIENCE:
                sys.stderr.write(f"{name} hangs\n")
                faulthandler.dump_traceback(all_threads=True)
                os._exit(3)
    faulthandler.cancel_dump_traceback_later()
    gc.collect()
