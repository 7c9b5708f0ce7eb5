"""A tree of arrays as a folder, to which each process writes the parts that it has.

    checkpoint/
      index.json                  the tree, its arrays, and which file has which part
      3f9c21d07b5e-0.safetensors  what process 0 has written
      3f9c21d07b5e-1.safetensors  what process 1 has written

The word that files begin with is one of this writing. A process writes its file, then
a *mark*, `3f9c21d07b5e-1.json`, which says how long the file is, or what went wrong.
The first process waits for the marks of all, writes the index under another name, and
renames it: from that moment on the folder has the new tree, before it had the old one.
Then what the index does not name is deleted. So processes need nothing of each other
but the folder, which may be written in a thread while they compute together.

A part that several devices have is written once, by the process that has least to write
so far. Each is a row-major array by itself; what is read of it are the bytes that are
needed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from math import prod
from operator import index as index_of
from pathlib import Path
from typing import Any

import numpy

from ftrace import dtypes
from ftrace.errors import FileFormatError, ProcessError
from ftrace.ground import process_groups, settings
from ftrace.trace.arrays.array import given_sharding, is_array
from ftrace.trace.avals import Shape
from ftrace.trace.tracing.tracer import Tracer
from ftrace.transforms import array_files
from ftrace.transforms.array_files import write_safetensors
from ftrace.transforms.meshes import names_in
from ftrace.transforms.partition.spanning import Spanning, boxes
from ftrace.transforms.shardings import NamedSharding
from ftrace.transforms.tree_structure import describe

np: Any = numpy  # whose stubs leave too much unknown
Array = Any
#: For each axis the first element and the one behind the last.
Box = tuple[tuple[int, int], ...]

INDEX = "index.json"
#: Runs of fewer bytes are read through a mapping of the file, by its pages.
_SHORT = 1 << 12
#: Seconds between two looks at a folder: at first, and at most.
_LOOKS = 1e-3, 5e-2


def box_of(index: Sequence[slice], shape: Sequence[int]) -> Box:
    """The slices of a part as numbers."""
    rows = zip(index, shape, strict=True)
    return tuple([s.indices(n)[:2] for s, n in rows])


def _box_of(shape: Sequence[int]) -> Box:
    return tuple([(0, n) for n in shape])


def _shape(box: Box) -> Shape:
    return tuple([last - first for first, last in box])


def _key(name: str, box: Box, shape: Sequence[int]) -> str:
    """The name of a part in its file: `w`, or `w[0:4,8:16]`."""
    if box == _box_of(shape):
        return name
    return f"{name}[{','.join(f'{first}:{last}' for first, last in box)}]"


# Writing.


class Writing:
    """A tree on its way into a folder.

    Making one takes hold of the arrays, which all processes must do at once. `run` then
    needs nothing of them but the folder: it may be called in another thread.

    Args:
      folder: into which; it is made if it is missing.
      tree: a pytree of arrays and numbers.

    Raises:
      TreeError, DtypeError: the tree holds what cannot be saved.
      FileFormatError: there can be no such folder.
      ProcessError: the processes have other trees, or other values of an array that is
        over none of their devices.
    """

    def __init__(self, folder: Path, tree: Any) -> None:
        everyone, config = process_groups.everyone(), settings.current()
        self.folder, self._timeout = folder, config.distributed_timeout
        self._offered = False
        self._find_extent, self._count = everyone.rank, everyone.size
        self._loads, self._digests = [0] * self._count, list[str]()
        self._own = array_files.Arrays()
        structure, leaves = describe(tree)
        rows = {name: self._take(name, leaf) for name, leaf in leaves.items()}
        self._index: dict[str, Any] = {"version": 1, "tree": structure, "arrays": rows}
        everyone.agree(f"save to {folder}", self._text)
        word = np.frombuffer(secrets.token_bytes(6), np.uint8)
        self._word: str = everyone.broadcast(word).tobytes().hex()
        with writing(folder):
            os.makedirs(folder, exist_ok=True)
            _keep(folder.parent)

    @property
    def first(self) -> bool:
        """Is this the process that writes the index?"""
        return self._find_extent == 0

    def _text(self) -> str:
        """What all processes must have alike."""
        rows = [f"{k}: {json.dumps(row)}" for k, row in self._index["arrays"].items()]
        tree = json.dumps(self._index["tree"])
        return "\n".join([f"folder {self.folder.name}", tree, *rows, *self._digests])

    def _take(self, name: str, leaf: Any) -> dict[str, Any]:
        """The row of an array in the index. What is to be written here is kept."""
        leaf = np.asarray(leaf) if isinstance(leaf, Tracer) else leaf
        sharding: Any = given_sharding(leaf)
        everywhere: Any = range(self._count)
        owners: dict[Box, Any] = {}
        if type(leaf) is Spanning:
            dtype, shape = leaf.dtype, leaf.shape
            for device, index in leaf.given_sharding.devices_indices_map(shape).items():
                owners.setdefault(box_of(index, shape), []).append(device.process_index)
            values: Any = {
                box_of(index, shape): leaf.local.numpy()[within]
                for index, within in boxes(sharding, shape)
            }
        else:
            value = array_files.number_array(
                leaf.numpy() if is_array(leaf) else leaf, name
            )
            dtype, shape, box = value.dtype, value.shape, _box_of(value.shape)
            values, owners[box] = {box: value}, everywhere
            alone = sharding is None or sharding.is_fully_addressable
            if alone and self._count > 1:
                flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
                self._digests.append(f"{name}: elements {sha256(flat).hexdigest()}")
        parts: list[Any] = []
        for box, among in owners.items():
            place = min(sorted(set(among)), key=self._loads.__getitem__)
            self._loads[place] += prod(_shape(box)) * dtype.itemsize
            parts.append([place, box])
            if place == self._find_extent:  # what is NumPy's may change meanwhile
                kept = values[box] if is_array(leaf) else values[box].copy()
                self._own[_key(name, box, shape)] = kept
        described = {"dtype": dtypes.name_of(dtype), "shape": shape, "parts": parts}
        return {**described, **_kind(leaf), **_spec(sharding)}

    def run(
        self, check: Callable[[], object], then: Callable[[], object] = lambda: None
    ) -> None:
        """Writes what this process has, and returns when the folder has the tree.

        Args:
          check: called again and again while others are waited for; it may raise.
          then: called by the first process at the end, before the others go on.

        Raises:
          FileFormatError: a process could not write.
          ProcessError: others have not written within the time.
        """
        try:
            with writing(self.folder):
                self._write_own()
                if self.first:
                    self._write_index(check)
                    then()
                    for place in range(self._count):
                        self._mark(place).unlink()
                else:  # the first one deletes the marks, at the end
                    self._await(0, check, lambda: not self._mark().exists())
        except BaseException as error:
            with suppress(OSError):
                if not self._offered:  # else an index may name it already
                    self._path(".safetensors").unlink(missing_ok=True)
                if self._count > 1:
                    self._set_mark({"error": f"{error}".split("\n  at ", 1)[0]})
                else:
                    os.rmdir(self.folder)  # if it is empty
            raise

    def _path(self, ending: str, place: int | None = None) -> Path:
        place = self._find_extent if place is None else place
        return self.folder / f"{self._word}-{place}{ending}"

    def _mark(self, place: int | None = None) -> Path:
        return self._path(".json", place)

    def _set_mark(self, content: Any) -> None:
        _write_text(self._mark(), self._path(".tmp"), content)

    def _write_own(self) -> None:
        with open(self._path(".safetensors"), "xb") as file:
            write_safetensors(file, self._own, {})
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        self._own.clear()
        self._offered = True
        self._set_mark({"bytes": size})

    def _write_index(self, check: Callable[[], object]) -> None:
        files: list[Any] = []
        for place in range(self._count):
            self._await(place, check, self._mark(place).exists)
            size = json.loads(self._mark(place).read_text())["bytes"]
            files.append([self._path(".safetensors", place).name, size])
        self._index["files"] = files
        _write_text(self.folder / INDEX, self._path(".tmp"), self._index)
        marks = [self._mark(place).name for place in range(self._count)]
        clean(self.folder, {*marks, *[name for name, _ in files]})

    def _await(
        self, place: int, check: Callable[[], object], done: Callable[[], bool]
    ) -> None:
        """Returns when a process has done something; raises when it cannot.

        The time runs out only if meanwhile no file has become longer.
        """
        pause, most = _LOOKS
        sizes, deadline = self._count_bytes(), time.monotonic() + self._timeout
        while True:
            with suppress(FileNotFoundError):
                text = json.loads(self._mark(place).read_text())
                if "error" in text:
                    raise FileFormatError(
                        f"process {place} of {self._count} could not write its part of "
                        f"{self.folder}: {text['error']}"
                    )
            if done():
                return
            check()
            time.sleep(pause)
            pause = min(2 * pause, most)
            if time.monotonic() > deadline:
                now = self._count_bytes()
                if now == sizes:
                    raise ProcessError(
                        f"process {self._find_extent} of {self._count} has waited "
                        f"{self._timeout} seconds for process {place} to write its "
                        f"part of {self.folder}, in vain. Do all of them see the same "
                        "folder? FTRACE_DISTRIBUTED_TIMEOUT sets the time"
                    )
                sizes, deadline = now, time.monotonic() + self._timeout

    def _count_bytes(self) -> int:
        """How many bytes there are of all processes."""
        total = 0
        with suppress(FileNotFoundError):  # the first one may be deleting
            for file in self.folder.iterdir():
                total += file.stat().st_size
        return total


def _kind(leaf: Any) -> dict[str, Any]:
    if type(leaf) in (bool, int, float, complex):
        return {"python": type(leaf).__name__}
    return {"weak": True} if is_array(leaf) and leaf.weak_type else {}


def _spec(sharding: Any) -> dict[str, Any]:
    """How an array is divided, as the index says it."""
    if not isinstance(sharding, NamedSharding):
        return {}
    mesh: Any = sharding.mesh
    spec = [list(map(str, names_in(part))) for part in sharding.spec]
    return {"mesh": {f"{k}": n for k, n in mesh.shape.items()}, "spec": spec}


#: As of `array_files`, of folders.
writing = partial(
    array_files.writing,
    advice="a folder is required in which this process may make files, with room for "
    "them",
)


def _write_text(path: Path, draft: Path, content: Any) -> None:
    """A file of JSON that appears whole, and stays when the power fails."""
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    _keep(path.parent)


def _keep(folder: Path) -> None:
    """Puts on disk which files a folder has."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_OURS = re.compile(r"[0-9a-f]{12}-\d+\.(safetensors|json|tmp)")


