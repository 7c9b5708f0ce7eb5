"""What `test_processes.py` starts in several processes: all of `CHECKS`, in order."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace import errors
from ftrace.experimental import multihost_utils as hosts
from ftrace.ground import processes

ft.distributed.initialize()
RANK, COUNT = ft.process_index(), ft.process_count()
LOCAL = ft.local_device_count()
CHECKS: list[Any] = []


def check(function: Any) -> Any:
    CHECKS.append(function)
    return function


def equal(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def raises(kind: Any, match: str, function: Any) -> None:
    with pytest.raises(kind, match=re.escape(match)):
        function()


@check
def devices_have_numbers_and_processes() -> None:
    devices, own = ft.devices(), ft.local_devices()
    assert ft.device_count() == len(devices) == COUNT * LOCAL
    assert [d.id for d in devices] == [*range(COUNT * LOCAL)]
    assert [d.process_index for d in devices] == [
        i // LOCAL for i in range(len(devices))
    ]
    assert [d.process_index for d in own] == [RANK] * LOCAL
    assert ft.local_devices((RANK + 1) % COUNT)[0] not in own
    assert ft.process_indices() == [*range(COUNT)]
    raises(errors.ValueRangeError, "processes", lambda: ft.local_devices(COUNT))
    other = ft.local_devices((RANK + 1) % COUNT)[0]
    raises(errors.DeviceError, "not addressable", lambda: ft.device_put(1.0, other))
    raises(errors.DeviceError, "only be called once", ft.distributed.initialize)


@check
def values_of_all_processes_come_together() -> None:
    x = np.arange(3, dtype=np.float32) + 10 * RANK
    rows = np.arange(3) + 10 * np.arange(COUNT)[:, None]
    equal(hosts.process_allgather({"a": x})["a"], rows)
    equal(hosts.process_allgather(x, tiled=True), rows.ravel())
    equal(hosts.process_allgather(np.float64(RANK)), range(COUNT))
    equal(hosts.broadcast_one_to_all(x), rows[0])
    equal(hosts.broadcast_one_to_all(x, RANK == COUNT - 1), rows[-1])
    hosts.sync_global_devices("here")
    hosts.assert_equal([np.ones(2), "a"])
    disagree = errors.ProcessError
    raises(disagree, "+int64[", lambda: hosts.process_allgather(np.arange(RANK + 1)))
    raises(disagree, "disagree in sync", lambda: hosts.sync_global_devices(f"{RANK}"))
    raises(
        disagree, "my words", lambda: hosts.assert_equal(np.full(2, RANK), "my words")
    )
    twice = errors.ValueRangeError
    raises(twice, "one process", lambda: hosts.broadcast_one_to_all(x, True))


@check
def sums_are_added_in_the_order_of_the_processes() -> None:
    everyone = processes.everyone()
    for size in (0, 1, 5, 5000, 100_003):
        parts = [
            np.random.default_rng(i).normal(size=size).astype(np.float32)
            for i in range(COUNT)
        ]
        wanted = parts[0]
        for part in parts[1:]:
            wanted = wanted + part
        equal(everyone.combine(np.add, parts[RANK]), wanted)
        equal(everyone.combine(np.maximum, parts[RANK]), np.max(parts, 0))
    rows = np.arange(COUNT * 2.0).reshape(COUNT, 2) + 100 * RANK
    every = [np.arange(COUNT * 2.0).reshape(COUNT, 2) + 100 * i for i in range(COUNT)]
    equal(everyone.exchange(rows), [x[RANK] for x in every])
    equal(everyone.combine_parts(np.add, rows), sum(every)[RANK])


def goes_wrong(way: str) -> None:
    """Process 1 does not do what process 0 does."""
    if RANK == 1 and way == "raises":
        raise ValueError("not this one")
    if RANK == 1 and way == "leaves":
        sys.exit()
    if RANK == 1 and way == "sleeps":
        time.sleep(30)
    hosts.process_allgather(np.arange(3 + RANK * (way == "differs")))
    hosts.sync_global_devices("in vain")


if sys.argv[1:]:
    goes_wrong(sys.argv[1])
for function in CHECKS:
    try:
        function()
    except Exception:
        sys.stderr.write(f"{function.__name__} does not hold\n")
        raise
sys.stdout.write("all hold\n")
