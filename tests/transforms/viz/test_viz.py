"""The page of `viz` says of a program what the program is, and is one file."""

from __future__ import annotations

import json
import os
import re
import sys
import webbrowser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import ArgumentError, FileFormatError, ShapeError
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P
from ftrace.trace.graph import toposort


def layer(w: Any, x: Any) -> Any:
    h = fnp.tanh(x @ w) * 1.0
    return h - h.mean()  # </script><!-- is text like any other


W, X = fnp.ones((64, 32)), fnp.ones((96, 64))


def data_of(picture: Any) -> dict[str, Any]:
    """What the page's scripts read."""
    element = r'<script type="application/json" id="data">(.*?)</script>'
    (found,) = re.findall(element, picture.page, re.DOTALL)
    return json.loads(found)


def walked(data: dict[str, Any], step: dict[str, Any]) -> set[int]:
    """The nodes of a step's graph."""
    pending, seen = [*step["outputs"]], set[int]()
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending += data["nodes"]["src"][node]
    return seen


@pytest.fixture
def picture(tmp_path: Path) -> Any:
    return ft.viz(ft.jit(layer), tmp_path / "layer.html", show=False)(W, X)


def test_a_page_is_written_and_its_path_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = ft.viz(layer, tmp_path)(W, X)
    assert capsys.readouterr().out == f"{tmp_path / 'layer.html'}\n"
    assert picture.path.read_text() == picture.page
    assert repr(picture) == f"<picture of layer: {picture.path}>"
    assert [*tmp_path.iterdir()] == [picture.path]


def test_without_a_path_each_page_has_a_file_of_its_own() -> None:
    first, second = ft.viz(layer)(W, X), ft.viz(layer)(W, X)
    assert first.path.name == "layer.html"
    assert first.path != second.path


def test_steps_are_the_graph_and_what_each_pass_makes_of_it(picture: Any) -> None:
    data, explained = data_of(picture), picture.explained
    first, *passes, last = data["steps"]
    graphs = [explained.closed, *[graph for _, graph in explained.passes]]
    names = [name for name, _ in explained.passes]
    assert [step["name"] for step in passes] == names
    assert (first["name"], last["name"]) == ("traced", "kernels")
    assert [step["before"] for step in data["steps"]] == [-1, *range(len(passes) + 1)]
    for step, graph in zip([first, *passes], graphs, strict=True):
        assert len(walked(data, step)) == len(toposort(graph.outputs))


def test_rules_that_fired_replace_a_value_by_one_of_its_type(picture: Any) -> None:
    data = data_of(picture)
    fired = [row for step in data["steps"] for row in step["fired"]]
    assert "fold_mul_one" in {data["texts"][rule] for rule, *_ in fired}
    for _, *nodes in fired:
        types = [data["texts"][data["nodes"]["type"][n]] for n in nodes]
        assert len({text.replace("~", "") for text in types}) == 1


def test_rules_lead_from_the_graph_before_a_pass_to_the_one_after(picture: Any) -> None:
    data = data_of(picture)
    for step in data["steps"][1:-1]:
        before = walked(data, data["steps"][step["before"]])
        after, rows = walked(data, step), [row[3:] for row in step["fired"]]
        assert rows[0][0] in before  # nothing else was there
        assert any(end in after for _, end in rows)
        ops = data["nodes"]["op"]
        for old, new in step["renewed"]:
            assert (old in before, new in after, ops[old] == ops[new]) == (True,) * 3
            assert data["nodes"]["line"][old] == data["nodes"]["line"][new]


def test_lines_are_those_of_the_function_with_their_text(picture: Any) -> None:
    data = data_of(picture)
    (file,) = data["files"]
    assert file["path"] == __file__
    ((first, rows),) = file["blocks"]
    assert rows[0] == "def layer(w: Any, x: Any) -> Any:"
    texts = {rows[line - first].strip() for _, line, _ in data["lines"]}
    assert texts == {row.strip() for row in rows[1:]}
    assert {function for _, _, function in data["lines"]} == {"layer"}


def test_kernels_have_statements_that_lead_to_nodes_and_lines(picture: Any) -> None:
    data, explained = data_of(picture), picture.explained
    for row, part in zip(data["kernels"], explained.kernels, strict=True):
        texts = [text for text, _, _ in row["statements"]]
        assert texts == [line.strip() for line in str(part.step.kernel).split("\n")[1:]]
        assert row["name"] == part.name
        assert data["texts"][row["source"]] == part.source
        assert row["seconds"] == part.seconds
        known = [node for _, line, node in row["statements"] if line >= 0 and node >= 0]
        assert set(known) & set(row["nodes"])
    of_last = walked(data, data["steps"][-1])
    computed = {node for row in data["kernels"] for node in row["nodes"]}
    kinds = [data["texts"][kind] for kind in data["nodes"]["kind"]]
    assert computed <= of_last
    assert {n for n in of_last if kinds[n] in ("product", "elementwise")} <= computed