def clean(folder: Path, named: Collection[str] = ()) -> None:
    """Deletes what was begun in a folder and is not named; the folder if it is empty.

    Without names the index goes first, so that nobody takes what is left for whole.
    """
    if not named:
        (folder / INDEX).unlink(missing_ok=True)
    for name in os.listdir(folder):
        if name not in named and _OURS.fullmatch(name):
            (folder / name).unlink(missing_ok=True)
    if not named:
        with suppress(OSError):  # something else is in it
            os.rmdir(folder)


# Reading.


class Folder:
    """A tree in a folder.

    Attributes:
      structure: of the tree.
      arrays: by name their rows in the index.

    Raises:
      FileFormatError: there is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with array_files.reading(path):
            if path.is_dir() and not (path / INDEX).exists():
                raise array_files.bad(
                    path, f"it has no {INDEX}: nothing was finished there"
                )
            text = (path / INDEX).read_text("utf-8")
        with array_files.reading(path / INDEX):
            index = json.loads(text)
            self.structure, self.arrays = index["tree"], index["arrays"]
            self._files: list[tuple[str, int]] = index["files"]
            self._types = {
                name: (
                    array_files.find_dtype(row["dtype"]),
                    tuple(map(index_of, row["shape"])),
                )
                for name, row in self.arrays.items()
            }
        self._places: dict[int, Any] = {}

    def check(self) -> None:
        """Raises where a file is missing or has been cut off."""
        with array_files.reading(self._path):
            for number in range(len(self._files)):
                self._check_file(number)

    def type_of(self, name: str) -> tuple[Any, Shape]:
        """Dtype and shape of an array."""
        return self._types[name]

    def read(self, name: str, box: Box | None = None) -> Array:
        """A part of an array, or all of it.

        Raises:
          FileFormatError: the files do not have it.
        """
        dtype, shape = self.type_of(name)
        box = _box_of(shape) if box is None else box
        with array_files.reading(self._path):
            pieces: list[tuple[Box, Box, int, array_files.Extent]] = []
            for number, rows in self.arrays[name]["parts"]:
                part: Box = tuple([(first, last) for first, last in rows])
                common = _common(part, box)
                if common == box or 0 not in _shape(common):
                    place = self._find_extent(number, _key(name, part, shape), part)
                    pieces.append((common, part, number, place))
            if sum(prod(_shape(common)) for common, *_ in pieces) != prod(_shape(box)):
                raise ValueError(f"its index does not know where all of {name!r} is")
            _, stored, sizes = pieces[0][-1]
            rest = sizes[len(shape) :]
            made = np.empty((*_shape(box), *rest), stored)
            for common, part, number, place in pieces:
                within = (*_within(common, part), *_box_of(rest))
                into = made[(*_slices(_within(common, box)), ...)]
                with open(self._file(number), "rb", buffering=0) as file:
                    _read_box(file, place, within, into)
            return array_files.uncarry(made, dtype)

    def _file(self, number: int) -> Path:
        name = self._files[number][0]
        if not _OURS.fullmatch(name):
            raise ValueError(f"{name!r} is no file of it")
        return self._path / name

    def _check_file(self, number: int) -> None:
        path, size = self._file(number), self._files[number][1]
        found = path.stat().st_size
        if found != size:
            raise array_files.bad(
                self._path, f"it was cut off: {path.name} has {found} bytes of {size}"
            )

    def _find_extent(self, number: int, key: str, part: Box) -> array_files.Extent:
        """Where in a file a part is."""
        if number not in self._places:
            self._check_file(number)
            with open(self._file(number), "rb", buffering=0) as file:
                self._places[number] = array_files.read_safetensors_header(
                    lambda first, last: _read(file, first, last)
                )[0]
        start, dtype, shape = self._places[number][key]
        last = start + prod(shape) * dtype.itemsize
        if shape[: len(part)] != _shape(part) or last > self._files[number][1]:
            raise ValueError(f"{key!r} has another shape, or more bytes than the file")
        return start, dtype, shape


def _common(one: Box, other: Box) -> Box:
    """What two boxes share; an axis of it that has no element has size 0."""
    pairs = zip(one, other, strict=True)
    found = [(max(a, c), min(b, d)) for (a, b), (c, d) in pairs]
    return tuple([(first, max(first, last)) for first, last in found])


def _within(box: Box, outer: Box) -> Box:
    pairs = zip(box, outer, strict=True)
    return tuple([(first - start, last - start) for (first, last), (start, _) in pairs])


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple([slice(first, last) for first, last in box])


def _read_box(file: Any, place: array_files.Extent, box: Box, into: Array) -> None:
    """Reads a box of an array that lies row by row: of the bytes those of the box."""
    start, dtype, shape = place
    sizes = _shape(box)
    if not into.size:
        return
    cut = max([i for i, n in enumerate(shape) if sizes[i] != n], default=0)
    run = prod(sizes[cut:]) * dtype.itemsize
    if run < _SHORT and prod(sizes[:cut]) > 1:
        into[...] = np.memmap(file, dtype, "r", start, shape)[_slices(box)]
        return
    piece = into if into.flags.c_contiguous else np.empty(sizes, dtype)
    steps = [prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape))]
    first = start + sum(n * step for (n, _), step in zip(box, steps, strict=True))
    rows = piece.reshape(-1).view(np.uint8).reshape(-1, run)
    for row, index in zip(rows, np.ndindex(*sizes[:cut]), strict=True):
        at = sum(n * step for n, step in zip(index, steps, strict=False))
        _fill(file, first + at, row)
    if piece is not into:
        into[...] = piece


def _read(file: Any, first: int, last: int) -> bytes:
    memory = bytearray(last - first)
    _fill(file, first, memory)
    return bytes(memory)


def _fill(file: Any, first: int, memory: Any) -> None:
    """Reads as many bytes as there is memory for."""
    view, done = memoryview(memory), 0
    file.seek(first)
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            raise ValueError("it ends before its last array")
        done += count
