"""Arrays on disk and back: `.safetensors` and `.npz`, mapped when they are read.

    save("model.safetensors", {"layers": [{"w": w, "b": b}], "step": 3})
    load("model.safetensors")           the same dicts, lists and tuples

An array is stored under the path that leads to it ("layers/0/w"), so that other
programs find it; what the tree looks like stands beside it, as text. A file of another
program is a dict of its arrays by name. Nothing is ever unpickled.

safetensors: the length of a header, the header in JSON, the bytes of all arrays.
(https://github.com/huggingface/safetensors, "Format".) npz: a zip archive of npy files,
here stored without compression and aligned, so that they can be mapped too.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from ftrace import dtypes, errors
from ftrace.backends.base import Device, get_device
from ftrace.trace.arrays.array import is_array
from ftrace.trace.arrays.buffer import has_room
from ftrace.trace.pytree import tree as trees
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer, concrete
from ftrace.transforms.device_placement import device_put

Array = Any  # of NumPy, whose stubs leave too much unknown
Dtype = np.dtype[Any]
PathLike = str | os.PathLike[str]

_ALIGNMENT = 64
#: The key of our own text, in the header of safetensors and in the archive of npz.
_NOTE = "ftrace"
_NOTE_MEMBER = "ftrace.json"
_FORMATS = ".safetensors or .npz"


def save(path: PathLike, tree: Any) -> None:
    """Writes a pytree of arrays to a `.safetensors` or `.npz` file: all or nothing.

    Args:
      path: its ending chooses the format.
      tree: dicts with text keys, lists, tuples and None, of arrays and numbers.

    Raises:
      ValueRangeError: the name has another ending.
      TreeError, DtypeError: the tree holds something else; the message says where.
      FileFormatError: the file cannot be written.
    """
    write(path, trees.map(_as_numpy, tree))


def _as_numpy(value: Any) -> Any:
    if isinstance(value, Tracer):
        return concrete(value)
    return np.asarray(value) if is_array(value) else value


def load(path: PathLike, device: str | Device | None = None) -> Any:
    """Reads a pytree of arrays: what `save` wrote, or another program's arrays by name.

    The file is mapped: on the host's devices an array is read when it is used; to any
    other device it is copied straight from the file.

    Raises:
      FileFormatError: the file is missing, damaged, or of another format.
    """
    found = trees.map(asarray, read(path))
    return found if get_device(device).host else device_put(found, device)


def write(path: PathLike, tree: Any) -> None:
    """`save` of NumPy's arrays and numbers."""
    write_arrays, _ = _format(path, "save")
    arrays: dict[str, Array] = {}
    structure = _flatten(tree, (), arrays)
    with _replacing(Path(path)) as file:
        write_arrays(file, arrays, structure)


def read(path: PathLike) -> Any:
    """`load`, of NumPy's arrays.

    The arrays are read-only views of the mapped file: reading touches only what is
    used. Compressed members of an npz are read at once.
    """
    _, read_arrays = _format(path, "load")
    path = Path(path)
    try:
        arrays, note = read_arrays(_map(path), path)
        return arrays if note is None else _unflatten(note["tree"], arrays)
    except (errors.FileFormatError, MemoryError):
        raise
    except FileNotFoundError:
        raise _bad(path, "there is no such file") from None
    except OSError as error:
        raise _bad(path, f"it cannot be read: {error.strerror or error}") from error
    except Exception as error:  # whatever the parsers make of damaged bytes
        raise _bad(path, f"it is damaged ({error})") from error


def _bad(path: Path, reason: str) -> errors.FileFormatError:
    kind = {".npz": "an npz archive of arrays"}.get(path.suffix, "a safetensors file")
    return errors.FileFormatError(f"{path}: {reason}; {kind} was expected")


def _format(path: PathLike, verb: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if not isinstance(path, (str, os.PathLike)):
        raise errors.ArgumentError(f"{verb}: a path is required, got {path!r:.60}")
    suffix = Path(path).suffix
    if suffix not in _HANDLERS:
        raise errors.ValueRangeError(
            f"{verb}: the name of the file says its format and must end in {_FORMATS}, "
            f"got {os.fspath(path)!r}"
        )
    return _HANDLERS[suffix]


# Trees: a leaf is its name, None is null, a container is {"dict": …} and so on.


def _flatten(tree: Any, path: tuple[str, ...], arrays: dict[str, Array]) -> Any:
    """The structure as JSON; the arrays are added by name."""
    if tree is None:
        return None
    if type(tree) is dict:
        items = cast(dict[Any, Any], tree)
        for key in items:
            if not isinstance(key, str):
                raise errors.TreeError(
                    f"save: keys of dicts must be text, got {key!r} {_place(path)}"
                )
        pairs = [[k, _flatten(v, (*path, k), arrays)] for k, v in items.items()]
        return {"dict": pairs}
    if type(tree) in (list, tuple):
        parts = [_flatten(v, (*path, str(i)), arrays) for i, v in enumerate(tree)]
        return {type(tree).__name__: parts}
    name = _name(path)
    arrays[name] = _leaf(tree, path)
    return name


def _name(path: tuple[str, ...]) -> str:
    """Unique: a slash in a key is written ~1, as in JSON pointers (RFC 6901)."""
    parts = [key.replace("~", "~0").replace("/", "~1") for key in path]
    return "/".join(parts) if path else "array"


def _place(path: tuple[str, ...]) -> str:
    return f"at {'/'.join(path)!r}" if path else "at the top"


def _leaf(value: Any, path: tuple[str, ...]) -> Array:
    if not isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        raise errors.TreeError(
            "save takes dicts, lists, tuples and None, of arrays and numbers; got "
            f"{type(value).__name__} {_place(path)}. Of any other pytree save the list "
            "of its leaves, ft.tree.leaves(tree), and unflatten it when it is loaded"
        )
    array: Array = np.asarray(value)
    if array.dtype not in dtypes.ALL:
        raise errors.DtypeError(
            f"save: dtype {array.dtype} {_place(path)} is not supported"
        )
    return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)


