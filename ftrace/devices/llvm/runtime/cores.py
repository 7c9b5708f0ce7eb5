"""The cores of this machine that the process may use, and whether threads are shared.

What is known at the start of a process is here; the pool that uses them is `pool.py`.
"""

from __future__ import annotations

import math
import os

from ftrace.settings import MAX_THREADS


def has_threads() -> bool:
    """Workers need POSIX threads; elsewhere every job runs on its caller's thread."""
    return os.name == "posix"


def available_cores() -> int:
    """The cores that this process may use, by affinity and by its share of time."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _share_of_time(), MAX_THREADS))


def _share_of_time() -> int:
    """What a container's quota allows (cgroup v2: "quota period", or "max")."""
    try:
        with open("/sys/fs/cgroup/cpu.max", "rb", buffering=0) as file:
            quota, period = file.read().split()
        return max(1, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        return MAX_THREADS
