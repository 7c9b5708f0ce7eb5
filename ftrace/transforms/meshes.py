"""Meshes: devices along axes with names; and specs that name these axes.

A spec says along which of them each axis of an array is divided.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from enum import Enum
from typing import Any

import numpy as np

from ftrace.backends.base import Device, devices_of
from ftrace.errors import ValueRangeError
from ftrace.ground.fast_dataclasses import Keyed, dataclass


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


_SEVERAL: tuple[type[Any], ...] = (tuple, list)


def _entry(part: Any) -> Any:
    """One entry of a spec: of one name that name, of none None."""
    if not isinstance(part, _SEVERAL):
        return part
    names = tuple(part)
    return names if len(names) > 1 else names[0] if names else None


class PartitionSpec(Keyed):
    """For each axis of an array the axes of a mesh along which it is divided.

    Args:
      partitions: per axis a name, a tuple of names, or None; further axes are whole.
      unreduced, reduced: names of axes along which a sum is still to be taken, or has
        been.
    """

    __slots__ = ("partitions", "reduced", "unreduced")

    UNCONSTRAINED = _Unconstrained()

    def __init__(
        self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> None:
        self.partitions = tuple(map(_entry, partitions))
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.partitions, self.unreduced, self.reduced

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, index: Any) -> Any:
        return self.partitions[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self, *other)

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other, *self)

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


#: JAX's short name for it.
P = PartitionSpec


def names_in(part: Any) -> tuple[Any, ...]:
    """The names in one entry of a spec."""
    if part is None or part is PartitionSpec.UNCONSTRAINED:
        return ()
    return part if isinstance(part, _SEVERAL) else (part,)


# Meshes.


def _of_type(kind: AxisType) -> tuple[Any, Any]:
    """The names of the axes of a type, and whether there are no others."""

    def named(self: _Axes) -> tuple[Any, ...]:
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple([name for name, own in pairs if own is kind])

    def are_all(self: _Axes) -> bool:
        some = kind is AxisType.Auto or len(self.axis_names) > 0
        return some and len(named(self)) == len(self.axis_names)

    return property(named), property(are_all)


class _Axes(Keyed):
    """What meshes share: axes with names, sizes and types."""

    __slots__ = ("axis_names", "axis_sizes", "axis_types")

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

    def listed(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{sizes or '()'}, axis_types={self.axis_types}"


def _types(types: Any, names: Sequence[Any]) -> tuple[AxisType, ...]:
    if types is None or isinstance(types, AxisType):
        return (types or AxisType.Auto,) * len(names)
    found = tuple(types)
    if len(found) != len(names):
        raise ValueRangeError(
            f"a mesh needs a type for each of its {len(names)} axes, got {found}"
        )
    return found


def _names(axis_names: Any, ndim: int) -> tuple[Any, ...]:
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    if len(names) != ndim or len(set(names)) != ndim:
        raise ValueRangeError(
            f"a mesh of {ndim} axes needs as many names, all of them different, got "
            f"{names}"
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
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def __repr__(self) -> str:
        return f"AbstractMesh({self.listed()})"


class Mesh(_Axes):
    """Devices along axes with names.

    Args:
      devices: an array of devices, or nested lists.
      axis_names: a name per axis of it.
      axis_types: an `AxisType` per axis; `Auto` by default.

    Raises:
      ValueRangeError: the names do not fit the array.
    """

    __slots__ = ("_before", "devices")
    arguments = ("devices", "axis_names", "axis_types")
    is_multi_process = False

    def __init__(
        self, devices: Any, axis_names: Any, axis_types: Any = None
    ) -> None:  # fmt: skip
        found: Any = np.array(devices, object)
        found.flags.writeable = False
        self.devices = found
        super().__init__(found.shape, axis_names, axis_types)
        self._before: list[Any] = []

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @property
    def device_ids(self) -> np.ndarray[Any, Any]:
        ids: Any = np.asarray([device.id for device in self.devices.flat], int)
        return ids.reshape(self.devices.shape)

    @property
    def local_devices(self) -> list[Device]:
        return list(self.devices.flat)

    @property
    def local_mesh(self) -> Mesh:
        return self

    def __enter__(self) -> Mesh:
        self._before.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._before.pop())

    @property
    def _key(self) -> tuple[Any, ...]:
        return *super()._key, tuple(self.devices.flat)

    def __repr__(self) -> str:
        if not self.axis_names:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None, *,
    devices: Sequence[Device] | None = None,
) -> Mesh:  # fmt: skip
    """A mesh of the devices that there are, or of the given ones.

    Raises:
      ValueRangeError: there are too few.
    """
    given = devices_of() if devices is None else list(devices)
    count = math.prod(axis_shapes)
    if len(given) < count:
        raise ValueRangeError(
            f"Number of devices {len(given)} must be >= the product of mesh_shape "
            f"{tuple(axis_shapes)}"
        )
    found: Any = np.empty(tuple(axis_shapes), object)
    found.flat[:] = given[:count]
    return Mesh(found, axis_names, axis_types or AxisType.Explicit)


_EMPTY = Mesh(np.empty((), object), ())
#: The mesh of this context; it may be abstract.
_current: ContextVar[Any] = ContextVar("ftrace_mesh", default=_EMPTY)


class set_mesh:  # read as a function: `ft.set_mesh(mesh)`
    """Makes a mesh the one of this context, for good or for a block."""

    def __init__(self, mesh: Mesh | None) -> None:
        self._token = _current.set(_EMPTY if mesh is None else mesh)

    def __enter__(self) -> Any:
        return _current.get()

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


use_abstract_mesh: Any = set_mesh


def get_mesh() -> Mesh:
    """The mesh of this context; an empty one if there is none."""
    found = _current.get()
    return found if isinstance(found, Mesh) else _EMPTY


def get_abstract_mesh() -> AbstractMesh:
    """The mesh of this context without its devices."""
    return _current.get().abstract_mesh
