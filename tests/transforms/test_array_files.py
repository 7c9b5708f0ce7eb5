"""Arrays on disk: what is saved comes back; a file that is not ours says so."""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ftrace import dtypes
from ftrace.errors import DtypeError, FileFormatError, TreeError, ValueRangeError
from ftrace.transforms import array_files
from ftrace.transforms.array_files import read as load, write as save
from tests.support.refusals import refuses

SUFFIXES = (".safetensors", ".npz")
suffixes = pytest.mark.parametrize("suffix", SUFFIXES)


def sample(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Numbers of a dtype, with the ones that are easily lost."""
    values = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    if dtypes.is_inexact(dtype):
        values[0] = [-0.0, np.inf, np.nan]
    if dtypes.is_complex(dtype):
        values[1] += 1j * values[1].real
    return values


def assert_same_bits(got: Any, wanted: Any) -> None:
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert got.tobytes() == wanted.tobytes()


@suffixes
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_save_keeps_every_bit_of_every_dtype(
    tmp_path: Path, suffix: str, dtype: np.dtype[Any]
) -> None:
    path = tmp_path / f"x{suffix}"
    for array in (
        sample(dtype),
        sample(dtype).T,
        sample(dtype)[0, 1],
        sample(dtype)[:0],
    ):
        save(path, np.asarray(array))
        assert_same_bits(load(path), np.asarray(array))


@suffixes
def test_load_gives_the_same_structure(tmp_path: Path, suffix: str) -> None:
    x = np.arange(3)
    tree = {
        "layers": [{"w": x, "b": (x, None)}, []],
        "a/b": (x,),
        "a": {"b": [x], "~1": x},
        "": {},
        "step": 7,
        "none": None,
    }
    path = tmp_path / f"tree{suffix}"
    save(path, tree)
    got = load(path)

    def types(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: types(value) for key, value in tree.items()}
        if isinstance(tree, (list, tuple)):
            return type(tree)(types(value) for value in tree)
        return None if tree is None else np.shape(tree)

    assert types(got) == types(tree)
    assert list(got) == list(tree)
    assert got["step"] == 7


@suffixes
def test_load_maps_the_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    save(path, {"x": np.arange(1000), "y": np.ones(3, np.int8)})
    x = load(path)["x"]
    assert not x.flags.writeable
    assert x.flags.aligned
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)
    # The mapping outlives the file's replacement.
    save(path, {"x": np.zeros(1000)})
    assert x[999] == 999


@suffixes
def test_save_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"x{suffix}"
    save(path, [np.arange(3)])

    def fail(*args: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(array_files, "_bytes", fail)
    with pytest.raises(RuntimeError, match="power cut"):
        save(path, [np.arange(4)])
    assert os.listdir(tmp_path) == [path.name]
    assert load(path)[0].size == 3


@suffixes
def test_save_into_a_missing_folder_says_so(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileFormatError, match=r"missing.*cannot be written"):
        save(tmp_path / "missing" / f"x{suffix}", np.zeros(2))


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({1: np.zeros(2)}, TreeError, "keys of dicts must be text, got 1 at the top"),
        ({"a": [object()]}, TreeError, "got object at 'a/0'.*tree.leaves"),
        ({"a": "text"}, TreeError, "got str at 'a'"),
        ([np.array(["x"])], DtypeError, "<U1 at '0' is not supported"),
        ([np.array([None])], DtypeError, "object at '0' is not supported"),
    ],
)
def test_save_names_the_place_of_what_it_cannot_store(
    tmp_path: Path, tree: Any, error: type[Exception], message: str
) -> None:
    with refuses(error, message):
        save(tmp_path / "x.npz", tree)
    assert os.listdir(tmp_path) == []


def test_a_name_without_a_known_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueRangeError, match=r"end in \.safetensors or \.npz.*x\.pkl"):
        save(tmp_path / "x.pkl", np.zeros(2))
    with pytest.raises(ValueRangeError, match=r"end in \.safetensors or \.npz"):
        load("x")


@suffixes
def test_load_of_a_missing_file_says_so(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileFormatError, match=r"gone.*there is no such file.*expected"):
        load(tmp_path / f"gone{suffix}")


@suffixes
def test_load_of_a_folder_or_an_empty_file_says_so(tmp_path: Path, suffix: str) -> None:
    folder, empty = tmp_path / f"folder{suffix}", tmp_path / f"empty{suffix}"
    folder.mkdir()
    empty.touch()
    with pytest.raises(FileFormatError, match="cannot be read"):
        load(folder)
    with pytest.raises(FileFormatError, match="the file is empty"):
        load(empty)


@suffixes
@pytest.mark.parametrize("text", [b"x", b"hello world, this is not a file of arrays"])
def test_load_of_another_format_says_what_was_expected(
    tmp_path: Path, suffix: str, text: bytes
) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(text)
    expected = "npz archive" if suffix == ".npz" else "safetensors file"
    with pytest.raises(FileFormatError, match=f"text.*{expected}.* expected"):
        load(path)


@suffixes
def test_load_of_a_file_cut_short_at_any_byte_raises(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"x{suffix}"
    save(path, {"x": np.arange(20.0), "y": [np.ones(3, np.float16)]})
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            load(path)


@suffixes
def test_load_of_flipped_bytes_gives_arrays_or_a_clear_error(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"x{suffix}"
    save(path, {"x": np.arange(20.0), "y": [np.ones(3, np.float16)]})
    whole = bytearray(path.read_bytes())
    for position in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[position] ^= 0x5A
        path.write_bytes(damaged)
        with contextlib.suppress(FileFormatError):
            load(path)


def write_safetensors(path: Path, header: Any, data: bytes = b"") -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F6_E2M3", "shape": [1], "data_offsets": [0, 1]}, "F6_E2M3"),
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, "8 bytes for float32"),
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, "of a file of"),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}, "no counts"),
        ({"dtype": "F32"}, "shape"),
        (3, "damaged"),
    ],
)
def test_load_of_a_wrong_safetensors_header_says_what_is_wrong(
    tmp_path: Path, entry: Any, message: str
) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, {"x": entry}, b"\0" * 8)
    with pytest.raises(FileFormatError, match=message):
        load(path)


@pytest.mark.parametrize(
    "packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]
)
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
@pytest.mark.parametrize("claimed", [4, 10**12, 10**30])
def test_load_takes_no_memory_for_what_a_file_cannot_hold(
    tmp_path: Path, packing: int, dtype: str, claimed: int
) -> None:
    header = io.BytesIO()
    described: Any = {"descr": dtype, "fortran_order": False, "shape": (claimed,)}
    np.lib.format.write_array_header_1_0(header, described)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", packing) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(12))
    with pytest.raises(FileFormatError, match="damaged"):
        load(tmp_path / "a.npz")


def test_load_does_not_believe_the_sizes_of_an_archive(tmp_path: Path) -> None:
    header = io.BytesIO()
    described: Any = {"descr": "<f4", "fortran_order": False, "shape": (10**9,)}
    np.lib.format.write_array_header_1_0(header, described)
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(12))
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02") + 24  # of the size in the directory
    data[place : place + 4] = struct.pack("<I", 4 * 10**9 + len(header.getvalue()))
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match="packed bytes and says that it holds"):
        load(path)


def test_load_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.array([{"code": "runs"}], object))
    with pytest.raises(FileFormatError, match="object"):
        load(path)


def test_load_reads_files_of_numpy(tmp_path: Path) -> None:
    x, y = np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    for name, write in (("a", np.savez), ("b", np.savez_compressed)):
        path = tmp_path / f"{name}.npz"
        write(path, x=x, y=y, big=x.astype(">i4"))
        got = load(path)
        assert sorted(got) == ["big", "x", "y"]
        for key, wanted in (("x", x), ("y", y), ("big", x.astype(np.int32))):
            np.testing.assert_array_equal(got[key], wanted)
            assert got[key].dtype == wanted.dtype


def test_numpy_reads_our_npz(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    save(path, {"layers": [np.arange(3), np.ones((2, 2), np.float16)]})
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["layers/0"], np.arange(3))
        np.testing.assert_array_equal(archive["layers/1"], np.ones((2, 2)))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_safetensors_reads_our_files_and_we_theirs(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    arrays = {"a": np.arange(3), "b": np.ones((2, 2), np.float16), "c": np.array(True)}
    save(path, {**arrays, "deep": [np.zeros(0)]})
    theirs = library.load_file(path)
    assert sorted(theirs) == ["a", "b", "c", "deep/0"]
    library.save_file(arrays, path)
    ours = load(path)
    for name, array in arrays.items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name], array)
