"""Trees of arrays over devices as folders: what is saved comes back, where it is to."""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes, errors
from ftrace.backends.base import own_devices
from ftrace.sharding import Mesh, NamedSharding, PartitionSpec as P
from ftrace.transforms.shard_files import INDEX, Folder

DTYPES = {dtypes.name_of(d): d for d in (*dtypes.ALL, *dtypes.NARROW.values())}


@pytest.fixture(autouse=True)
def devices() -> Iterator[None]:
    with ft.config(cpu_devices=8):
        yield


def mesh(*sizes: int) -> Mesh:
    count, names = int(np.prod(sizes)), ("x", "y")[: len(sizes)]
    return Mesh(np.array(own_devices("cpu")[:count], object).reshape(sizes), names)


def put(x: Any, over: Mesh, *spec: Any) -> Any:
    return ft.device_put(x, NamedSharding(over, P(*spec)))


class State(NamedTuple):
    mean: Any
    count: Any


@ft.tree_util.register_dataclass
@dataclass
class Layer:
    w: Any
    b: Any = None
    name: str = field(default="", metadata={"static": True})


class Opaque:
    """A container of which JSON cannot know the static data."""

    def __init__(self, x: Any) -> None:
        self.x = x


ft.tree_util.register_pytree_node(
    Opaque, lambda o: ([o.x], frozenset({1})), lambda _, xs: Opaque(xs[0])
)


def same(got: Any, wanted: Any) -> None:
    got, wanted = [x.numpy() if isinstance(x, ft.Array) else x for x in (got, wanted)]
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert got.tobytes() == wanted.tobytes()


# What comes back.


@pytest.mark.parametrize("path", ["folder", "x.safetensors", "x.npz"])
def test_every_dtype_keeps_its_bits(tmp_path: Path, path: str) -> None:
    rng = np.random.default_rng(0)
    tree: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        for shape in ((3, 2), (), (0, 2)):
            values = rng.integers(0, 2, shape).astype(dtype)
            tree[f"{name} {shape}"] = np.asarray(values)
            tree[f"{name} {shape} turned"] = np.asarray(values).T
    for name in ("threefry2x32", "rbg", "unsafe_rbg"):
        key = ft.random.key(7, impl=name)
        tree |= {name: key, f"{name} keys": ft.random.split(key, (2, 3))}
    ft.save(tmp_path / path, tree)
    found = ft.load(tmp_path / path)
    assert list(found) == list(tree)
    for name, value in tree.items():
        same(found[name], value)
    draws = [ft.random.bits(x["rbg keys"][1, 2], (4,)) for x in (tree, found)]
    same(draws[0], draws[1])


def test_numbers_and_weak_types_stay_what_they_are(tmp_path: Path) -> None:
    weak = fnp.asarray(2)
    tree = [7, 2.5, True, 1j, weak, np.float32(3), None]
    ft.save(tmp_path / "x", tree)
    found = ft.load(tmp_path / "x")
    assert [*map(type, found[:4])] == [int, float, bool, complex]
    assert found[:4] == tree[:4]
    assert found[4].weak_type
    assert (found[4], found[5].dtype, found[6]) == (2, np.float32, None)
    like = [0, 0.0, False, 0j, 0, np.float32(0), None]
    again = ft.load(tmp_path / "x", like=like)
    assert [type(x) for x in again[:5]] == [int, float, bool, complex, int]


@pytest.mark.parametrize("path", ["folder", "x.safetensors", "x.npz"])
def test_containers_come_back(tmp_path: Path, path: str) -> None:
    x = np.arange(3.0)
    tree = {
        "state": State(x, [x, (x, None)]),
        "layers": [Layer(x, name="first"), Layer(x, State(x, x))],
        "order": OrderedDict(b=x, a={}),
        "a/b": {"~1": (), "": x},
    }
    ft.save(tmp_path / path, tree)
    for found in (ft.load(tmp_path / path), ft.load(tmp_path / path, like=tree)):
        assert ft.tree.structure(found) == ft.tree.structure(tree)
        assert found["layers"][0].name == "first"
        assert list(found["order"]) == ["b", "a"]
    ft.save(tmp_path / path, x)
    same(ft.load(tmp_path / path), x)
    ft.save(tmp_path / path, None)
    assert ft.load(tmp_path / path) is None