def rows_of(fun: Any, x: Any, folder: Path) -> tuple[dict[str, Any], list[Any]]:
    """The page of a program, and of its statements (operation, text of the line)."""
    data = data_of(ft.viz(fun, folder, show=False)(x))
    file, line = data["files"], data["lines"]

    def text(number: int) -> str:
        (rows,) = [
            rows[line[number][1] - first]
            for first, rows in file[line[number][0]]["blocks"]
            if first <= line[number][1] < first + len(rows)
        ]
        return rows.strip()

    texts, ops = data["texts"], data["nodes"]["op"]
    found = [
        (texts[ops[node]], text(at), kernel["depth"])
        for kernel in data["kernels"]
        for _, at, node in kernel["statements"]
        if node >= 0 and at >= 0
    ]
    return data, found


def scanned(c: Any, row: Any) -> Any:
    turned = fnp.sin(c) * row
    return turned, turned


LOOPS = [
    lambda x: lax.scan(lambda c, row: scanned(c @ x, row), x[0], x),
    lambda x: lax.scan(scanned, x[0], x),  # in registers
    lambda x: lax.while_loop(
        lambda c: c.sum() < 9, lambda c: scanned(c @ x, c)[0], x
    ),
    lambda x: lax.cond(x.sum() > 0, lambda x: scanned(x @ x, x)[0], fnp.cos, x),
]  # fmt: skip


@pytest.mark.parametrize("fun", LOOPS)
def test_statements_of_bodies_lead_to_their_nodes_and_lines(
    fun: Any, tmp_path: Path
) -> None:
    data, found = rows_of(fun, fnp.ones((40, 40)), tmp_path)
    lines = {text for op, text, _ in found if op == "sin"}
    assert lines == {"turned = fnp.sin(c) * row"}
    for kernel in data["kernels"]:
        ends = [n for body in kernel["bodies"] for part in body for n in part]
        assert all(0 <= n < len(data["nodes"]["op"]) for n in ends)
        if kernel["depth"]:
            assert data["kernels"][kernel["parent"]]["bodies"][kernel["body"]]


def test_inputs_have_the_names_that_the_user_gave_them(tmp_path: Path) -> None:
    offset = fnp.ones(32)
    picture = ft.viz(
        lambda batch, *, w: batch["x"] @ w + offset, tmp_path / "a.html"
    )({"x": X}, w=W)  # fmt: skip
    data = data_of(picture)
    inputs = data["steps"][0]["inputs"]
    names = [data["texts"][data["nodes"]["arg"][n]] for n in inputs]
    assert names == ["batch['x']", "w", "offset"]


class Affine:
    def __init__(self) -> None:
        self.parts = {"w": W + 1.0, "shift": fnp.ones(32)}
        self.scale = fnp.full(32, 2.0)

    def __call__(self, x: Any) -> Any:
        return (x @ self.parts["w"] + self.parts["shift"]) * self.scale

    def step(self, x: Any) -> Any:
        return self(x) @ WIDE


AFFINE, WIDE = Affine(), fnp.ones((32, 8))


@pytest.mark.parametrize(
    ("fun", "wanted"),
    [
        (AFFINE.step, {"self.parts['w']", "self.parts['shift']", "self.scale", "WIDE"}),
        (lambda x: AFFINE(x), {
            "AFFINE.parts['w']", "AFFINE.parts['shift']", "AFFINE.scale"}),
        (lambda x: x + fnp.asarray(np.ones(64)), None),
    ],
)  # fmt: skip
def test_what_is_captured_has_the_name_that_the_function_has_for_it(
    fun: Any, wanted: set[str] | None, tmp_path: Path
) -> None:
    for made in (fun, ft.jit(fun)):
        data = data_of(ft.viz(made, tmp_path / "a.html", show=False)(X))
        inputs = data["steps"][0]["inputs"]
        names = [data["texts"][data["nodes"]["arg"][n]] for n in inputs]
        assert names[0] == "x"
        if wanted is None:
            assert all(name.startswith("captured") for name in names[1:])
        else:
            assert {*names[1:]} == wanted


PROGRAMS = [
    lambda x: x,
    lambda x: 1.0,
    lambda x: {"a": fnp.linalg.svd(x)[1], "b": x[:0]},
    lambda x: lax.scan(lambda c, v: (c * v, c), x[0], x),
    lambda x: lax.cond(x.sum() > 0, lambda: x, lambda: -x),
    lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: fnp.sort(c) + x, x),
    lambda x: ft.random.normal(ft.random.key(0), x.shape) + x,
    lambda x: ft.debug.print("{}", x) or x,
    lambda x: ft.grad(lambda x: fnp.fft.fft(x).real.sum())(x),
]


@pytest.mark.parametrize("fun", PROGRAMS)
@pytest.mark.parametrize("known", [True, False])
def test_any_program_has_a_page(fun: Any, known: bool, tmp_path: Path) -> None:
    x = fnp.ones((8, 8)) if known else ft.ShapeDtypeStruct((8, 8), np.float32)
    picture = ft.viz(fun, tmp_path)(x)
    data, count = data_of(picture), len(picture.explained.kernels)
    assert sum(not row["depth"] for row in data["kernels"]) == count
    bodies = data["nodes"]["bodies"].values()
    ends = [n for held in bodies for body in held for part in body for n in part]
    assert all(0 <= n < len(data["nodes"]["op"]) for n in ends)


