"""Where a program runs: its processes, their devices, and the arrays on them."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.backends.base import Device, get_device
from ftrace.ground import VERSION, processes
from ftrace.trace.arrays.array import Array, given_sharding, is_array
from ftrace.trace.avals import ArrayOverMesh, ShapedArray
from ftrace.trace.calls.varying import varying_here
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.pytree import tree
from ftrace.trace.references import AbstractRef, Ref
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer, aval_of, is_value
from ftrace.transforms.device_placement import device_put, devices
from ftrace.transforms.meshes import Mesh, PartitionSpec
from ftrace.transforms.shardings import NamedSharding, SingleDeviceSharding, as_sharding

_TUPLE: type[Any] = tuple


def typeof(x: Any) -> ShapedArray | AbstractRef:
    """The type of an array, a reference, or a struct: shape, dtype, weakness.

    Within `shard_map` with check_vma its `mat.varying` has the names of the axes along
    which devices have values of their own. Of an array over `Explicit` axes of a mesh
    it says which axes these divide, `f32[8@x,16]`; types in traces do not.

    Args:
      x: an array, a reference, a number, or a struct.

    Raises:
      ArgumentError: it is none.

    Example:
      >>> ft.typeof(fnp.zeros((2, 3))), ft.typeof(1.0)
      (f32[2,3], f32~[])
    """
    if isinstance(x, Ref):
        return x.aval
    aval = aval_of(x) if is_value(x) or not hasattr(x, "dtype") else type_of(x)
    along = varying_here()
    names = frozenset([a.name for a in along.axes_named(along.of(x))] if along else ())
    given = given_sharding(x)
    explicit = getattr(getattr(given, "mesh", None), "explicit_axes", ())
    sharding = given.of_type(aval.ndim) if given and explicit else None
    return ArrayOverMesh.over(aval, names, sharding) if names or sharding else aval


# Devices.


def default_backend() -> str:
    """The platform of the default device: "cpu" unless a setting says else."""
    return get_device().platform


def local_devices(
    process_index: int | None = None, backend: str | None = None,
    host_id: int | None = None,
) -> list[Device]:  # fmt: skip
    """The devices of a process, by default this one: all of a backend.

    Args:
      process_index, host_id: the number of the process, by either name.
      backend: as of `devices`.

    Raises:
      ValueRangeError: there is no such process.
    """
    chosen = processes.index() if process_index is None else process_index
    chosen = chosen if host_id is None else host_id
    if not 0 <= chosen < processes.count():
        raise errors.ValueRangeError(
            f"local_devices: there are {processes.count()} processes, from 0 on, got "
            f"{chosen}"
        )
    return [d for d in devices(backend) if d.process_index == chosen]


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has.

    Args:
      backend: as of `devices`.
    """
    return len(local_devices(backend=backend))


def live_arrays(platform: str | None = None) -> list[Array]:
    """The arrays that somebody still holds, on a platform or on any."""
    found = [x for x in gc.get_objects() if is_array(x) and not x.is_deleted()]
    return [x for x in found if platform in (None, x.device.platform)]


def copy_to_host_async(x: Any) -> Any:
    """Begins to bring the arrays of a tree to the host; returns the tree.

    Args:
      x: a pytree of arrays.
    """
    for leaf in tree.leaves(x):
        begin = getattr(leaf, "copy_to_host_async", None)
        if begin is not None:
            begin()
    return x


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Device]) -> Any:
    """Trees of arrays, one for each device, stacked along a new axis.

    Args:
      shards: trees of arrays of one structure.
      devices: where to, one for each.

    Raises:
      ValueRangeError: there are more or less trees than devices, or none.
    """
    if len(shards) != len(devices) or not devices:
        raise errors.ValueRangeError(
            f"device_put_sharded: as many trees as devices, got {len(shards)} trees "
            f"for {len(devices)} devices"
        )

    def put(*leaves: Any) -> Any:
        return _along_devices(np.stack([np.asarray(x) for x in leaves]), devices)

    return tree.map(put, *shards)


def _along_devices(stacked: Any, devices: Sequence[Device]) -> Any:
    mesh = Mesh(devices, ("_devices",))
    return device_put(stacked, NamedSharding(mesh, PartitionSpec("_devices")))


