"""One file of arrays by name: `.safetensors` and `.npz`, mapped when they are read.

An array is stored under the path that leads to it ("layers/0/w"), so that other
programs find it; what the tree looks like stands beside it, as text. A file of another
program is a dict of its arrays by name. Nothing is ever unpickled.

safetensors: the length of a header, the header in JSON, the bytes of all arrays.
(https://github.com/huggingface/safetensors, "Format".) npz: a zip archive of npy files,
here stored without compression and aligned, so that they can be mapped too. What these
have no dtype for is stored as numbers of another one, and the note says which it was.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import struct
import zipfile
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.trace.arrays.buffer import has_memory
from ftrace.transforms.tree_structure import describe, rebuild

Array = Any  # of NumPy, whose stubs leave too much unknown
Arrays = dict[str, Array]
Dtype = np.dtype[Any]
PathLike = str | os.PathLike[str]

_ALIGNMENT = 64
#: The key of our own text, in the header of safetensors and in the archive of npz.
_NOTE = "ftrace"
_NOTE_MEMBER = "ftrace.json"


def as_path(path: PathLike, what: str) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise errors.ArgumentError(f"{what}: a path is required, got {path!r:.60}")
    return Path(path)


def write(path: PathLike, tree: Any) -> None:
    """Writes a tree of NumPy's arrays and numbers."""
    write_arrays, _ = _format(path, "save")
    structure, leaves = describe(tree)
    arrays = {name: number_array(leaf, name) for name, leaf in leaves.items()}
    with replacing(Path(path)) as file:
        write_arrays(file, arrays, {"tree": structure})


def read(path: PathLike) -> Any:
    """The tree of a file, of NumPy's arrays."""
    structure, arrays = read_arrays(path)
    with reading(Path(path)):
        return rebuild(structure, arrays, os.fspath(path))


def read_arrays(path: PathLike) -> tuple[Any, Arrays]:
    """The structure of the tree in a file, and its arrays by name.

    The arrays are read-only views of the mapped file: reading touches only what is
    used. Compressed members of an npz are read at once.
    """
    _, read_format = _format(path, "load")
    path = Path(path)
    with reading(path):
        arrays, note = read_format(_map(path), path)
        if note is None or "tree" not in note:
            return {"dict": [[name, name] for name in arrays]}, arrays
        return note["tree"], arrays


def check_file(verb: str, path: Path) -> None:
    """Raises where `write` could not write: to be asked before the work is done.

    Raises:
      ValueRangeError: the name has another ending.
      FileFormatError: it cannot be written.
    """
    _format(path, verb)
    check_writable(path)


@contextmanager
def reading(path: Path) -> Generator[None]:
    """A block that reads a file: what goes wrong becomes an error of ours."""
    try:
        yield
    except (errors.FtraceError, MemoryError):
        raise
    except FileNotFoundError as error:
        what = Path(error.filename or path).name if path.is_dir() else "such file"
        raise bad(path, f"there is no {what}") from None
    except OSError as error:
        raise bad(path, f"it cannot be read: {error.strerror or error}") from error
    except Exception as error:  # whatever the parsers make of damaged bytes
        raise bad(path, f"it is damaged ({type(error).__name__}: {error})") from error


def bad(path: Path, reason: str) -> errors.FileFormatError:
    kinds = {".npz": "an npz archive of arrays", ".safetensors": "a safetensors file"}
    kind = kinds.get(path.suffix, "a folder that ftrace.save has written")
    return errors.FileFormatError(f"{path}: {reason}; {kind} was expected")


def _format(path: PathLike, verb: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    suffix = Path(path).suffix
    if suffix not in _HANDLERS:
        raise errors.ValueRangeError(
            f"{verb}: the name of the file says its format and must end in "
            ".safetensors or .npz; a name without an ending is that of a folder. Got "
            f"{os.fspath(path)!r}"
        )
    return _HANDLERS[suffix]


def number_array(value: Any, name: str) -> Array:
    """An array or a number as an array of NumPy.

    Raises:
      TreeError, DtypeError: it is none, or of a dtype that is none of ours.
    """
    if not isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        raise errors.TreeError(
            "save takes dicts, lists, tuples, None and registered classes, of arrays "
            f"and numbers; got {type(value).__name__} at {name!r}. Leave it out, or "
            "save what is in it, ft.tree.leaves(tree) of the tree of another library"
        )
    array: Array = np.asarray(value)
    if array.dtype not in _STORED:
        raise errors.DtypeError(
            f"save: dtype {array.dtype} at {name!r} is not supported"
        )
    return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)


