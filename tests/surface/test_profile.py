"""A profile says where time went, in a format that viewers read, whatever happens."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, profiler
from ftrace.ground import spans
from ftrace.trace.tiering import TRACED_BEFORE_GRAPH

W, X = fnp.ones((640, 320)), fnp.ones((960, 640))


def layer(w: Any, x: Any) -> Any:
    return fnp.tanh(x @ w).sum()


def looped(x: Any) -> Any:
    return ft.lax.scan(lambda c, _: (fnp.sin(c @ c), None), x, None, length=3)[0]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    assert spans.recorders == []
    assert ft.config.observed == 0


def read(path: Path) -> list[dict[str, Any]]:
    """The events of a file, each of which is one of the format."""
    whole = path.read_bytes()
    text = gzip.decompress(whole) if path.suffix == ".gz" else whole
    found = json.loads(text, parse_constant=pytest.fail)  # no NaN
    events = found["traceEvents"]
    for event in events:
        assert {"ph", "ts", "pid", "tid", "name"} <= event.keys()
        assert event["ph"] in ("X", "M")
        assert all(type(event[name]) is int for name in ("pid", "tid"))
    spent = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] >= 0 and e["ts"] >= 0 and e["cat"] for e in spent)
    for tid in {e["tid"] for e in events}:
        check_nesting([e for e in spent if e["tid"] == tid])
    named = [e["tid"] for e in events if e["name"] == "thread_name"]
    assert {e["tid"] for e in spent} <= set(named)
    return spent


def check_nesting(events: list[dict[str, Any]]) -> None:
    """Of two spans of a thread one is within the other, or before it."""
    open_: list[int] = []  # their ends, in nanoseconds
    starts = [(round(e["ts"] * 1e3), -round(e["dur"] * 1e3)) for e in events]
    for start, negative in sorted(starts):
        while open_ and open_[-1] <= start:
            open_.pop()
        assert not open_ or start - negative <= open_[-1]
        open_.append(start - negative)


def test_every_stage_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with ft.profile(path) as found, ft.config(cache_size=0):
        ft.jit(ft.grad(lambda w: layer(w, X)))(W)
        ft.jit(ft.vmap(looped))(fnp.ones((2, 8, 8)))
        fnp.sum(X) + 1
    events = read(path)
    kinds = {"call", "trace", "transform", "pass", "compile", "codegen", "llvm", "run"}
    assert kinds | {"eager"} <= {e["cat"] for e in events}
    names = {e["name"] for e in events if e["cat"] == "transform"}
    assert names == {"jvp", "transpose", "vmap"}
    passes = {e["name"] for e in events if e["cat"] == "pass"}
    assert {"simplify", "movement", "fusion", "memory"} <= passes
    (loop,) = [e for e in events if e["name"].startswith("loop of 3")]
    inner = [e for e in events if e["cat"] == "run" and is_within(e, loop)]
    assert len(inner) % 3 == 0
    assert inner
    assert all("test_profile.py" in e["args"]["line"] for e in inner)
    assert len(events) == len(found.spans)


def is_within(e: dict[str, Any], other: dict[str, Any]) -> bool:
    inside = other["ts"] <= e["ts"] <= other["ts"] + other["dur"]
    return e is not other and e["tid"] == other["tid"] and inside


@pytest.mark.skipif(ft.devices()[0].cores < 2, reason="one thread has all pieces")
def test_threads_that_share_a_kernel_have_lines_of_their_own() -> None:
    f = ft.jit(layer)
    f(W, X)
    with ft.profile("/dev/null") as found, ft.config(threads=2):
        for _ in range(20):
            f(W, X)
    pieces = [s for s in found.spans if s.kind == "piece"]
    assert len({s.thread for s in pieces}) == 2
    runs = [s for s in found.spans if s.kind == "run"]
    for piece in pieces:
        around = [r for r in runs if r.start <= piece.start and piece.end <= r.end]
        assert [r.name for r in around] == [piece.name]


@pytest.mark.parametrize("traced", range(TRACED_BEFORE_GRAPH + 2))
def test_the_summary_adds_up_by_line(
    traced: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ft.clear_caches()
    for _ in range(traced):  # however often its compositions have been traced
        ft.make_graph(lambda x: layer(W, x))(X)
    f = ft.jit(lambda x: layer(W, x))
    with ft.profile() as found:
        for _ in range(3):
            f(X)
    text = capsys.readouterr().out
    assert text.startswith("profile of ")
    assert text.strip() == str(found)
    assert "test_profile.py" in text
    (computing,) = [row for row in found.rows if "(layer)" in row.line]
    assert computing.times == 3 * len(f.lower(X).kernels)
    assert set(computing.kinds) == {"running"}
    total = sum(row.seconds for row in found.rows)
    assert 0 < total <= found.seconds
    np.testing.assert_allclose(sum(found.kinds.values()), total, rtol=1e-9)
    assert 0.99 < total / found.seconds + 1 - sum(r.share for r in found.rows) < 1.01
    assert "<table>" in found._repr_html_()


def test_what_is_compiled_for_eager_control_flow_is_of_its_line() -> None:
    ft.clear_caches()
    with ft.profile("/dev/null") as found:
        ft.lax.while_loop(lambda a: a < 3.0, lambda a: a + 1.25, fnp.zeros(()))
    compiled = [s for s in found.spans if s.kind in ("compile", "trace")]
    assert {s.kind for s in compiled} == {"compile", "trace"}
    assert all("test_profile.py" in str(s.lines[0]) for s in compiled)
    assert not [row for row in found.rows if row.line == "of no line"]


def test_what_recording_takes_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with ft.profile() as found:
        for _ in range(50):
            fnp.sin(X)
    assert 0 < found.overhead < found.seconds - sum(found.kinds.values())
    assert "recording eager calls" in capsys.readouterr().out
    with ft.profile("/dev/null") as found:
        pass
    assert found.overhead == 0


def test_what_threads_share_counts_once() -> None:
    """Iterations that run at the same time, on threads that are not Python's."""
    xs = fnp.ones((64, 200, 200))

    def body(x: Any) -> Any:
        return ft.lax.fori_loop(0, 3, lambda i, c: fnp.sin(c @ c), x)

    f = ft.jit(lambda xs: ft.lax.map(body, xs))
    f(xs)
    with ft.profile("/dev/null") as found:
        f(xs)
    assert sum(found.kinds.values()) <= found.seconds
    assert found.kinds["running"] > 0.5 * found.seconds