def device_put_replicated(x: Any, devices: Sequence[Device]) -> Any:
    """The arrays of a tree, once for each device along a new axis.

    Args:
      x: a pytree of arrays.
      devices: where to.

    Raises:
      ValueRangeError: there are no devices.
    """
    if not devices:
        raise errors.ValueRangeError(
            "device_put_replicated: there must be devices, got none"
        )

    def put(leaf: Any) -> Any:
        return _along_devices(asarray(leaf)[None].repeat(len(devices), 0), devices)

    return tree.map(put, x)


# Processes.


def process_index(backend: str | None = None) -> int:
    """The number of this process.

    Args:
      backend: accepted, without effect.
    """
    return processes.index()


def process_count(backend: str | None = None) -> int:
    """How many processes there are.

    Args:
      backend: accepted, without effect.
    """
    return processes.count()


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes.

    Args:
      backend: accepted, without effect.
    """
    return [*range(processes.count())]


host_id, host_count, host_ids = process_index, process_count, process_indices


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints versions, the machine and the devices; for reports of problems.

    Args:
      return_string: returns the text instead of printing it.
    """
    lines: dict[str, Any] = {
        "ftrace": VERSION,
        "numpy": metadata.version("numpy"),
        "python": sys.version.replace("\n", " "),
        "device info": f"{devices()[0]!r}, {local_device_count()} local devices",
        "process_count": f"{process_count()}",
        "platform": f"{platform.uname()}",
        "cores": f"{os.cpu_count()}",
    }
    text = "\n".join(f"{name}: {value}" for name, value in lines.items())
    if return_string:
        return text
    sys.stdout.write(f"{text}\n")
    return None


# Arrays from their parts.