def _unflatten(structure: Any, arrays: dict[str, Array]) -> Any:
    if structure is None:
        return None
    if isinstance(structure, str):
        return arrays[structure]
    ((kind, items),) = structure.items()
    if kind == "dict":
        return {key: _unflatten(value, arrays) for key, value in items}
    return {"list": list, "tuple": tuple}[kind](_unflatten(v, arrays) for v in items)


# Files.


@contextmanager
def _replacing(path: Path) -> Generator[IO[bytes]]:
    """A new file that takes the place of `path` when the block ends without error."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(draft, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise errors.FileFormatError(
            f"{path}: it cannot be written: {error.strerror}"
        ) from error
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _map(path: Path) -> Array:
    """The bytes of a file, read when they are looked at."""
    if path.stat().st_size == 0:
        raise _bad(path, "the file is empty")
    return np.asarray(np.memmap(path, np.uint8, "r"))


def _view(mapped: Array, first: int, dtype: Dtype, shape: tuple[int, ...]) -> Array:
    """An array in the bytes of a file, from byte `first` on."""
    last = first + prod(shape) * dtype.itemsize
    if not 0 <= first <= last <= mapped.size:
        raise ValueError(f"bytes {first} to {last} of a file of {mapped.size}")
    return mapped[first:last].view(dtype).reshape(shape)


def _bytes(array: Array) -> Any:
    return array.reshape(-1).view(np.uint8).data


# safetensors.

_TAGS: dict[str, Dtype] = {
    "BOOL": dtypes.bool_, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F32": dtypes.float32, "F64": dtypes.float64,
    "I8": dtypes.int8, "I16": dtypes.int16,
    "I32": dtypes.int32, "I64": dtypes.int64,
    "U8": dtypes.uint8, "U16": dtypes.uint16,
    "U32": dtypes.uint32, "U64": dtypes.uint64,
    "C64": dtypes.complex64,
}  # fmt: skip
_TAG_OF = {dtype: tag for tag, dtype in _TAGS.items()}
_HEADER_LIMIT = 100_000_000


def _write_safetensors(
    file: IO[bytes], arrays: dict[str, Array], structure: Any
) -> None:
    note: dict[str, Any] = {"version": 1, "tree": structure, "pairs": []}
    stored = dict(arrays)
    for name, array in arrays.items():
        if array.dtype == dtypes.complex128:  # the format has none: pairs of reals
            stored[name] = array.reshape(*array.shape, 1).view(np.float64)
            note["pairs"].append(name)
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


def _read_safetensors(mapped: Array, path: Path) -> tuple[dict[str, Array], Any]:
    start = mapped[:8].tobytes()
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    if not 0 < length <= min(mapped.size - 8, _HEADER_LIMIT):
        raise _bad(path, "it does not begin with the length of a header")
    header = json.loads(mapped[8 : 8 + length].tobytes())
    metadata: Any = header.pop("__metadata__", None) or {}
    arrays = {
        name: _read_tensor(mapped, 8 + length, entry) for name, entry in header.items()
    }
    note = json.loads(metadata[_NOTE]) if _NOTE in metadata else None
    for name in note["pairs"] if note is not None else ():
        arrays[name] = arrays[name].view(np.complex128)[..., 0]
    return arrays, note


def _read_tensor(mapped: Array, data: int, entry: Any) -> Array:
    if entry["dtype"] not in _TAGS:
        raise ValueError(f"the dtype {entry['dtype']!r} is unknown")
    dtype, shape = _TAGS[entry["dtype"]], tuple(entry["shape"])
    first, last = entry["data_offsets"]
    sizes = (*shape, first, last)
    if not all(isinstance(n, int) and n >= 0 for n in sizes):
        raise ValueError(f"the sizes {sizes} are no counts")
    if last - first != prod(shape) * dtype.itemsize:
        raise ValueError(f"{last - first} bytes for {dtype} of shape {shape}")
    return _view(mapped, data + first, dtype, shape)


# npz.


def _write_npz(file: IO[bytes], arrays: dict[str, Array], structure: Any) -> None:
    note: dict[str, Any] = {"version": 1, "tree": structure, "dtypes": {}}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            if array.dtype == dtypes.bfloat16:  # which other readers do not know
                note["dtypes"][name] = "bfloat16"
                array = array.view(np.uint16)
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


def _read_npz(mapped: Array, path: Path) -> tuple[dict[str, Array], Any]:
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise _bad(path, f"it is no zip archive, or a damaged one ({error})") from error
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
    for name, word in note["dtypes"].items() if note is not None else ():
        arrays[name] = arrays[name].view(dtypes.as_dtype(word))
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
            if not has_room(nbytes):
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
    ".safetensors": (_write_safetensors, _read_safetensors),
    ".npz": (_write_npz, _read_npz),
}