def test_programs_from_disk_have_lines(tmp_path: Path) -> None:
    def run() -> ft.Array:
        ft.clear_caches()
        return ft.jit(lambda x: looped(x * 3))(fnp.ones((9, 9)))

    with ft.config(cache_dir=str(tmp_path)):
        run()
        with ft.profile("/dev/null") as found:
            run()
    lines = {str(line) for s in found.spans if s.kind == "run" for line in s.lines}
    assert lines
    assert all("test_profile.py" in line for line in lines)


@pytest.mark.parametrize("device", ["interpreter", "opencl"])
def test_other_devices_are_recorded(device: str) -> None:
    if device == "opencl":
        pytest.importorskip("pyopencl")
    with ft.profile("/dev/null") as found:
        ft.jit(looped, device=device)(fnp.ones((8, 8))).block_until_ready()
    runs = [s for s in found.spans if s.kind == "run"]
    assert len(runs) > 3
    assert all(s.lines for s in runs)
    copies = {s.name for s in found.spans if s.kind == "copy"}
    assert device != "opencl" or "to opencl" in copies


def test_calls_become_native_after_a_profile() -> None:
    f = ft.jit(lambda x: x + 1)
    with ft.profile("/dev/null"):
        for _ in range(200):
            f(1.0)
    assert f.cache_info().native == 0
    for _ in range(200):
        f(1.0)
    if ft.config.native_calls and ft.devices()[0].native() is not None:
        assert f.cache_info().native > 0


# What goes wrong.


