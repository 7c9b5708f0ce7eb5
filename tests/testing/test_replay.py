"""Programs in files: what is the same again, what changed, and broken files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ArgumentError, FileFormatError, ValueRangeError
from ftrace.lower import lowering
from ftrace.lower.legalize import legalize
from ftrace.testing.replay import Replay
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const_like
from ftrace.trace.rewrite import RULE_NAMES, Pat, Rule
from ftrace.transforms.array_files import read, write
from tests.replay import __main__ as command, programs
from tests.testing.test_bisect import AGREE, ROOT, WRONG, X, loss, with_rule


def again(path: Path, f: Any, *args: Any) -> Replay:
    ft.record(path, f, *args)
    return ft.replay(path)


def use_rule(rule: Rule, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lowering, "DEVICE_INDEPENDENT", with_rule(rule))
    RULE_NAMES.discard(rule.name)


SAME = [*AGREE, *programs.PROGRAMS.values()]


@pytest.mark.parametrize(("f", "args"), SAME)
def test_what_is_recorded_is_the_same_again(f: Any, args: Any, tmp_path: Path) -> None:
    for ending in (".npz", ".safetensors"):
        found = again(tmp_path / f"program{ending}", f, *args)
        assert (found.changes, found.results, found.same_bits) == ((), "", True)
        assert found.agrees
        assert "none changed; results: the same" in str(found)


def test_another_process_and_another_device(tmp_path: Path) -> None:
    path = tmp_path / "loss.npz"
    ft.record(path, loss, X)
    ran = subprocess.run(
        [sys.executable, "-c", f"import ftrace as ft; print(ft.replay({str(path)!r}))"],
        check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ran.stdout == f"{ft.replay(path)}\n"
    found = ft.replay(path, device="interpreter")
    assert (found.device, found.agrees, found.other_machine) == (
        "interpreter", True, True,
    )  # fmt: skip
    assert "code is not compared" in str(found)


def test_changed_kernels_are_told_apart_from_changed_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "loss.npz"
    ft.record(path, loss, X)
    with monkeypatch.context() as patch:
        # x - y -> x + (-1) y, whose results are the same
        minus = Pat(p.sub, Pat(name="x"), Pat(name="y"))
        use_rule(
            Rule("s", minus, lambda x, y: p.add(x, p.mul(y, const_like(y, -1)))), patch
        )
        found = ft.replay(path)
        assert found.agrees
        kinds = {change.kind for change in found.changes}
        assert kinds == {"changed"}
        assert "sub" in found.changes[0].difference
        assert "test_bisect.py" in found.changes[0].lines
        assert "changed: " in str(found)
    with monkeypatch.context() as patch:
        use_rule(WRONG, patch)
        found = ft.replay(path)
    assert not found.agrees
    assert found.results.startswith("result 0: ")
    assert "results: others" in str(found)


def test_kernels_that_came_and_went_have_names(tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    ft.record(path, lambda x: fnp.exp(x).sum(1, keepdims=True) * fnp.cumsum(x, 1), X)
    note = note_of(path)
    first = note["kernels"].pop(0)
    rewrite(path, note)
    found = ft.replay(path)
    assert [(x.kind, x.name) for x in found.changes] == [("new", first["name"])]
    note["kernels"] += [first, {**first, "name": "another", "identity": "another"}]
    rewrite(path, note)
    kinds = [x.kind for x in ft.replay(path).changes]
    assert "gone" in kinds or "changed" in kinds


def test_other_code_of_the_same_kernel_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.linspace(0.1, 1, 39, dtype=np.float32)
    right = legalize.DECOMPOSITIONS["sinh"]
    ft.record(tmp_path / "a.npz", fnp.sinh, x)

    def other(node: Any) -> Any:
        return p.mul(right(node), const_like(node, 1.0000001))

    monkeypatch.setitem(legalize.DECOMPOSITIONS, "sinh", other)
    ft.clear_caches()
    found = ft.replay(tmp_path / "a.npz")
    ft.clear_caches()
    assert [change.kind for change in found.changes] == ["code"]
    assert "other code: sinh_39" in str(found)
    assert found.agrees
    assert found.ulps > 0


def test_settings_are_those_of_the_record(tmp_path: Path) -> None:
    with ft.config(disabled_rules={"merge_reshapes"}):
        ft.record(tmp_path / "a.npz", loss, X)
    assert ft.replay(tmp_path / "a.npz").changes == ()


# What is refused.


def note_of(path: Path) -> Any:
    return json.loads(zlib.decompress(bytes(read(path)["record"])))


def rewrite(path: Path, note: Any) -> None:
    packed = np.frombuffer(zlib.compress(json.dumps(note).encode()), np.uint8)
    whole = {k: np.array(v) if k == "record" else [np.array(x) for x in v]
             for k, v in read(path).items()}  # fmt: skip
    write(path, {**whole, "record": packed})


def test_broken_files_are_errors_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    ft.record(path, loss, X)
    whole = path.read_bytes()
    with pytest.raises(FileFormatError, match="no such file"):
        ft.replay(tmp_path / "none.npz")
    for size in (0, 1, 10, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(FileFormatError):
            ft.replay(path)
    path.write_bytes(whole)
    ft.save(tmp_path / "other.npz", {"x": X})
    with pytest.raises(FileFormatError, match=r"no program that ftrace\.record"):
        ft.replay(tmp_path / "other.npz")
    with pytest.raises(ValueRangeError, match="must end in"):
        ft.replay(tmp_path / "other.txt")
    with pytest.raises(ft.errors.DeviceError):
        ft.replay(path, device="nowhere")


def _set(note: Any, keys: tuple[Any, ...], value: Any) -> Any:
    *outer, last = keys
    for key in outer:
        note = note[key]
    note[last] = value


@pytest.mark.parametrize(
    ("keys", "value", "told"),
    [
        (("form",), 99, "in form 99, and ftrace .* reads form"),
        (("graph", "nodes", 0, 0), "no_operation", "no primitive named 'no_operation'"),
        (("graph", "nodes", 0, 2), {"os:system": ["true"]}, "os:system is no kind"),
        (("graph", "nodes", 0, 2), {"ftrace.testing.replay:record": []}, "is no kind"),
        (("graph", "nodes", 0, 2), {"ftrace.nowhere:Class": []}, "No module named"),
        (("graph", "nodes", 0, 3), [999], "has not"),
        (("graph", "inputs", 0, 0, 0), "float33", "float33"),
        (("graph",), None, "damaged|has not"),
        (("kernels",), 3, "damaged|has not"),
    ],
)
def test_records_of_other_versions_are_errors_of_ours(
    keys: Any, value: Any, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.npz"
    ft.record(path, loss, X)
    note = note_of(path)
    _set(note, keys, value)
    rewrite(path, note)
    with pytest.raises(FileFormatError, match=told):
        ft.replay(path)


def test_what_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(ArgumentError, match="record"):
        ft.record(path, 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ZeroDivisionError):
        ft.record(path, lambda x: 1 / 0, X)
    with pytest.raises(ArgumentError, match="effects or dynamic sizes"):
        ft.record(path, lambda x: ft.debug.print("{}", x), X)
    with pytest.raises(ArgumentError, match="effects or dynamic sizes"):
        ft.record(path, ft.jit(fnp.sin, dynamic={"x": {0: "n"}}), X)
    with pytest.raises(ArgumentError, match="another process does not have it"):
        ft.record(path, lambda x: ft.pure_callback(np.sin, x, x), X)
    with pytest.raises(ArgumentError, match="got shapes"):
        ft.record(path, fnp.sin, ft.ShapeDtypeStruct((3,), "float32"))
    with pytest.raises(ValueRangeError, match="must end in"):
        ft.record(tmp_path / "a.txt", fnp.sin, X)
    with pytest.raises(FileFormatError):
        ft.record(tmp_path / "none" / "a.npz", fnp.sin, X)
    assert list(tmp_path.iterdir()) == []


# The command.


def test_the_command_records_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {name: programs.PROGRAMS[name] for name in ("sort", "logsumexp")}
    monkeypatch.setattr(programs, "PROGRAMS", few | {"loss": (loss, (X,))})
    assert command.main(["--record", str(tmp_path)]) == 0
    assert command.main([str(tmp_path)]) == 0
    assert "3 programs: 0 with other kernels, 0 with other results" in _out(capsys)
    with monkeypatch.context() as patch:
        use_rule(WRONG, patch)
        assert command.main([str(tmp_path)]) == 1
    told = _out(capsys)
    assert "loss: replay loss" in told
    assert "1 with other kernels, 1 with other results" in told
    (tmp_path / "loss.npz").write_bytes(b"")
    assert command.main([str(tmp_path)]) == 0
    assert "1 not read" in _out(capsys)
    assert command.main(["--ref", "no-such-commit"]) == 1
    assert "no commit 'no-such-commit' here" in _out(capsys)


def test_the_base_is_the_last_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there is a tag, the first commit that has `ft.record`."""
    says = {"describe": b"v0.1.0\n", "log": b"c3\nc2\nc1\n"}

    def git(*args: str) -> Any:
        return subprocess.CompletedProcess(args, 0, says[args[0]], b"")

    monkeypatch.setattr(command, "_git", git)
    assert command.last_release() == "v0.1.0"
    says["describe"] = b""
    assert command.last_release() == "c1"
    says["log"] = b""
    assert command.last_release() == ""
    assert command.main([]) == 0


def _out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out