# Dtypes that a format does not know are those of other numbers of the same bytes; where
# these are shorter, along one more axis.

_CARRIERS: dict[Dtype, Dtype] = {
    dtypes.complex128: dtypes.float64,
    dtypes.bfloat16: dtypes.uint16,
    **dict.fromkeys(dtypes.NARROW.values(), dtypes.uint8),
    **dict.fromkeys(dtypes.KEYS.values(), dtypes.uint32),
}
_STORED = {*dtypes.ALL, *_CARRIERS}
_NAMED = {dtypes.name_of(dtype): dtype for dtype in _STORED}


def find_dtype(name: str) -> Dtype:
    """The dtype of that name, of keys as well."""
    if name not in _NAMED:
        raise ValueError(f"the dtype {name!r} is unknown")
    return _NAMED[name]


def carry(arrays: Mapping[str, Array], known: Collection[Dtype]) -> tuple[Arrays, Any]:
    """Arrays of known dtypes with the bits of others; the names of their own ones."""
    stored, names = dict(arrays), dict[str, str]()
    array: Any
    for name, array in arrays.items():
        dtype = array.dtype
        if dtype not in known:
            carrier, names[name] = _CARRIERS[dtype], dtypes.name_of(dtype)
            if carrier.itemsize < dtype.itemsize:
                lying: Array = np.ascontiguousarray(array)
                array = lying.reshape(*array.shape, 1)
            stored[name] = array.view(carrier)
    return stored, names


def uncarry(array: Array, dtype: Dtype) -> Array:
    """`carry` back."""
    made = array.view(dtype)
    return made[..., 0] if array.dtype.itemsize < dtype.itemsize else made


# Files.


