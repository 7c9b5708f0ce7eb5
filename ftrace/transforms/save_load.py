"""Trees of arrays on disk and back: in one file, or a folder for many processes.

    save("model.safetensors", {"layers": [{"w": w, "b": b}], "step": 3})
    load("model.safetensors")           the same dicts, lists, tuples and classes

    save("checkpoint", state)           arrays over many devices: a folder
    load("checkpoint", mesh)            over another mesh

A file has whole arrays, which other programs read. To a folder each process writes what
it has (`shard_files.py`), and reads from it what its devices are to have.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ftrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from ftrace.ground import processes
from ftrace.ground.progress import progress
from ftrace.trace.arrays.array import Array, is_array
from ftrace.trace.pytree import tree as trees
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer
from ftrace.transforms import array_files
from ftrace.transforms.device_placement import put_by
from ftrace.transforms.meshes import Mesh, PartitionSpec
from ftrace.transforms.partition.spanning import of_indices
from ftrace.transforms.shard_files import Folder, Writing, box_of
from ftrace.transforms.shardings import NamedSharding, Sharding, as_sharding
from ftrace.transforms.tree_structure import name_of, rebuild

_NUMBERS: dict[Any, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
}
#: How many names a message shows.
_NAMES = 6


def save(path: array_files.PathLike, tree: Any) -> None:
    """Writes a pytree of arrays: all or nothing.

    Args:
      path: one that ends in `.safetensors` or `.npz` is a file of whole arrays. One
        without an ending is a folder: there each process writes the parts of arrays
        that it has, and all processes must call `save`.
      tree: dicts with text keys, lists, tuples, None, namedtuples and registered
        classes, of arrays and numbers.

    Raises:
      ValueRangeError: the name has another ending.
      TreeError, DtypeError: the tree holds something else; the message says where.
      FileFormatError: it cannot be written.
      ProcessError: the processes have other trees, or one did not come.

    Example:
      >>> import os, tempfile
      >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
      >>> ft.save(path, {"w": fnp.ones(2), "steps": [fnp.array(3), None]})
      >>> ft.load(path)
      {'w': Array([1., 1.], dtype=float32), 'steps': [Array(3, dtype=int32), None]}
    """
    if is_folder(path, "save"):
        Writing(Path(path), tree).run(processes.check)
    else:
        array_files.write(path, trees.map(_as_numpy, tree))


def _as_numpy(value: Any) -> Any:
    if isinstance(value, Tracer):
        return np.asarray(value)
    return value.numpy() if is_array(value) else value


def is_folder(path: array_files.PathLike, what: str) -> bool:
    """Is it the name of a folder, and not of a file of arrays?"""
    given = array_files.as_path(path, what)
    known = given.suffix in array_files.SUFFIXES
    return not known and (not given.suffix or given.is_dir())


def load(path: array_files.PathLike, device: Any = None, *, like: Any = None) -> Any:
    """Reads a pytree of arrays: what `save` wrote, or another program's arrays by name.

    Args:
      path: of a file, or of a folder. Of a folder a process reads what its devices are
        to have, of files and meshes of any number. A file is mapped: on the host's
        devices an array is read when it is used.
      device: where the arrays are to be, as `device_put` takes it: a device, a
        sharding, a spec, or a prefix of the tree of these. Over a mesh each is
        divided as it was when it was saved. None is the default device.
      like: a tree of arrays, `ShapeDtypeStruct`s and numbers: what is expected, and,
        where `device` says nothing, how it is divided. The result has its classes.

    Raises:
      FileFormatError: the file is missing, damaged, cut off, or of another format.
      TreeError, ShapeError, DtypeError: it is not what `like` says.
      ShapeError: an array cannot be divided so.

    Example:
      >>> import os, tempfile
      >>> path = os.path.join(tempfile.mkdtemp(), "arrays.npz")
      >>> np.savez(path, a=np.arange(3), b=np.float32(0.5))
      >>> ft.load(path)
      {'a': Array([0, 1, 2], dtype=int64), 'b': Array(0.5, dtype=float32)}
    """
    folder = is_folder(path, "load")
    return load_from(Folder(Path(path)) if folder else _File(path), path, device, like)


class _File:
    """A file of whole arrays, which is read as `Folder` is."""

    def __init__(self, path: array_files.PathLike) -> None:
        self.structure, self._known = array_files.read_arrays(path)
        self.arrays: dict[str, Any] = {name: {} for name in self._known}

    def type_of(self, name: str) -> tuple[Any, tuple[int, ...]]:
        return self._known[name].dtype, self._known[name].shape

    def read(self, name: str, box: Any = None) -> Any:
        whole = self._known[name]
        return whole if box is None else whole[tuple([slice(*pair) for pair in box])]


def load_from(source: Any, path: array_files.PathLike, device: Any, like: Any) -> Any:
    """The tree of a `Folder` or a file."""
    if like is None:
        names = {name: name for name in source.arrays}
        with array_files.reading(Path(path)):
            tree = rebuild(source.structure, names, os.fspath(path))
        found, treedef = trees.flatten(tree)
        wanted: Sequence[Any] = [None] * len(found)
    else:
        pairs, treedef = trees.flatten_with_path(like)
        found, wanted = [_name(keys) for keys, _ in pairs], [x for _, x in pairs]
        _check_like(source, path, dict(zip(found, wanted, strict=True)))
        tree = trees.unflatten(treedef, found)
    places = trees.broadcast_prefix(device, tree, "load: device")
    rows = zip(found, places, wanted, strict=True)
    leaves = list[Any]()
    with progress("loading arrays") as step:
        for row in rows:
            leaves.append(_array(source, *row))
            step(len(leaves), len(found))
    return trees.unflatten(treedef, leaves)


def _name(keys: trees.KeyPath) -> str:
    return name_of(tuple([trees.keystr((key,), simple=True) for key in keys]))


def _check_like(
    source: Any, path: array_files.PathLike, wanted: dict[str, Any]
) -> None:
    missing = [name for name in wanted if name not in source.arrays]
    extra = [name for name in source.arrays if name not in wanted]
    if missing or extra:
        has = [f"has {_list(extra)} that like= has not"] if extra else []
        lacks = [f"lacks {_list(missing)} of like="] if missing else []
        raise TreeError(
            f"load: {path} {', and '.join(has + lacks)}; give a tree of the same "
            "arrays, or none: load(path) gives what was saved"
        )
    for name, leaf in wanted.items():
        if type(leaf) not in _NUMBERS.values() and not hasattr(leaf, "dtype"):
            raise ArgumentError(
                "load: like= takes a tree of arrays, ShapeDtypeStructs and numbers, "
                f"got {leaf!r:.60} at {name!r}"
            )
        dtype, shape = source.type_of(name)
        number = type(leaf) in _NUMBERS.values()
        given = () if number else tuple(leaf.shape)
        if given != shape:
            raise ShapeError(
                f"load: {name!r} of {path} has shape {shape}, and like= has {given}; "
                "give the shape that was saved, and reshape or pad what is loaded"
            )
        if not number and leaf.dtype != dtype:
            raise DtypeError(
                f"load: {name!r} of {path} is {dtype}, and like= has {leaf.dtype}; "
                "give the dtype that was saved, and cast what is loaded"
            )


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(map(repr, names[:_NAMES])) + more


def _array(source: Any, name: str, place: Any, wanted: Any) -> Any:
    """An array where it is to be, of what this process needs of it."""
    row, (dtype, shape) = source.arrays[name], source.type_of(name)
    number: Any = _NUMBERS.get(row.get("python"))
    number = number if wanted is None else wanted.__class__
    if number in _NUMBERS.values():
        return number(source.read(name).item())
    if place is None and wanted is not None:
        given = "given_sharding" if is_array(wanted) else "sharding"
        place = getattr(wanted, given, None)
    if isinstance(place, Mesh):
        place = NamedSharding(place, _spec(row))
    if isinstance(place, (Sharding, PartitionSpec)):
        place = as_sharding(place, "load")
        if not place.is_fully_addressable:
            return of_indices(place, shape, dtype, partial(_read_box, source, name))
    value = source.read(name)
    array = Array.of(value, True) if row.get("weak") else asarray(value)
    return array if place is None else put_by(array, place, "load")


def _read_box(source: Any, name: str, index: Any) -> Any:
    return source.read(name, box_of(index, source.type_of(name)[1]))


def _spec(row: Any) -> PartitionSpec:
    return PartitionSpec(*[tuple(part) for part in row.get("spec", ())])
