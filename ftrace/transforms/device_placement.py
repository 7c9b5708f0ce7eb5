"""Where arrays are: devices, and moving arrays between them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from enum import Enum
from importlib import import_module
from typing import Any, cast

import numpy as np

from ftrace import dtypes
from ftrace.backends import base
from ftrace.errors import ArgumentError
from ftrace.ground import processes, settings
from ftrace.trace.arrays.array import Array, given_sharding, is_array
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer, aval_of


def devices(backend: str | None = None) -> list[base.Device]:
    """The devices of a backend.

    Args:
      backend: "cpu", "interpreter" (NumPy) or "opencl"; by default that of the default
        device.

    Raises:
      DeviceError: there is no such backend, or it has no device here.

    Example:
      >>> ft.devices("cpu")
      [<device cpu>]
    """
    return base.devices_of(backend)


def device_count(backend: str | None = None) -> int:
    """How many devices a backend has.

    Args:
      backend: as of `devices`.

    Raises:
      DeviceError: there is no such backend, or it has no device here.

    Example:
      >>> ft.device_count("interpreter")
      1
    """
    return len(devices(backend))


def default_device(device: str | base.Device) -> AbstractContextManager[base.Device]:
    """Inside the block programs run on `device`, unless their arguments say else.

    Args:
      device: a device, or its name: "cpu", "interpreter", "opencl", "opencl:1".

    Raises:
      DeviceError: there is no such device.

    Example:
      >>> with ft.default_device("interpreter"):
      ...     y = ft.jit(fnp.sin)(0.0)
      >>> y
      Array(0., dtype=float32, weak_type=True)
    """
    return _within(base.get_device(device))


@contextmanager
def _within(chosen: base.Device) -> Generator[base.Device, None, None]:
    with settings.config(device=chosen.name):
        yield chosen


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False,
    may_alias: Any = None,
) -> Any:  # fmt: skip
    """The arrays of a tree on a device: shared where the memory is the same.

    Args:
      x: a pytree of arrays.
      device: a device, its name, a sharding, or a prefix of the tree of them. A
        `PartitionSpec` is meant along the mesh of `set_mesh`. None leaves arrays where
        they are, and puts what is none on the default device.
      may_alias: False copies the arrays.
      src, donate: accepted for JAX's sake.

    Returns:
      A tree of the same structure, of `Array`s.

    Raises:
      ArgumentError: the tree holds something else than arrays and numbers, or is given
        up and shared at once; `device` is no place.
      DeviceError: a mesh has several devices.
      ShapeError: an array cannot be divided as a sharding says.

    Example:
      >>> ft.device_put({"w": np.zeros(2, np.float32), "b": np.ones(1)})
      {'w': Array([0., 0.], dtype=float32), 'b': Array([1.], dtype=float64)}
      >>> ft.device_put(np.arange(3), "interpreter").device
      <device interpreter>
    """
    shared = tree.leaves(may_alias)
    if True in shared and True in tree.leaves(donate):
        raise ArgumentError("device_put: what is donated cannot be shared (may_alias)")
    if False in shared:
        x = tree.map_prefix(_alias_or_copy, x, may_alias, "device_put: may_alias")
    if device is None or isinstance(device, (str, base.Device)):
        return tree.map(lambda leaf: put_by(leaf, device), x)
    return tree.map_prefix(put_by, x, device, "device_put: device")


def _alias_or_copy(leaf: Any, shared: Any) -> Any:
    if shared is not False:
        return leaf
    return deepcopy(asarray(leaf) if isinstance(leaf, np.ndarray) else leaf)


def place_tree(x: Any, places: Any, what: str) -> Any:
    """The arrays of a tree where a prefix of it says; None says nothing."""
    return tree.map_prefix(
        lambda leaf, at: leaf if at is None else put_by(leaf, at, what), x, places, what
    )


def _shardings() -> Any:
    """Meshes and shardings: most programs need none."""
    return import_module("ftrace.transforms.shardings")


def format_of(array: Array) -> Any:
    """How the elements lie: row-major."""
    return _shardings().row_major(array.ndim, array.sharding)


def lead_of(places: Sequence[Any]) -> base.Device | None:
    """The first device of the last of several shardings that names one.

    Raises:
      ShardingError: they are over different devices.
    """
    if len(places) > 1:
        _shardings().check_together(places)
    return next(filter(None, map(lead_device, reversed(places))), None)


def lead_device(place: Any, what: str = "jit") -> base.Device | None:
    """The first device of a sharding or a spec, or of its name; None if none is said.

    Of one over several processes it is None: all of them run the program.

    Raises:
      DeviceError: there are several, which share no memory.
    """
    place = getattr(place, "sharding", place)  # of a format
    if place is None or isinstance(place, Enum):
        return None
    if isinstance(place, (str, base.Device)):
        return base.get_device(place)
    shardings = _shardings()
    sharding = shardings.as_sharding(place, what)
    return shardings.compute_device(sharding) if sharding.is_fully_addressable else None


def put_by(
    value: Any, place: Any, what: str = "device_put", free: frozenset[Any] = frozenset()
) -> Any:
    """A value where a device, its name, a sharding, a spec or a format says.

    Args:
      free: axes of a mesh along which a traced value is as it was.
    """
    if hasattr(place, "layout"):
        _shardings().check_rows(what, place.layout, aval_of(value).ndim)
        place = place.sharding
    if place is None:
        return value if is_array(value) else _put(value, base.get_device())
    if isinstance(place, (str, base.Device)):
        device = base.get_device(place)
        array = _put(value, device)
        if isinstance(array, Tracer) or not is_choice(device):
            return array
        shardings = _shardings()
        return shardings.with_sharding(array, shardings.SingleDeviceSharding(device))
    if isinstance(place, Enum):  # a kind of memory: there is one
        return _put(value, base.get_device())
    shardings = _shardings()
    sharding = shardings.as_sharding(place, what)
    if given_sharding(value) == sharding and not value.is_deleted():
        return value
    if not (isinstance(value, Tracer) or sharding.is_fully_addressable):
        spanning = import_module("ftrace.transforms.partition.spanning")
        return spanning.put(value, sharding)
    array = _put(value, shardings.compute_device(sharding))
    if isinstance(array, Tracer):
        partition = import_module("ftrace.transforms.partition.partition")
        exact = what != "with_sharding_constraint"
        why = {"jit: in_shardings": "argument", "device_put": "put"}.get(what, "")
        return partition.constrain(array, sharding, exact, why, free)
    return shardings.with_sharding(array, sharding)


def is_choice(device: base.Device) -> bool:
    """Might arrays be elsewhere, so that those put there have to know it?"""
    alone = len(base.own_devices(device.platform)) * processes.count() == 1
    return not (device.host and alone)


def is_first(device: base.Device) -> bool:
    """Is it the first of its platform, where arrays lie that nobody has placed?"""
    return device is base.own_devices(device.platform)[0]


def _put(value: Any, device: base.Device) -> Any:
    """The array on one device, where it may run or not."""
    if isinstance(value, Tracer):
        return value
    # Of a scalar of NumPy's an array of one element, as `fnp.asarray` makes it.
    if isinstance(value, np.generic):
        value = np.asarray(cast(Any, value))
    array = asarray(value)
    if array.memory is device and type(array) is Array:
        return array
    buffer = array.buffer if array.memory.host and device.host else None
    if buffer is None or array.memory is not device:
        buffer = array.buffer_on(device)
    return Array(array.shape, array.dtype, array.weak_type, buffer)


def device_get(x: Any) -> Any:
    """The arrays of a tree as NumPy arrays; those of random keys as they are.

    Args:
      x: a pytree of arrays.

    Example:
      >>> ft.device_get({"w": fnp.array([1.0, 2.0]), "name": "dense"})
      {'w': array([1., 2.], dtype=float32), 'name': 'dense'}
    """

    def fetch(v: Any) -> Any:
        return np.asarray(v) if is_array(v) and not dtypes.is_key(v.dtype) else v

    return tree.map(fetch, x)


def block_until_ready(x: Any) -> Any:
    """Waits until the arrays of a tree have been computed; returns the tree.

    Args:
      x: a pytree of arrays.

    Example:
      >>> y = ft.block_until_ready(ft.jit(fnp.exp)(fnp.ones(1000)))
    """
    for leaf in tree.leaves(x):
        if is_array(leaf) and isinstance(leaf.memory, base.Device):
            leaf.memory.synchronize()
    return x


def counters(device: str | base.Device | None = None) -> base.Counters:
    """What a device has done: kernels, operations, bytes, seconds."""
    return base.get_device(device).counters


def all_counters() -> dict[str, base.Counters]:
    """The counters of every device that was used in this process."""
    return {device.name: device.counters for device in base.live_devices()}


def device_of(array: Array) -> Any:
    """The device of an array, or what runs programs on arrays over processes."""
    if processes.count() > 1 and not array.is_fully_addressable:
        return import_module("ftrace.transforms.partition.spanning").PROCESSES
    memory = array.memory
    return memory if isinstance(memory, base.Device) else base.get_device("cpu")
