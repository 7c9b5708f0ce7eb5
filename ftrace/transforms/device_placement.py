"""Where arrays are: devices, and moving arrays between them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from ftrace.backends.base import Counters, Device, get_device, live_devices
from ftrace.ground import settings
from ftrace.trace.arrays.array import Array, is_array, surface
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer


def devices(backend: str | None = None) -> list[Device]:
    """The devices of a backend ("cpu", "interpreter", "opencl"); one each."""
    return [get_device(backend)]


def device_count(backend: str | None = None) -> int:
    """How many devices a backend has."""
    return len(devices(backend))


def default_device(device: str | Device) -> AbstractContextManager[Device]:
    """Inside the block programs run on `device`, unless their arguments say else.

    Raises:
      DeviceError: there is no such device.
    """
    return _within(get_device(device))


@contextmanager
def _within(chosen: Device) -> Generator[Device, None, None]:
    with settings.config(device=chosen.name):
        yield chosen


def device_put(x: Any, device: str | Device | None = None, **_: Any) -> Any:
    """The arrays of a tree on a device: shared where the memory is the same.

    Raises:
      ArgumentError: the tree holds something else than arrays and numbers.
    """
    chosen = get_device(device)
    return tree.map(lambda leaf: _put(leaf, chosen), x)


def _put(value: Any, device: Device) -> Any:
    if isinstance(value, Tracer):
        return value
    array = asarray(value)
    if array.memory is device:
        return array
    buffer = array.buffer if array.memory.host and device.host else None
    if buffer is None or array.memory is not device:
        buffer = device.copy_in(array.numpy())
    return Array(array.shape, array.dtype, array.weak_type, buffer)


def device_get(x: Any) -> Any:
    """The arrays of a tree as NumPy arrays."""
    return tree.map(lambda v: np.asarray(v) if is_array(v) else v, x)


def block_until_ready(x: Any) -> Any:
    """Waits until the arrays of a tree have been computed; returns the tree."""
    for leaf in tree.leaves(x):
        if is_array(leaf) and isinstance(leaf.memory, Device):
            leaf.memory.synchronize()
    return x


def counters(device: str | Device | None = None) -> Counters:
    """What a device has done: kernels, operations, bytes, seconds."""
    return get_device(device).counters


def all_counters() -> dict[str, Counters]:
    """The counters of every device that was used in this process."""
    return {device.name: device.counters for device in live_devices()}


def _device_of(array: Array) -> Device:
    memory = array.memory
    return memory if isinstance(memory, Device) else get_device("cpu")


surface.update(
    device_of=_device_of,
    block_until_ready=block_until_ready,
    device_put=device_put,
    devices=devices,
)