def test_a_class_that_is_not_there_is_given_by_like(tmp_path: Path) -> None:
    path, x = tmp_path / "x", np.arange(3.0)
    ft.save(path, [Opaque(x)])
    with pytest.raises(errors.FileFormatError, match=r"Opaque.*made of froz.*like="):
        ft.load(path)
    same(ft.load(path, like=[Opaque(x)])[0].x, x)
    same(ft.load(path, like=[{"0": x}])[0]["0"], x)  # the paths are what counts
    index = path / INDEX
    index.write_text(index.read_text().replace("Opaque", "os.system"))
    with pytest.raises(errors.FileFormatError, match="cannot be made"):
        ft.load(path)
    index.write_text(index.read_text().replace(f"{__name__}:", "antigravity:"))
    with pytest.raises(errors.FileFormatError, match="import and register"):
        ft.load(path)


@pytest.mark.parametrize("path", ["folder", "x.safetensors", "x.npz"])
def test_arrays_come_back_over_another_mesh(tmp_path: Path, path: str) -> None:
    x = np.arange(8.0 * 16).reshape(8, 16)
    old, new = mesh(4, 2), mesh(2, 4)
    tree = {"w": put(x, old, "x", "y"), "b": put(x[0], old, ("x", "y")), "n": x[:3]}
    ft.save(tmp_path / path, tree)
    over = NamedSharding(new, P("y"))
    columns = {"w": over, "b": None, "n": new.devices[1, 1]}
    structs = {
        "w": ft.ShapeDtypeStruct((8, 16), x.dtype, sharding=over),
        "b": tree["b"], "n": x[:3],
    }  # fmt: skip
    places = {
        "prefix": ft.load(tmp_path / path, columns),
        "like": ft.load(tmp_path / path, like=structs),
        "both": ft.load(tmp_path / path, columns, like=structs),
    }
    assert places["like"]["b"].sharding == tree["b"].sharding
    assert places["prefix"]["n"].device == new.devices[1, 1]
    for found in places.values():
        assert found["w"].sharding == over
        for name in tree:
            same(np.asarray(found[name]), np.asarray(tree[name]))
    with ft.set_mesh(new):
        assert ft.load(tmp_path / path, P())["w"].sharding == NamedSharding(new, P())
    if path == "folder":
        found = ft.load(tmp_path / path, new)
        assert found["w"].sharding == NamedSharding(new, P("x", "y"))
        assert found["b"].sharding == NamedSharding(new, P(("x", "y")))
        assert found["n"].sharding == NamedSharding(new, P())
    with pytest.raises(errors.ShapeError, match="cannot be divided"):
        ft.load(tmp_path / path, {**columns, "n": over})


def counted(read: Callable[[], Any]) -> tuple[int, Any]:
    """How many bytes this process reads of files meanwhile, as the system counts."""

    def count() -> int:
        text = Path("/proc/self/io").read_text()
        return int(re.findall(r"rchar: (\d+)", text)[0])

    own = -count() + count()
    first, found = count(), read()
    return count() - first - own, found


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="nobody counts")
def test_of_a_file_only_the_bytes_of_a_part_are_read(tmp_path: Path) -> None:
    x = np.arange(64 * 8192.0).reshape(64, 8192)
    ft.save(tmp_path / "x", {"x": x, "y": x})
    folder = Folder(tmp_path / "x")
    folder.read("x", ((0, 1), (0, 1)))  # the header
    boxes = [((8, 16), (0, 8192)), ((0, 64), (1024, 2048)), ((3, 4), (5, 7)),
             ((0, 64), (0, 8192)), ((2, 2), (0, 8192))]  # fmt: skip
    for box in boxes:
        (a, b), (c, d) = box
        count, found = counted(lambda box=box: folder.read("x", box))
        same(found, x[a:b, c:d])
        assert count == x[a:b, c:d].nbytes
    count, found = counted(lambda: folder.read("y", ((0, 64), (7, 9))))
    same(found, x[:, 7:9])
    assert count == 0  # short runs are read page by page, as the system maps them
    count, _ = counted(lambda: ft.load(tmp_path / "x"))
    assert 2 * x.nbytes < count < 2 * x.nbytes + 4096


