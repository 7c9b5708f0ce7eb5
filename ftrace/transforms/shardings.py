"""How arrays lie on devices: shardings, of a mesh and a spec, or of one device.

The devices of a mesh are the host's cores, seen as several: they share its memory. An
array that is divided over them lies there as one piece, and its parts are views.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from itertools import product
from typing import Any, cast

from ftrace.backends.base import Device
from ftrace.errors import ArgumentError, ShapeError, ShardingError, ValueRangeError
from ftrace.ground import processes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.tables import memo
from ftrace.trace.arrays.array import Array, given_sharding
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.backend import backend
from ftrace.trace.symbolic import same_size
from ftrace.transforms import meshes

Index = tuple[slice, ...]


#: What JAX's CPU says that it has: here all is the same memory.
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


class Sharding(metaclass=meshes.Interned):
    """Which part of an array is on which device: all of it on each, if not else said.

    Attributes:
      device_set: the devices.
      memory_kind: one of `MEMORY_KINDS`; None over a mesh without devices.
    """

    __slots__ = ()
    device_set: Any
    memory_kind: Any
    _key: Any  #: what makes one
    is_fully_replicated: Any = True

    def __post_init__(self) -> None:
        kind = self.memory_kind
        if kind is not None and kind not in MEMORY_KINDS:
            raise ValueRangeError(
                f"Got invalid memory kind: a device of the host can address the "
                f"following memory kinds: {', '.join(MEMORY_KINDS)}; got {kind!r}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._key

    def shard_shape(self, global_shape: Sequence[int]) -> Shape:
        """The shape of each part of an array of this shape."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """For each device where in an array its part is."""
        return dict.fromkeys(self.device_set, (slice(None),) * len(global_shape))

    def with_memory_kind(self, kind: str) -> Any:
        return replace(cast(Any, self), memory_kind=kind)

    @property
    def num_devices(self) -> int:
        return len(self.device_set)

    @property
    def addressable_devices(self) -> set[Device]:
        """Those of this process."""
        own = processes.index()
        return {d for d in self.device_set if d.process_index == own}

    @property
    def is_fully_addressable(self) -> bool:
        return len(self.addressable_devices) == len(self.device_set)

    @property
    def has_addressable_devices(self) -> bool:
        return len(self.addressable_devices) > 0

    def addressable_devices_indices_map(
        self, global_shape: Sequence[int]
    ) -> dict[Device, Index]:
        """`devices_indices_map`, of the devices of this process."""
        found, own = self.devices_indices_map(global_shape), self.addressable_devices
        return {device: index for device, index in found.items() if device in own}

    def rows(self, global_shape: Sequence[int]) -> list[tuple[Any, Index]]:
        """The rows of `devices_indices_map`, with numbers where devices are missing."""
        return list(self.devices_indices_map(global_shape).items())

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Do both put the parts of an array of so many axes on the same devices?"""
        sizes = [math.lcm(self.num_devices, other.num_devices)] * ndim
        same = self.rows(sizes) == other.rows(sizes)
        return same and self.memory_kind == other.memory_kind


@dataclass(frozen=True, eq=False)
class SingleDeviceSharding(Sharding):
    """All of an array on one device."""

    _device: Device
    memory_kind: str | None = field(default="device")

    @property
    def _key(self) -> tuple[Any, ...]:
        return self._device, self.memory_kind

    @property
    def device_set(self) -> set[Device]:
        return {self._device}

    def __repr__(self) -> str:
        return (
            f"SingleDeviceSharding(device={self._device!r}, "
            f"memory_kind={self.memory_kind})"
        )


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """All of an array on one device.

    Args:
      device: the device.
      memory_kind: the kind of its memory.
    """
    return SingleDeviceSharding(device, memory_kind or "device")