def test_programs_of_open_sizes_and_with_references_have_pages(tmp_path: Path) -> None:
    doubled = ft.jit(lambda x: (x * 2).sum(0), dynamic={0: {0: "n"}})
    (row,) = data_of(ft.viz(doubled, tmp_path)(X))["kernels"]
    assert "n" in row["operations"]
    total = ft.new_ref(fnp.zeros(64))

    def add_up(x: Any) -> Any:
        total[...] = total[...] + x.sum(0)
        return total[...] * 2

    assert data_of(ft.viz(add_up, tmp_path)(X))["kernels"]
    assert (total[...] == 0).all()


@pytest.mark.usefixtures("quick_limits")
@pytest.mark.parametrize("name", ["interpreter", "opencl"])
def test_other_devices_have_pages(name: str, tmp_path: Path) -> None:
    if name == "opencl":
        pytest.importorskip("pyopencl")
    data = data_of(ft.viz(ft.jit(layer, device=name), tmp_path)(W, X))
    assert data["device"] == name
    assert data["kernels"]


def test_a_divided_program_shows_its_collectives(tmp_path: Path) -> None:
    with ft.config(cpu_devices=8):
        mesh = ft.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

        def put(*shape: int, spec: Any) -> Any:
            x = np.ones(shape, np.float32)
            return ft.device_put(x, NamedSharding(mesh, spec))

        def layers(x: Any, w: Any, v: Any) -> Any:
            return fnp.tanh(x @ w) @ v

        args = (
            put(64, 16, spec=P("data")), put(16, 32, spec=P(None, "model")),
            put(32, 16, spec=P("model")),
        )  # fmt: skip
        data = data_of(ft.viz(layers, tmp_path)(*args))
        text = ft.explain_sharding(layers)(*args)
    (row,) = data["collectives"]
    assert row[:5] == ["psum", "model", "f32[32,16]", 3072, 1]
    assert "psum over 'model' of f32[32,16] for reduce_sum: 3072 bytes" in text
    steps = {step["name"]: step for step in data["steps"]}
    numbers = [data["nodes"]["op"][n] for n in walked(data, steps["per device"])]
    assert [data["texts"][n] for n in numbers].count("psum") == 1
    types = steps["sharded"]["types"].values()
    assert "f32[64@data,16]" in {data["texts"][n] for n in types}
    # What follows is what a device does, from step to step.
    after = data["steps"][[*steps].index("exchanges") :]
    assert [step["before"] for step in after[1:]] == [*range(3, 2 + len(after))]
    assert after[-1]["name"] == "kernels"
    shapes = {data["texts"][data["nodes"]["type"][n]] for n in walked(data, after[-1])}
    assert "f32[32,16]" in shapes
    assert not any("[64," in shape for shape in shapes)
    assert "'data': 2, 'model': 4" in data["mesh"]


# What can go wrong.


def test_a_function_that_fails_to_trace_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ShapeError):
        ft.viz(layer, tmp_path)(W, X[:, :5])
    assert not [*tmp_path.iterdir()]


def test_where_nothing_can_be_written_the_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "a.html", tmp_path / "file" / "a.html"):
        with pytest.raises(FileFormatError, match=re.escape(f"{path}: it cannot be")):
            ft.viz(layer, path)(W, X)
    if os.name == "posix" and os.geteuid():  # root writes anywhere
        tmp_path.chmod(0o500)
        with pytest.raises(FileFormatError, match=r"layer.html: it cannot be written"):
            ft.viz(layer, tmp_path)(W, X)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match="viz"):
        ft.viz(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("screen", [True, False])
@pytest.mark.parametrize("show", [True, False])
def test_a_browser_opens_where_there_is_a_screen(
    screen: bool, show: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0" if screen else "")
    picture = ft.viz(layer, tmp_path, show=show)(W, X)
    assert opened == ([picture.path.as_uri()] if screen and show else [])


def test_a_notebook_shows_the_page_below_the_cell(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = SimpleNamespace(kernel=None)
    fake: Any = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    picture = ft.viz(layer, tmp_path)(W, X)
    assert capsys.readouterr().out == ""
    text = picture._repr_html_()
    assert text.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert text.count('"') == 10
    assert f'href="{picture.path.as_uri()}"' in text
    object.__setattr__(picture, "page", "x" * 10_000_000)
    assert picture._repr_html_().startswith("<a href=")


def test_a_page_asks_for_nothing_else(picture: Any) -> None:
    page = picture.page
    assert "default-src 'none'" in page
    assert not re.search(r"<(link|img|iframe|script)[^>]*(src|href)=", page)
    ours = re.sub(r"/\*! dagre.*?</script>", "", page, flags=re.DOTALL)
    assert set(re.findall(r"https?://[^\s\"]+", ours)) == {"http://www.w3.org/2000/svg"}
    assert "Permission is hereby granted, free of charge" in page
    assert "sourceMappingURL" not in page