def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[Any], Any],
    dtype: Any = None,
) -> Array:  # fmt: skip
    """An array whose parts a function of their index gives.

    Args:
      shape: of the whole array.
      sharding: which part is where; or a format with it.
      data_callback: from a tuple of slices to what is there.
      dtype: of the array; by default that of the data.

    Raises:
      ShapeError: a part has not the shape that the sharding says.
      UnexpectedTracerError: a part is not known while tracing.
      ValueRangeError: a part has another dtype than the array.
    """
    shape, sharding = tuple(shape), getattr(sharding, "sharding", sharding)
    parts: list[tuple[Any, Any, Array]] = []
    places = sharding.addressable_devices_indices_map(shape)
    for device, index in places.items():
        data = data_callback(index)
        if isinstance(data, Tracer):
            raise errors.UnexpectedTracerError(
                "jax.make_array_from_callback cannot be called within a traced context:"
                f" a part is of type {data.aval}, and not known; use device_put there"
            )
        part = asarray(data if is_value(data) else np.asarray(data, dtype))
        _check_dtype("make_array_from_callback", part, dtype)
        parts.append((device, index, part))
    return _of_parts("make_array_from_callback", shape, sharding, parts)


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Arrays of what each process has of them.

    Args:
      sharding: which part is where.
      local_data: a pytree of arrays: the parts of this process's devices, in order; or
        the whole arrays, if `global_shape` is their shape.
      global_shape: the shapes of the whole arrays, in a tuple for all or a tree; None
        stands for the size that the data of all processes have together.

    Raises:
      ShapeError: a shape is another one.
    """
    what = "make_array_from_process_local_data"
    if isinstance(sharding, Device):
        sharding = SingleDeviceSharding(sharding)
    sharding = as_sharding(sharding, what)
    leaves, treedef = tree.flatten(local_data)
    shapes = [global_shape] * len(leaves)
    if not isinstance(global_shape, (_TUPLE, type(None))):
        shapes, wanted = tree.flatten(global_shape, lambda x: isinstance(x, _TUPLE))
        if wanted != treedef:
            raise errors.ShapeError(
                f"{what}: the shapes are those of {tree.readable(wanted)}, not "
                f"{tree.readable(treedef)}"
            )
    made: list[Array] = []
    for data, shape in zip(leaves, shapes, strict=True):
        array = asarray(np.asarray(data))
        own = _own_shape(what, sharding, array.shape, shape)
        if own is None:
            made.append(device_put(array, sharding))
        else:
            _check_shard(what, array.shape, own)
            made.append(_spanning().of_process(array, sharding))
    return tree.unflatten(treedef, made)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Array:
    """An array of its parts, one for each device of the sharding.

    Args:
      shape: of the whole array.
      sharding: which part is where.
      arrays: the parts, in the order of its devices.
      dtype: of the array, where this process has no part.

    Raises:
      ArgumentError: the parts are no list or tuple of arrays.
      ShapeError: a part has not the shape that the sharding says.
      ValueRangeError: there are more or less parts, traced ones, of another dtype, on
        other devices, or over several.
    """
    what = "make_array_from_single_device_arrays"
    if not isinstance(arrays, tree.SEQUENCES):
        raise errors.ArgumentError(
            f"jax.{what} `arrays` argument must be a list or tuple, got "
            f"{type(arrays).__name__}"
        )
    known = [x for x in arrays if is_array(x)]
    for x in arrays:
        if not is_array(x) and not isinstance(x, Tracer):
            raise errors.ArgumentError(
                f"{what}: parts are arrays on devices, got {type(x).__name__}; put it "
                "on one with ftrace.device_put"
            )
        if is_array(x) and len(x.devices()) > 1:
            raise errors.ValueRangeError(
                f"{what}: a part must be on one device, and is on {len(x.devices())}"
            )
    own = len(sharding.addressable_devices)
    if not len(known) == len(arrays) == own:
        raise errors.ValueRangeError(
            f"{what}: the sharding has {own} devices in this process, and each needs "
            f"one array, got {len(arrays)} arrays"
            + (", some of them traced" if len(known) < len(arrays) else "")
        )
    places = sharding.devices_indices_map(tuple(shape))
    parts = [(part.device, places.get(part.device), part) for part in known]
    if len({part.device for part in known}) < len(known):
        raise errors.ValueRangeError(
            f"{what}: the parts must be on distinct devices, got "
            f"{[part.device for part in known]}"
        )
    for _, index, part in parts:
        _check_dtype(what, part, dtype)
        if index is None:
            raise errors.ValueRangeError(
                f"{what}: a part is on {part.device}, which is no device of {sharding}"
            )
    return _of_parts(what, tuple(shape), sharding, parts)


def _of_parts(
    what: str, shape: tuple[int, ...], sharding: Any,
    parts: Sequence[tuple[Any, Any, Array]],
) -> Array:  # fmt: skip
    """The array that has these parts, each on a device, at these indices."""
    for *_, part in parts:
        _check_shard(what, part.shape, sharding.shard_shape(shape))
    if not sharding.is_fully_addressable:
        known = {repr(index): np.asarray(part) for _, index, part in parts}

        def at(index: Any) -> Any:
            return known[repr(index)]

        return _spanning().of_indices(sharding, shape, parts[0][2].dtype, at)
    whole: Any = parts[0][2]
    if len(parts) > 1:
        whole = np.empty(shape, whole.dtype)
        for _, index, part in parts:
            whole[index] = np.asarray(part)
    return device_put(whole, sharding)


def _spanning() -> Any:
    """Arrays over several processes: most programs need none."""
    return import_module("ftrace.transforms.partition.spanning")


def _own_shape(what: str, sharding: Any, got: Any, wanted: Any) -> Any:
    """The shape of what a process has of an array; None where it is the whole."""
    if len(wanted or got) != len(got):
        raise errors.ShapeError(
            f"{what}: global_shape has a size for each axis of the data, which have "
            f"shape {got}; got {wanted}"
        )
    pairs = zip(got, wanted or got, strict=True)
    if sharding.is_fully_addressable:
        _check_shard(what, got, [n if m is None else m for n, m in pairs])
        return None
    if wanted is None:
        return got
    spanning = _spanning()
    ones = spanning.shape_of_all(sharding, got)
    whole = [n if m is None else m for n, m in zip(ones, wanted, strict=True)]
    sharding.shard_shape(whole)
    same = tuple(got) == tuple(whole)
    return None if same else spanning.shape_of_process(sharding, whole)


def _check_dtype(what: str, part: Array, dtype: Any) -> None:
    if dtype is not None and part.dtype != dtypes.as_dtype(dtype):
        raise errors.ValueRangeError(
            f"{what}: If `dtype` is provided, it must match the dtype of the "
            f"addressable shards, which is {part.dtype}; got {dtype!r}"
        )


def _check_shard(what: str, got: Sequence[int], wanted: Sequence[int]) -> None:
    if tuple(got) != tuple(wanted):
        raise errors.ShapeError(f"{what}: a part must have shape {wanted}, got {got}")
