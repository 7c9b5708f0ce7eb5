"""Meshes: devices along axes with names; and specs that name these axes.

A spec says along which of them each axis of an array is divided.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ftrace.backends.base import Device, devices_of
from ftrace.errors import ArgumentError, TracingError, ValueRangeError
from ftrace.ground import processes
from ftrace.ground.fast_dataclasses import Immutable, dataclass
from ftrace.ground.settings import change_here, current
from ftrace.ground.weak_tables import WeakValues
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.graph import Graph, arguments_in
from ftrace.trace.primitives.elementwise import Constraint
from ftrace.trace.primitives.exchange import Spread
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import stack


class Interned(type):
    """Makes those that have the same key one object: they are compared as such."""

    known: ClassVar[WeakValues[Any, Any]] = WeakValues()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made: Any = super().__call__(*args, **kwargs)
        return cls.known.keep((cls, made._key), made)


class AxisType(Enum):
    """Who decides how arrays are divided along an axis of a mesh."""

    Auto = 1
    Explicit = 2
    Manual = 3

    def __repr__(self) -> str:
        return self.name


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"


def _entry(part: Any) -> Any:
    """One entry of a spec: of one name that name, of none None."""
    if not isinstance(part, tree.SEQUENCES):
        return part
    names = tuple(part)
    for name in names:
        if isinstance(name, tree.SEQUENCES):
            raise ValueRangeError(
                f"A tuple inside PartitionSpec cannot contain a nested tuple: a name, "
                f"or a tuple of names divides an axis, got {part!r}"
            )
    return names if len(names) > 1 else names[0] if names else None


class PartitionSpec(Immutable, metaclass=Interned):
    """For each axis of an array the axes of a mesh along which it is divided.

    Args:
      partitions: per axis a name, a tuple of names, or None; further axes are whole.
      unreduced, reduced: names of axes along which a sum is still to be taken, or has
        been.

    Raises:
      ValueRangeError: a tuple of names holds a tuple, or an axis that divides the array
        is one along which a sum is still to be taken.
    """

    __slots__ = ("__weakref__", "partitions", "reduced", "unreduced")

    UNCONSTRAINED = _Unconstrained()

    def __init__(
        self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> None:
        self.partitions = tuple(map(_entry, partitions))
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)
        for what in ("unreduced", "reduced"):
            found = getattr(self, what)
            if None in found:
                raise ValueRangeError(f"{what} cannot contain None, got {set(found)}")
            if found & {*self.names()}:
                raise ValueRangeError(
                    f"partitions cannot overlap with {what} axes, got "
                    f"{self.partitions} and {what}={set(found)}"
                )

    def __init_subclass__(cls) -> None:
        raise ArgumentError("Subclassing `jax.P` is prohibited: write a function")

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.partitions, self.unreduced, self.reduced

    def __reduce__(self) -> tuple[Any, ...]:
        return _spec_of, self._key

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, index: Any) -> Any:
        return self.partitions[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        return self._join("__add__", (*self, *other), other)

    def __radd__(self, other: Any) -> PartitionSpec:
        return self._join("__radd__", (*other, *self), other)

    def _join(self, what: str, parts: tuple[Any, ...], other: Any) -> PartitionSpec:
        sets: Any = self.unreduced, self.reduced
        if isinstance(other, PartitionSpec):
            sets = self.unreduced | other.unreduced, self.reduced | other.reduced
        elif any(sets):
            raise ArgumentError(
                f"unreduced in `{what}` of PartitionSpec takes another PartitionSpec, "
                f"got {other!r} beside {self}"
            )
        return _spec_of(parts, *sets)

    def index(self, value: Any) -> int:
        """The first axis that is divided so."""
        return self.partitions.index(value)

    def count(self, value: Any) -> int:
        """How many axes are divided so."""
        return self.partitions.count(value)

    def update(self, **kwargs: Any) -> PartitionSpec:
        """The spec with other `partitions`, `unreduced` or `reduced`."""
        parts = kwargs.pop("partitions", self.partitions)
        sets = {"unreduced": self.unreduced, "reduced": self.reduced, **kwargs}
        return PartitionSpec(*parts, **sets)

    def names(self) -> list[Any]:
        """The axes of the mesh that it names, one after the other."""
        return [name for part in self for name in names_in(part)]

    def __repr__(self) -> str:
        sets = [
            f"{what}={set(found)!r}"
            for what in ("unreduced", "reduced")
            if (found := getattr(self, what))
        ]
        parts = [repr(x) for x in self]
        comma = "," if len(parts) == 1 and not sets else ""
        return f"P({', '.join([*parts, *sets])}{comma})"


def _spec_of(parts: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*parts, unreduced=unreduced, reduced=reduced)


#: JAX's short name for it.
P = PartitionSpec


def names_in(part: Any) -> tuple[Any, ...]:
    """The names in one entry of a spec."""
    if part is None or part is PartitionSpec.UNCONSTRAINED:
        return ()
    return part if isinstance(part, tree.SEQUENCES) else (part,)


def names_by_axis(spec: Any, ndim: int, open_as: Any = ()) -> tuple[Any, ...]:
    """The names of each of so many axes.

    Args:
      open_as: what stands for an axis that is UNCONSTRAINED.
    """
    entries = [
        open_as if part is PartitionSpec.UNCONSTRAINED else names_in(part)
        for part in spec
    ]
    return (*entries, *[()] * (ndim - len(entries)))


# Meshes.


def _of_type(kind: AxisType) -> tuple[Any, Any]:
    """The names of the axes of a type, and whether there are no others."""

    def names_of(self: _Axes) -> tuple[Any, ...]:
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple([name for name, own in pairs if own is kind])

    def are_all(self: _Axes) -> bool:
        some = kind is AxisType.Auto or len(self.axis_names) > 0
        return some and len(names_of(self)) == len(self.axis_names)

    return property(names_of), property(are_all)


class _Axes(Immutable, metaclass=Interned):
    """What meshes share: axes with names, sizes and types."""

    __slots__ = ("__weakref__", "axis_names", "axis_sizes", "axis_types")

    #: What makes one.
    arguments: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    axis_names: tuple[Any, ...]
    axis_types: tuple[AxisType, ...]

    def __init__(self, sizes: Sequence[int], names: Any, types: Any) -> None:
        self.axis_sizes = tuple(sizes)
        self.axis_names = _names(names, len(self.axis_sizes))
        self.axis_types = _types(types, self.axis_names)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shape_tuple, self.axis_types

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """The sizes by their names."""
        return OrderedDict(self.shape_tuple)

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        return not self.size

    auto_axes, are_all_axes_auto = _of_type(AxisType.Auto)
    explicit_axes, are_all_axes_explicit = _of_type(AxisType.Explicit)
    manual_axes, are_all_axes_manual = _of_type(AxisType.Manual)

    def update(self, **kwargs: Any) -> Any:
        """The mesh with others of the arguments that make one."""
        own = {name: getattr(self, name) for name in self.arguments}
        return type(self)(**own | kwargs)

    def update_axis_types(self, name_to_type: Mapping[Any, AxisType]) -> Any:
        """The mesh with other types of the axes that are named."""
        rows = zip(self.axis_names, self.axis_types, strict=True)
        types = [name_to_type.get(name, own) for name, own in rows]
        return self.update(axis_types=tuple(types))

    def __reduce__(self) -> tuple[Any, ...]:
        own = {name: getattr(self, name) for name in self.arguments}
        return partial(type(self), **own), ()

    def _list_axes(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{sizes}, axis_types={self.axis_types}" if sizes else ""

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._list_axes()})"


def _types(types: Any, names: Sequence[Any]) -> tuple[AxisType, ...]:
    if types is None:
        return (AxisType.Auto,) * len(names)
    found = tuple(types) if isinstance(types, tree.SEQUENCES) else (types,)
    if not all(isinstance(kind, AxisType) for kind in found):
        raise ArgumentError(
            f"axis_types of a mesh must be of type AxisType, got {types!r}"
        )
    if len(found) != len(names):
        raise ValueRangeError(
            f"Number of axis names should match the number of axis_types, got {names} "
            f"and {found}"
        )
    return found


def _names(axis_names: Any, ndim: int) -> tuple[Any, ...]:
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    if None in names:
        raise ValueRangeError(f"Mesh axis names cannot be None, got {names}")
    if len(names) != ndim or len(set(names)) != ndim:
        raise ValueRangeError(
            f"Mesh requires the ndim of its first argument (`devices`, or the sizes), "
            f"which is {ndim}, to equal the number of its axis_names, all of them "
            f"different, got {names}"
        )
    return names


@dataclass(frozen=True)
class AbstractDevice:
    """What is known of the devices of a mesh that need not exist."""

    device_kind: str
    num_cores: int | None
    platform: str


class AbstractMesh(_Axes):
    """A mesh without devices: axes with names and sizes."""

    __slots__ = ("abstract_device",)
    arguments = ("axis_sizes", "axis_names", "axis_types", "abstract_device")

    def __init__(
        self, axis_sizes: Sequence[int], axis_names: Any, axis_types: Any = None, *,
        abstract_device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(axis_sizes, axis_names, axis_types)
        self.abstract_device = abstract_device

    @property
    def _key(self) -> tuple[Any, ...]:
        return *super()._key, self.abstract_device

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def _list_axes(self) -> str:
        device = self.abstract_device
        return super()._list_axes() + (
            f", device_kind={device.device_kind}, num_cores={device.num_cores}, "
            f"platform={device.platform}" if device else ""
        )  # fmt: skip

    __repr__ = _Axes.__str__


class Mesh(_Axes):
    """Devices along axes with names.

    Args:
      devices: an array of devices, or nested lists.
      axis_names: a name per axis of it.
      axis_types: an `AxisType` per axis; `Auto` by default.

    Raises:
      ValueRangeError: the names do not fit the array.
    """

    __slots__ = ("devices",)
    arguments = ("devices", "axis_names", "axis_types")

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        found: Any = np.array(devices, object)
        found.flags.writeable = False
        self.devices = found
        super().__init__(found.shape, axis_names, axis_types)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        kinds = {(d.device_kind, d.platform) for d in self.devices.flat if d}
        known = [AbstractDevice(kind, None, platform) for kind, platform in kinds]
        return AbstractMesh(
            self.axis_sizes, self.axis_names, self.axis_types,
            abstract_device=known[0] if len(known) == 1 else None,
        )  # fmt: skip

    @property
    def device_ids(self) -> np.ndarray[Any, Any]:
        ids: Any = np.asarray([device.id for device in self.devices.flat], int)
        return ids.reshape(self.devices.shape)

    @property
    def is_multi_process(self) -> bool:
        """Has it devices of several processes?"""
        return len({device.process_index for device in self.devices.flat}) > 1

    @property
    def local_devices(self) -> list[Device]:
        own = processes.index()
        return [d for d in self.devices.flat if d.process_index == own]

    @property
    def local_mesh(self) -> Mesh:
        """The mesh of the devices of this process, which are a block."""
        own = {id(device) for device in self.local_devices}
        if len(own) == self.devices.size:
            return self
        is_own: Any = np.array([id(d) in own for d in self.devices.flat])
        places: Any = np.nonzero(is_own.reshape(self.devices.shape))
        block = np.ix_(*map(np.unique, places))
        return Mesh(self.devices[block], self.axis_names, self.axis_types)

    def __enter__(self) -> Mesh:
        _entered.set((*_entered.get(), current().mesh))
        change_here(mesh=self)
        return self

    def __exit__(self, *_: object) -> None:
        *before, last = _entered.get()
        _entered.set(tuple(before))
        change_here(mesh=last)

    @property
    def _key(self) -> tuple[Any, ...]:
        return *super()._key, tuple(self.devices.flat)

    def __repr__(self) -> str:
        if not self.axis_names:
            return str(self)
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None, *,
    devices: Sequence[Device] | None = None,
) -> Mesh:  # fmt: skip
    """A mesh of the devices that there are, or of the given ones.

    Args:
      axis_shapes, axis_names: the size and the name of each axis.
      axis_types: an `AxisType` per axis; `Explicit` by default.
      devices: of the mesh, by default the first of all.

    Raises:
      ValueRangeError: there are too few devices, a size is below 1, or the names or
        types are not as many.

    Example:
      >>> mesh = ft.make_mesh((1, 1), ("data", "model"))
      >>> mesh.axis_names, dict(mesh.shape)
      (('data', 'model'), {'data': 1, 'model': 1})
    """
    given = devices_of() if devices is None else list(devices)
    sizes = tuple([int(n) for n in axis_shapes])
    count = math.prod(sizes)
    if min(sizes, default=1) < 1 or sizes != tuple(axis_shapes):
        raise ValueRangeError(
            f"the sizes of a mesh are whole numbers from 1 on, got {axis_shapes}"
        )
    if len(given) < count:
        raise ValueRangeError(
            f"Number of devices {len(given)} must be >= the product of mesh_shape "
            f"{sizes}"
        )
    types = (AxisType.Explicit,) * len(sizes) if axis_types is None else axis_types
    found: Any = np.empty(sizes, object)
    found.flat[:] = given[:count]
    return Mesh(found, axis_names, types)


_EMPTY = Mesh(np.empty((), object), ())
#: The meshes before, of the blocks that it is in: equal meshes are one object.
_entered: ContextVar[tuple[Any, ...]] = ContextVar("ftrace_meshes", default=())


class use_abstract_mesh:  # read as a function
    """Makes a mesh the one of this context, for good or for a block."""

    def __init__(self, mesh: Any) -> None:
        self._before = current().mesh
        change_here(mesh=mesh)

    def __enter__(self) -> Any:
        return _in_force()

    def __exit__(self, *_: object) -> None:
        change_here(mesh=self._before)


class set_mesh(use_abstract_mesh):
    """Makes a mesh the one of this context, for good or for a block.

    Raises:
      TracingError: a function is being traced; what it traces has one mesh.
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if len(stack.scopes) != stack.floor:
            raise TracingError(
                "set_mesh is called while a function is traced; call it around jit, "
                "grad and vmap, or give shard_map and NamedSharding the mesh itself"
            )
        super().__init__(mesh)