# What is refused.


def test_what_like_says_is_required(tmp_path: Path) -> None:
    path, x = tmp_path / "x", np.ones((2, 3), np.float32)
    ft.save(path, {"w": x, "b": [x[0]], "n": 3})
    good = {"w": x, "b": [x[0]], "n": 0}
    rows: list[tuple[Any, Any, str]] = [
        ({**good, "w": x.T}, errors.ShapeError, r"'w'.*shape \(2, 3\).*\(3, 2\).*give"),
        ({**good, "w": x.astype(int)}, errors.DtypeError, "float32.*int64.*cast"),
        ({**good, "w": 1}, errors.ShapeError, r"\(2, 3\).*like= has \(\)"),
        ({**good, "c": x}, errors.TreeError, "x lacks 'c' of like=; give"),
        ({"w": x}, errors.TreeError, "has 'b/0', 'n' that like= has not; give"),
        ({**good, "w": "text"}, errors.ArgumentError, "numbers, got 'text' at 'w'"),
    ]
    for like, kind, message in rows:
        with pytest.raises(kind, match=message):
            ft.load(path, like=like)
    with pytest.raises(errors.TreeError, match="prefix"):
        ft.load(path, {"w": None})
    with pytest.raises(errors.ArgumentError, match="a device, its name, a sharding"):
        ft.load(path, 3)


def test_paths_that_are_none_of_ours(tmp_path: Path) -> None:
    x = np.ones(2)
    bad = errors.FileFormatError
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    rows: list[tuple[Callable[[], Any], Any, str]] = [
        (lambda: ft.load(tmp_path / "gone"), bad, "there is no such file"),
        (lambda: ft.load(tmp_path / "file"), bad, "cannot be read.*ftrace.save"),
        (lambda: ft.load(tmp_path / "empty"), bad, "no index.json.*finished"),
        (lambda: ft.save(tmp_path / "file", x), bad, "cannot be written.*is required"),
        (lambda: ft.save("/proc/nowhere/x", x), bad, "cannot be written"),
        (lambda: ft.save(3, x), errors.ArgumentError, "a path is required, got 3"),
        (lambda: ft.load(None), errors.ArgumentError, "a path is required"),
        (lambda: ft.save(tmp_path / "x", object()), errors.TreeError, "at 'array'"),
        (lambda: ft.save(tmp_path / "x.pt", x), errors.ValueRangeError, "a folder"),
    ]  # fmt: skip
    for function, kind, message in rows:
        with pytest.raises(kind, match=message):
            function()
    assert not (tmp_path / "x").exists()
    for path in ("x", "x.npz"):
        with pytest.raises(errors.ConcretizationTypeError):
            ft.jit(lambda x, path=path: ft.save(tmp_path / path, x))(x)


def test_what_was_cut_off_or_changed_says_so(tmp_path: Path) -> None:
    path, x = tmp_path / "x", np.arange(20.0)
    ft.save(path, {"x": x, "y": [np.ones(3, np.float16)]})
    (shard,) = path.glob("*.safetensors")
    for file in (shard, path / INDEX):
        whole = file.read_bytes()
        for length in range(0, len(whole), 9):
            file.write_bytes(whole[:length])
            with pytest.raises(errors.FileFormatError, match=r"cut off|damaged"):
                ft.load(path)
        for position in range(0, len(whole), 7):
            damaged = bytearray(whole)
            damaged[position] ^= 0x5A
            file.write_bytes(damaged)
            with suppress(errors.FtraceError):
                ft.load(path)
        file.write_bytes(whole)
    index = json.loads((path / INDEX).read_text())
    for change in (
        {"files": [["../" + shard.name, shard.stat().st_size]]},
        {"files": []},
        {"arrays": {"x": {"dtype": "float64", "shape": [10**15], "parts": []}}},
    ):
        (path / INDEX).write_text(json.dumps({**index, **change}))
        with pytest.raises(errors.FileFormatError):
            ft.load(path)
    os.unlink(shard)
    (path / INDEX).write_text(json.dumps(index))
    with pytest.raises(errors.FileFormatError, match=f"x: there is no {shard.name}"):
        ft.load(path)