def test_a_block_that_fails_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out.json.gz"

    def bad(x: Any) -> Any:
        return fnp.ones(3) + fnp.ones(4)

    with pytest.raises(errors.ShapeError), ft.profile(path):
        ft.jit(bad)(1.0)
    (trace, *_) = [e for e in read(path) if e["cat"] == "trace"]
    assert trace["name"] == "bad"
    assert trace["args"]["error"] == "ShapeError"
    with suppress(KeyboardInterrupt), ft.profile(path):
        raise KeyboardInterrupt
    assert read(path) == []


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    ran: list[int] = []
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "out.json", tmp_path / "file" / "x", tmp_path):
        with pytest.raises(errors.FileFormatError, match="name a file"):  # noqa: SIM117
            with ft.profile(path):
                ran.append(1)
    with pytest.raises(errors.FileFormatError, match="cannot be written"):
        profiler.start_trace(tmp_path / "file")
    assert not ran


@pytest.mark.parametrize("file", [3, None, 1.5, layer, ["a"]])
def test_what_names_no_file_is_refused(file: Any) -> None:
    if file is None:
        assert ft.profile(file).file is None
        return
    with pytest.raises(errors.ArgumentError, match="the name of a file"):
        ft.profile(file)


def test_profiles_nest(tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer.json", tmp_path / "inner.json"
    f = ft.jit(lambda x: x * 2)
    with ft.profile(outer) as first:
        f(1.0)
        with ft.profile(inner), profiler.trace(tmp_path / "jax"):
            f(2.0)
            with pytest.raises(errors.DeviceError, match="already"):
                first.__enter__()
        f(3.0)
    assert [e["cat"] for e in read(outer)].count("call") == 3
    assert [e["cat"] for e in read(inner)].count("call") == 1
    (file,) = (tmp_path / "jax").rglob("*.trace.json.gz")
    assert [e["cat"] for e in read(file)].count("call") == 1


def test_all_threads_are_recorded(tmp_path: Path) -> None:
    path, f = tmp_path / "out.json", ft.jit(layer)
    results: list[Any] = []

    def work() -> None:
        for _ in range(10):
            results.append(f(W, X))

    with ft.profile(path) as found:
        threads = [threading.Thread(target=work, name=f"loader {i}") for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 30
    steps = len(f.lower(W, X).kernels)
    assert [s.kind for s in found.spans].count("run") == 30 * steps
    names = {
        e["args"]["name"]
        for e in json.loads(path.read_text())["traceEvents"]
        if e["name"] == "thread_name"
    }
    assert {"loader 0", "loader 1", "loader 2"} <= names
    read(path)


def test_nothing_is_printed_where_there_is_no_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    with ft.profile() as found:
        ft.jit(lambda x: x + 1)(1.0)
    assert found.rows


def test_loops_of_very_many_steps_keep_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ftrace.backends.llvm.runtime.step_log.ROWS", 100)
    x = fnp.ones((4, 4))
    with ft.profile("/dev/null") as found:
        ft.jit(lambda x: ft.lax.fori_loop(0, 500, lambda i, c: fnp.sin(c @ c.T), x))(x)
    runs = [s for s in found.spans if s.kind == "run"]
    assert 1 < len(runs) <= 101
    (loop,) = [s for s in runs if s.name.startswith("loop")]
    assert max(s.end for s in runs) <= loop.end


# JAX's names.


def test_annotations_name_blocks(tmp_path: Path) -> None:
    with profiler.trace(tmp_path, create_perfetto_trace=True):
        with profiler.StepTraceAnnotation("train", step_num=2) as step:
            assert step.is_enabled()
            step.set_metadata(loss=float("nan"), shape=(2, 3))
            ft.jit(lambda x: fnp.sin(x) @ x.T)(fnp.ones((2, 3)))
        profiler.annotate_function(lambda: None, name="named", a=1)()
    assert not profiler.TraceAnnotation.is_enabled()
    first, second = tmp_path.rglob("*.json.gz")
    assert read(first) == read(second)
    blocks = [e for e in read(first) if e["cat"] == "annotation"]
    assert [e["name"] for e in blocks] == ["train", "named"]
    args = blocks[0]["args"]
    assert args.pop("line").startswith("test_profile.py")
    assert args == {"step_num": 2, "loss": "nan", "shape": "(2, 3)"}
    with pytest.raises(errors.DeviceError, match="start_trace"):
        profiler.stop_trace()


def test_annotated_functions_run_on_several_threads() -> None:
    barrier = threading.Barrier(2, timeout=60)
    waits = profiler.annotate_function(lambda: barrier.wait(), name="waits")
    with ft.profile("/dev/null") as found:
        threads = [threading.Thread(target=waits) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    named = [s for s in found.spans if s.name == "waits"]
    assert len(named) == len({s.thread for s in named}) == 2


def test_a_file_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "out.json.gz"
    with ft.profile(path), profiler.TraceAnnotation("block", a=1):
        ft.jit(lambda x: x + 1)(1.0)
    data = profiler.ProfileData.from_file(path)
    (plane,) = data.planes
    assert data.find_plane_with_name(plane.name) is plane
    assert data.find_plane_with_name("none") is None
    main = next(line for line in plane.lines if line.name == "MainThread")
    (block,) = [e for e in main.events if e.name == "block"]
    assert dict(block.stats)["a"] == 1
    assert all(
        block.start_ns <= e.start_ns and e.end_ns <= block.end_ns for e in main.events
    )
    assert len(read(path)) == sum(len(line.events) for line in plane.lines)
    (tmp_path / "bad").write_text('{"traceEvents": 3}')
    for name in ("bad", "none"):
        with pytest.raises(errors.FileFormatError):
            profiler.ProfileData.from_file(tmp_path / name)


def test_options_name_the_folder(tmp_path: Path) -> None:
    options = profiler.ProfileOptions()
    options.session_id, options.python_tracer_level = "first", 0
    with profiler.trace(tmp_path, profiler_options=options):
        pass
    assert [file.parent.name for file in tmp_path.rglob("*.gz")] == ["first"]


def fields_of(message: bytes) -> list[tuple[int, Any]]:
    """The fields of a message of protocol buffers: (number, value)."""
    found: list[tuple[int, Any]] = []
    while message:
        key, message = varint(message)
        value: Any
        value, message = varint(message)
        if key & 7 == 2:
            value, message = message[:value], message[value:]
        found.append((key >> 3, value))
    return found


def varint(message: bytes) -> tuple[int, bytes]:
    value = shift = 0
    for i, byte in enumerate(message):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, message[i + 1 :]
    pytest.fail("a number that does not end")


def test_memory_is_told_as_pprof_reads_it(tmp_path: Path) -> None:
    held = [ft.device_put(np.zeros((3, 777), np.float32)) for _ in range(5)]
    profiler.save_device_memory_profile(tmp_path / "memory", "cpu")
    fields = fields_of(gzip.decompress((tmp_path / "memory").read_bytes()))
    texts = [value.decode() for number, value in fields if number == 6]
    kinds = [dict(fields_of(value)) for number, value in fields if number == 1]
    assert [(texts[k[1]], texts[k[2]]) for k in kinds] == [
        ("allocations", "count"), ("space", "bytes"),
    ]  # fmt: skip
    functions = [dict(fields_of(value)) for number, value in fields if number == 5]
    names = {f[1]: texts[f[2]] for f in functions}
    lines = [dict(fields_of(value)) for number, value in fields if number == 4]
    places = {place[1]: names[dict(fields_of(place[4]))[1]] for place in lines}
    found: dict[str, tuple[int, int]] = {}
    for sample in [dict(fields_of(value)) for number, value in fields if number == 2]:
        (count, rest), (place, _) = varint(sample[2]), varint(sample[1])
        found[places[place]] = count, varint(rest)[0]
    (row,) = [value for name, value in found.items() if "3,777" in name]
    assert row == (5, sum(x.nbytes for x in held))
    with pytest.raises(errors.FileFormatError):
        profiler.save_device_memory_profile(tmp_path / "none" / "memory")