@dataclass(frozen=True, eq=False)
class NamedSharding(Sharding):
    """A mesh, and a spec in terms of its axes.

    Args:
      mesh: a mesh.
      spec: a `PartitionSpec`: per axis of an array the axes of the mesh that divide it.
      memory_kind: the kind of memory, by default the devices' own.

    Raises:
      ArgumentError: what should be a spec is none.
      ValueRangeError: the spec names an axis that the mesh has not, or one twice; there
        is no such kind of memory.

    Example:
      >>> mesh = ft.make_mesh((1,), ("x",))
      >>> x = ft.device_put(np.arange(4), ft.NamedSharding(mesh, ft.P("x")))
      >>> x.sharding.spec, len(x.addressable_shards)
      (P('x',), 1)
    """

    mesh: Any
    spec: meshes.PartitionSpec
    memory_kind: str | None = field(default=None)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.mesh, self.spec, self.memory_kind

    def __post_init__(self) -> None:
        if not isinstance(self.spec, meshes.PartitionSpec):
            raise ArgumentError(
                "NamedSharding takes a mesh and a PartitionSpec, in this order, got "
                f"{self.mesh!r} and {self.spec!r}"
            )
        if self.memory_kind is None and isinstance(self.mesh, meshes.Mesh):
            object.__setattr__(self, "memory_kind", "device")
        super().__post_init__()
        self._check_reduced()
        names = self.spec.names()
        for name in names:
            if name not in self.mesh.axis_names:
                raise ValueRangeError(
                    f"Resource axis: {name} of {self.spec} is not found in mesh: "
                    f"{self.mesh.axis_names}."
                )
        if len(set(names)) < len(names):
            raise ValueRangeError(
                f"A single NamedSharding may divide one axis of an array along an axis "
                f"of the mesh, but {self.spec} has duplicate entries"
            )

    def _check_reduced(self) -> None:
        for what in ("unreduced", "reduced"):
            for name in getattr(self.spec, what):
                if name not in self.mesh.axis_names:
                    raise ValueRangeError(
                        f"{what.capitalize()} axes {name!r} not found in mesh, which "
                        f"has {self.mesh.axis_names}"
                    )
                if name not in self.mesh.explicit_axes:
                    raise ValueRangeError(
                        f"{what.capitalize()} axes can only refer to mesh axes that "
                        f"are of type Explicit, got {self.spec} and {self.mesh}"
                    )

    def _count_shards(self, entry: Any) -> int:
        return math.prod(self.mesh.shape[name] for name in meshes.names_in(entry))

    @property
    def device_set(self) -> set[Device]:
        if not isinstance(self.mesh, meshes.Mesh):
            raise ShardingError(f"{self.mesh!r} has no devices")
        return set(self.mesh.devices.flat)

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raises where an array of this shape cannot be divided so."""
        self.shard_shape(aval_shape)

    def shard_shape(self, global_shape: Sequence[int]) -> Shape:
        if len(self.spec) > len(global_shape):
            raise ShapeError(
                f"Sharding {self} is only valid for values of rank at least "
                f"{len(self.spec)}, but was applied to a value of rank "
                f"{len(global_shape)}"
            )
        found = list(global_shape)
        for axis, entry in enumerate(self.spec):
            n, parts = found[axis], self._count_shards(entry)
            if n % parts:
                raise ShapeError(
                    f"One of the axes cannot be divided: axis {axis} of size {n} of an "
                    f"array of shape {tuple(global_shape)} along {entry!r}, into "
                    f"{parts} parts; {self}"
                )
            found[axis] = n // parts
        return tuple(found)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        return dict(self.rows(global_shape)) if self.device_set else {}

    def rows(self, global_shape: Sequence[int]) -> list[tuple[Any, Index]]:
        sizes, mesh = self.shard_shape(global_shape), self.mesh
        names = meshes.names_by_axis(self.spec, len(sizes))
        axes = [*zip(global_shape, sizes, names, strict=True)]
        places: Any = product(*map(range, mesh.axis_sizes))

        def part(n: int, size: int, names: Sequence[Any], where: Any) -> slice:
            number = 0
            for name in names:
                number = number * mesh.shape[name] + where[name]
            if same_size(size, n):
                return slice(None)
            return slice(number * size, (number + 1) * size)

        def index(place: Sequence[int]) -> Index:
            where = dict(zip(mesh.axis_names, place, strict=True))
            return tuple([part(*axis, where) for axis in axes])

        known = isinstance(mesh, meshes.Mesh)
        devices = mesh.devices.flat if known else range(mesh.size)
        return [*zip(devices, map(index, places), strict=True)]

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        whole = all(self._count_shards(entry) == 1 for entry in self.spec)
        return whole and not self.spec.unreduced

    def of_type(self, ndim: int) -> NamedSharding:
        """As the type of an array has it: along `Explicit` axes, each axis named."""
        known = self.mesh.explicit_axes
        every = meshes.names_by_axis(self.spec, ndim)
        entries = [tuple([n for n in names if n in known]) for names in every]
        return NamedSharding(self.mesh.abstract_mesh, meshes.PartitionSpec(*entries))

    def update(self, **kwargs: Any) -> NamedSharding:
        """The sharding with another `mesh`, `spec` or `memory_kind`."""
        return replace(self, **kwargs)

    def __repr__(self) -> str:
        return (
            f"NamedSharding(mesh={self.mesh}, spec={self.spec}, "
            f"memory_kind={self.memory_kind})"
        )


@dataclass(frozen=True)
class Layout:
    """In which order the axes of an array lie in memory.

    Attributes:
      major_to_minor: the axes, the one with the largest stride first.
      tiling: none.
      AUTO: any, where a layout is asked for.
    """

    AUTO = "AUTO"

    major_to_minor: tuple[int, ...]
    tiling: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Format:
    """How an array lies: the order of its axes, and on which devices."""

    layout: Layout | None = None
    sharding: Sharding | None = None


def check_rows(what: str, layout: Any, ndim: int) -> None:
    """Raises where a layout is not that of all arrays.

    Raises:
      ValueRangeError: another order of axes is asked for, or of more or fewer axes.
    """
    if layout is None or layout is Layout.AUTO:
        return
    order = tuple(layout.major_to_minor)
    if len(order) != ndim:
        raise ValueRangeError(
            f"{what}: Length of major_to_minor and the rank of the value should match, "
            f"got {order} for an array of {ndim} axes"
        )
    if order != tuple(range(ndim)):
        raise ValueRangeError(
            f"{what}: arrays lie row by row, {tuple(range(ndim))}, got {order}; "
            "transpose what is to lie in another order"
        )


def row_major(ndim: int, sharding: Sharding) -> Format:
    """How all arrays lie."""
    return Format(Layout(tuple(range(ndim))), sharding)


@dataclass(frozen=True, eq=False)
class Shard:
    """A part of an array.

    Attributes:
      device: where it is.
      sharding, global_shape: of the array.
      index: where in the array it is.
      replica_id: its number among the equal parts.
      whole: the array.
    """

    device: Device
    sharding: Sharding
    global_shape: Shape
    index: Index
    replica_id: int
    whole: Array

    @property
    def data(self) -> Any:
        """The part, an array on its device; None on one of another process."""
        if self.device not in self.sharding.addressable_devices:
            return None
        if not self.sharding.is_fully_addressable:
            whole: Any = self.whole
            return whole.shard_on(self.device)
        if self.sharding.num_devices == 1:
            return self.whole
        bare = getattr(self.whole, "bare", self.whole)
        return backend().device_put(bare[self.index], self.device)

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, "
            f"replica_id={self.replica_id}, data={self.data})"
        )


def sharding_of(array: Array | ShapedArray) -> Sharding:
    """How an array lies on devices: whole on one, unless another sharding was given."""
    if isinstance(array, ShapedArray):
        return NamedSharding(
            meshes.get_abstract_mesh(), meshes.PartitionSpec(*[None] * array.ndim)
        )
    return given_sharding(array) or SingleDeviceSharding(backend().device_of(array))


def shards_of(array: Array) -> list[Shard]:
    """The parts of an array, one for each device."""
    sharding, shape = sharding_of(array), array.shape
    rows = _list_shards(sharding, shape)
    return [Shard(row[0], sharding, shape, *row[1:], array) for row in rows]


@memo(1 << 8)
def _list_shards(sharding: Sharding, shape: Shape) -> list[tuple[Device, Index, int]]:
    """The devices, where their parts are, and their numbers among equal ones."""
    equal = Counter[str]()
    found: list[tuple[Device, Index, int]] = []
    for device, index in sharding.devices_indices_map(shape).items():
        key = repr(index)
        found.append((device, index, equal[key]))
        equal[key] += 1
    return found


class Placed(Array):
    """An array for which a sharding was given."""

    __slots__ = ("given_sharding",)

    given_sharding: Sharding
    committed = True

    @property
    def device(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The device that it is on; its sharding where there are several."""
        several = self.given_sharding.num_devices > 1
        return self.given_sharding if several else backend().device_of(self)

    def devices(self) -> set[Any]:
        return self.given_sharding.device_set

    @property
    def is_fully_addressable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.given_sharding.is_fully_addressable

    @property
    def global_shards(self) -> list[Shard]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The parts on all devices, also on those of other processes."""
        return shards_of(self)

    @property
    def addressable_shards(self) -> list[Shard]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The parts on devices of this process."""
        own = self.given_sharding.addressable_devices
        return [shard for shard in shards_of(self) if shard.device in own]

    @property
    def bare(self) -> Array:
        """The array, of which no sharding is known."""
        return Array(self.shape, self.dtype, self.weak_type, self.stored, self._host)

    def shard_on(self, device: Device) -> Any:
        """The part of a device of this process: all of it, if several have it."""
        return backend().device_put(self.bare, device)

    @property
    def is_fully_replicated(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.given_sharding.is_fully_replicated

    def unsafe_buffer_pointer(self) -> int:
        if self.given_sharding.num_devices > 1:
            raise ArgumentError(
                "unsafe_buffer_pointer: the array is over several devices; ask those "
                "of its addressable_shards"
            )
        return super().unsafe_buffer_pointer()

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        return with_sharding(super().__deepcopy__(memo), self.given_sharding)


def with_sharding(array: Array, sharding: Sharding) -> Array:
    """The array, which remembers that a sharding was given.

    Raises:
      ShapeError: the array cannot be divided so.
    """
    sharding.shard_shape(array.shape)
    Array.any_placed = True
    made = Placed(array.shape, array.dtype, array.weak_type, array.stored, array._host)  # pyright: ignore[reportPrivateUsage]
    made.given_sharding = sharding
    return made


def compute_device(sharding: Any) -> Device:
    """The device of a sharding that has the whole array, and runs programs on it.

    Raises:
      ShardingError: there are several, which do not share their memory, or one twice.
    """
    if sharding.num_devices != len(sharding.device_set):
        raise ShardingError(
            f"a device has one part of an array: {sharding} has one twice, in "
            f"{order_of(sharding)}; FTRACE_CPU_DEVICES sets how many there are"
        )
    found = sorted(sharding.addressable_devices, key=lambda device: device.id)
    if len(found) > 1 and {device.platform for device in found} != {"cpu"}:
        raise ShardingError(
            f"{sharding} is over {len(found)} devices that share no memory; a mesh is "
            "over devices of the host, or over one"
        )
    return found[0]


def order_of(place: Any) -> list[Device]:
    """The devices of a mesh or a sharding, in their order; none of abstract ones."""
    place = getattr(place, "sharding", place)  # of a format
    if isinstance(place, SingleDeviceSharding):
        return [*place.device_set]
    mesh = getattr(place, "mesh", place)
    return [*mesh.devices.flat] if isinstance(mesh, meshes.Mesh) else []


def check_together(places: Iterable[Any]) -> None:
    """Raises where meshes and shardings are not over the same devices.

    Raises:
      ShardingError: two are over others, or have them in another order.
    """
    known = [(place, order) for place in places if (order := order_of(place))]
    for place, order in known[1:]:
        if order != known[0][1]:
            raise ShardingError(
                "Received incompatible devices for jitted computation: the arrays and "
                "constraints of a program are over the same devices in the same order, "
                f"got {known[0][0]} of {known[0][1]} and {place} of {order}; move them "
                "to one mesh with device_put"
            )


def as_sharding(sharding: Any, what: str) -> Any:
    """A sharding; a spec alone is one over the mesh of this context.

    Raises:
      ArgumentError: it is neither.
      ShardingError: there is no such mesh, or it has no axes.
    """
    mesh = meshes.get_mesh()
    sharding = getattr(sharding, "sharding", sharding)  # of a format
    over = sharding.mesh if isinstance(sharding, NamedSharding) else None
    if isinstance(over, meshes.AbstractMesh) and over.shape_tuple == mesh.shape_tuple:
        over, sharding = mesh, NamedSharding(mesh, sharding.spec)
    if over is not None and over.empty:
        raise ShardingError(
            f"One of {what} leaf specifications got an empty NamedSharding: {sharding} "
            "which is not allowed; its mesh has no axes and no devices"
        )
    if isinstance(sharding, Sharding):
        return sharding
    if not isinstance(sharding, meshes.PartitionSpec):
        raise ArgumentError(
            f"{what}: a device, its name, a sharding or a PartitionSpec is required, "
            f"got {sharding!r}"
        )
    if mesh.empty:
        raise ShardingError(
            f"{what} requires a non-empty mesh in context for a PartitionSpec; name "
            "one with `with ftrace.set_mesh(mesh)`, or give a NamedSharding"
        )
    return NamedSharding(mesh, sharding)