def get_mesh() -> Mesh:
    """The mesh of this context; an empty one if there is none."""
    found = _in_force()
    return found if isinstance(found, Mesh) else _EMPTY


def get_abstract_mesh() -> AbstractMesh:
    """The mesh of this context without its devices.

    Within `shard_map` that of it, of which the axes that it maps over are `Manual`.
    """
    manual = {axis.name: axis.devices for axis in stack.axes if axis.devices}
    if not manual:
        return _in_force().abstract_mesh
    *_, mesh = manual.values()
    rows = zip(mesh.axis_names, mesh.axis_types, strict=True)
    types = [AxisType.Manual if name in manual else kind for name, kind in rows]
    return mesh.abstract_mesh.update(axis_types=tuple(types))


def _in_force() -> Any:
    """The mesh of this context; it may be abstract."""
    found = current().mesh
    return _EMPTY if found is None else found


def meshes_in(graph: Graph) -> Sequence[Any]:
    """The meshes that constraints and `shard_map`s of a graph name, each once."""

    def find() -> Sequence[Any]:
        args = arguments_in(graph)
        found = {a.mesh: None for a in args if isinstance(a, (Constraint, Spread))}
        return tuple(found)

    key = signature("meshes", graph.inputs, graph.outputs, graph.effects)
    return calls.once(key, find)