@contextmanager
def replacing(path: Path) -> Generator[IO[bytes]]:
    """A new file that takes the place of `path` when the block ends without error.

    What is no file of a disk, as a pipe or /dev/null, stays there and is written to.

    Raises:
      FileFormatError: it cannot be written.
    """
    if _stays(path):
        with writing(path), open(path, "wb") as file:
            yield file
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with writing(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with open(draft, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
    except BaseException:
        with suppress(OSError):  # where there cannot be such a file either
            draft.unlink()
        raise


def _stays(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())


@contextmanager
def writing(
    path: Path, advice: str = "name a file in a folder that exists and may be written"
) -> Generator[None]:
    """A block that writes files: what goes wrong becomes an error of ours."""
    try:
        yield
    except errors.FileFormatError:
        raise
    except OSError as error:
        why = error.strerror or error
        raise errors.FileFormatError(
            f"{path}: it cannot be written: {why}; {advice}"
        ) from None  # which would name the draft


class _Trial(Exception):
    """Nothing is to be written."""


def check_writable(path: Path) -> None:
    """Raises where `replacing` could not write: to be asked before the work is done.

    Raises:
      FileFormatError: it cannot be written.
    """
    if not _stays(path):
        with suppress(_Trial), replacing(path):
            raise _Trial


def read_path(what: str, path: Any, usage: str) -> Path:
    """The path of a file that a user names.

    Args:
      what: takes the name, and how it is called, for the message.

    Raises:
      ArgumentError: it is no name of a file.
    """
    try:
        return Path(path)
    except TypeError:
        raise errors.ArgumentError(
            f"{what} takes the name of a file, got {type(path).__name__}: "
            f"{path!r:.60}; write {usage}"
        ) from None


def _map(path: Path) -> Array:
    """The bytes of a file, read when they are looked at."""
    if path.stat().st_size == 0:
        raise bad(path, "the file is empty")
    return np.asarray(np.memmap(path, np.uint8, "r"))


def _view(mapped: Array, first: int, dtype: Dtype, shape: tuple[int, ...]) -> Array:
    """An array in the bytes of a file, from byte `first` on."""
    last = first + prod(shape) * dtype.itemsize
    if not 0 <= first <= last <= mapped.size:
        raise ValueError(f"bytes {first} to {last} of a file of {mapped.size}")
    return mapped[first:last].view(dtype).reshape(shape)


def _bytes(array: Array) -> Any:
    flat: Any = np.ascontiguousarray(array)
    return flat.reshape(-1).view(np.uint8).data


# safetensors.

_TAGS: dict[str, Dtype] = {
    "BOOL": dtypes.bool_, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F32": dtypes.float32, "F64": dtypes.float64,
    "I8": dtypes.int8, "I16": dtypes.int16,
    "I32": dtypes.int32, "I64": dtypes.int64,
    "U8": dtypes.uint8, "U16": dtypes.uint16,
    "U32": dtypes.uint32, "U64": dtypes.uint64,
    "C64": dtypes.complex64,
    **{tag: dtypes.NARROW[name] for tag, name in {
        "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
        "F8_E8M0": "float8_e8m0fnu",
    }.items() if name in dtypes.NARROW},
}  # fmt: skip
_TAG_OF = {dtype: tag for tag, dtype in _TAGS.items()}
#: Bytes of a header, at the most: that of the library safetensors.
_HEADER_LIMIT = 100_000_000
Extent = tuple[int, Dtype, tuple[int, ...]]


def write_safetensors(file: IO[bytes], arrays: Arrays, note: Any) -> None:
    stored, names = carry(arrays, _TAG_OF)
    note = {"version": 1, **note, "dtypes": names}
    # The widest first, so that each array is aligned to its own size.
    names = sorted(stored, key=lambda name: (-stored[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {_NOTE: json.dumps(note)}}
    end = 0
    for name in names:
        array = stored[name]
        first, end = end, end + array.nbytes
        header[name] = {
            "dtype": _TAG_OF[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [first, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    file.write(struct.pack("<Q", len(text)))
    file.write(text)
    for name in names:
        file.write(_bytes(stored[name]))


def _read_safetensors(mapped: Array, path: Path) -> tuple[Arrays, Any]:
    places, note = read_safetensors_header(lambda a, b: mapped[a:b].tobytes())
    arrays = {name: _view(mapped, *place) for name, place in places.items()}
    for name, word in _carried_leaves(note):
        arrays[name] = uncarry(arrays[name], find_dtype(word))
    return arrays, note


def _carried_leaves(note: Any) -> list[tuple[str, str]]:
    """(name, dtype) of what was carried; the first version had only complex128."""
    if note is None:
        return []
    pairs = [(name, "complex128") for name in note.get("pairs", ())]
    return [*pairs, *note.get("dtypes", {}).items()]


def read_safetensors_header(
    read: Callable[[int, int], bytes],
) -> tuple[dict[str, Extent], Any]:
    """Where the arrays are in a file of which `read` gives bytes; and our note."""
    start = read(0, 8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    text = read(8, 8 + length) if length <= _HEADER_LIMIT else b""
    if not 0 < length == len(text):
        raise ValueError("it does not begin with the length of a header")
    header = json.loads(text)
    metadata: Any = header.pop("__metadata__", None) or {}
    note = json.loads(metadata[_NOTE]) if _NOTE in metadata else None
    return {k: _extent_of(8 + length, entry) for k, entry in header.items()}, note


def _extent_of(data: int, entry: Any) -> Extent:
    """The first byte of an array, its dtype and its shape."""
    if entry["dtype"] not in _TAGS:
        raise ValueError(f"the dtype {entry['dtype']!r} is unknown")
    dtype, shape = _TAGS[entry["dtype"]], tuple(entry["shape"])
    first, last = entry["data_offsets"]
    sizes = (*shape, first, last)
    if not all(isinstance(n, int) and n >= 0 for n in sizes):
        raise ValueError(f"the sizes {sizes} are no counts")
    if last - first != prod(shape) * dtype.itemsize:
        raise ValueError(f"{last - first} bytes for {dtype} of shape {shape}")
    return data + first, dtype, shape


# npz.


#: Those that NumPy itself has.
_OF_NUMPY = {*dtypes.ALL} - {dtypes.bfloat16}


def _write_npz(file: IO[bytes], arrays: Arrays, note: Any) -> None:
    stored, names = carry(arrays, _OF_NUMPY)
    note = {"version": 1, **note, "dtypes": names}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in stored.items():
            _write_member(archive, file, f"{name}.npy", array)
        archive.writestr(_NOTE_MEMBER, json.dumps(note))


def _write_member(
    archive: zipfile.ZipFile, file: IO[bytes], name: str, array: Array
) -> None:
    """One npy file in the archive, its data at a multiple of 64 bytes."""
    member = zipfile.ZipInfo(name)
    large = array.nbytes > 1 << 30
    begin = file.tell() + 30 + len(name.encode()) + (20 if large else 0)
    padding = -(begin + 4) % _ALIGNMENT
    # An extra field of an unused kind: readers skip it.
    member.extra = struct.pack("<HH", 0x4654, padding) + b"\0" * padding
    with archive.open(member, "w", force_zip64=large) as target:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(target, header)
        target.write(_bytes(array))


def _read_npz(mapped: Array, path: Path) -> tuple[Arrays, Any]:
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise bad(path, f"it is no zip archive, or a damaged one ({error})") from error
    with archive:
        names = archive.namelist()
        arrays = {
            member.filename.removesuffix(".npy"): _read_member(archive, member, mapped)
            for member in archive.infolist()
            if member.filename.endswith(".npy")
        }
        note = None
        if _NOTE_MEMBER in names:
            member = archive.getinfo(_NOTE_MEMBER)
            _check_claim(member, member.file_size, mapped)
            note = json.loads(archive.read(member))
    for name, word in _carried_leaves(note):
        arrays[name] = uncarry(arrays[name], find_dtype(word))
    return arrays, note


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, mapped: Array
) -> Array:
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read_header is None:
            raise ValueError(f"{member.filename} has npy version {version}")
        shape, fortran, found = read_header(file)
        dtype: Any = found
        if dtype.newbyteorder("=") not in dtypes.ALL:
            raise ValueError(f"{member.filename} holds {dtype}, which is not supported")
        nbytes = file.tell() + prod(shape) * dtype.itemsize
        _check_claim(member, nbytes, mapped)
        if member.compress_type != zipfile.ZIP_STORED or not dtype.isnative:
            if not has_memory(nbytes):
                raise errors.OutOfMemoryError(
                    f"load: {member.filename} takes {nbytes} bytes of memory, which "
                    "the host does not have; save it without compression"
                )
            file.seek(0)
            array: Array = np.lib.format.read_array(file, allow_pickle=False)
            return array.astype(dtype.newbyteorder("="), copy=False)
        first = _data_offset(member, mapped) + file.tell()
    if fortran:
        return _view(mapped, first, dtype, shape[::-1]).transpose()
    return _view(mapped, first, dtype, shape)


#: How much shorter deflate makes anything (zlib, "Technical Details").
_MOST_DEFLATED = 1032


def _check_claim(member: zipfile.ZipInfo, nbytes: int, mapped: Array) -> None:
    """Raises where a member cannot hold what it says, before memory is asked for."""
    packed = min(member.compress_size, mapped.size)
    most = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _MOST_DEFLATED}
    factor = most.get(member.compress_type)
    if nbytes > member.file_size or (factor and nbytes > factor * packed + 1024):
        raise ValueError(
            f"{member.filename} is of {packed} packed bytes and says that it holds "
            f"{nbytes}"
        )


def _data_offset(member: zipfile.ZipInfo, mapped: Array) -> int:
    """Where the bytes of a member begin: behind its own header and two texts."""
    header = mapped[member.header_offset : member.header_offset + 30].tobytes()
    name, extra = struct.unpack("<26xHH", header)
    return member.header_offset + 30 + name + extra


_HANDLERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    ".safetensors": (write_safetensors, _read_safetensors),
    ".npz": (_write_npz, _read_npz),
}
SUFFIXES = tuple(_HANDLERS)
