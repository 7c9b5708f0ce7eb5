"""What `explain` says of a program is what the program is."""

from __future__ import annotations

import html
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import ArgumentError
from ftrace.trace.graph import names_of
from ftrace.transforms.viz import explain as module
from ftrace.transforms.viz.explain import Roofline
from ftrace.transforms.viz.regions import regions_of


def layer(w: Any, x: Any) -> Any:
    return fnp.tanh(x @ w)


W, X = fnp.ones((64, 32)), fnp.ones((96, 64))


def test_kernels_are_told_with_lines_work_and_times() -> None:
    found = ft.explain(ft.jit(layer))(W, X)
    assert len(found.kernels) == len(ft.jit(layer).lower(W, X).kernels)
    product = found.kernels[0]
    assert product.operations >= 2 * 96 * 64 * 32
    assert product.nbytes >= 4 * (96 * 64 + 64 * 32 + 96 * 32)
    assert product.seconds is not None
    assert product.seconds > 0
    assert {origin.function for origin in product.origins} == {"layer"}
    assert (found.arguments, found.results) == (W.nbytes + X.nbytes, 96 * 32 * 4)
    text = str(found)
    assert text.startswith("layer on cpu, ")
    assert f"0 {product.name} " in text
    assert "test_explain.py" in text
    assert "limits of this machine: " in text
    assert " of arithmetic" in text or " of memory" in text


@pytest.mark.parametrize(
    ("fun", "elements"),
    [
        (lambda x: x[0] + 1, 64 + 64),
        (lambda x: x[:, :2].sum(), 96 * 2 + 1),
        (lambda x: x[::2, 1] + x[::2, 3], 3 * 48),
        (lambda x: x[x[0, 0].astype(int)] * 2, 1 + 64 + 64),
        (lambda x: x[1:] + x[:-1], 96 * 64 + 95 * 64),  # each element once
        (lambda x: fnp.broadcast_to(x[0, 0] * 2, (50,)), 1 + 50),
    ],
)
def test_bytes_are_those_that_a_kernel_touches(fun: Any, elements: int) -> None:
    (kernel,) = ft.explain(fun)(X).kernels
    assert kernel.nbytes == 4 * elements


def test_code_and_schedule_can_be_asked_for() -> None:
    found = ft.explain(layer)(W, X)
    kernel = found.kernels[0]
    assert "for units of" in kernel.schedule
    assert "define void" in kernel.source
    assert "ret" in kernel.assembly
    assert kernel.schedule in str(kernel)
    assert "load buffer" in str(kernel)
    passes = ft.explain(lambda x: (x * 1 + x.T.T).sum(0))(X).passes
    assert passes[0][0] == "simplify"
    assert len(passes[0][1].nodes) < 9
    assert all(graph.outputs[0].shape == (64,) for _, graph in passes)


@pytest.mark.usefixtures("quick_limits")
@pytest.mark.parametrize("name", ["interpreter", "opencl"])
def test_other_devices_tell_what_they_know(name: str) -> None:
    if name == "opencl":
        pytest.importorskip("pyopencl")
    found = ft.explain(ft.jit(layer, device=name))(W[:8, :4], X[:6, :8])
    assert found.device.name == name
    assert len(str(found).splitlines()) > 3


def test_memory_is_told_by_its_largest_values() -> None:
    found = ft.explain(lambda x: fnp.sort(fnp.sort(x, 0) + 1, 1))(fnp.ones((50, 70)))
    assert found.program.arena >= 50 * 70 * 4
    text = str(found)
    assert re.search(r"between steps \S+ kB; at step 1 most\n", text)
    assert re.search(r"  float32\[..,..\] +14 kB +\d +\d  test_explain.py", text)


def first_line(w: Any, x: Any) -> Any:
    return fnp.tanh(x @ w)


def second_line(h: Any, v: Any) -> Any:
    return fnp.exp(h @ v)


def test_each_part_of_the_peak_has_the_line_that_made_it() -> None:
    """Two values that both products read are there when the last one runs."""
    v, u = fnp.ones((32, 4)), fnp.ones((4, 96))

    def both(w: Any, x: Any) -> Any:
        h = first_line(w, x)
        return second_line(h, v) @ (u @ h)

    peak = ft.explain(both)(W, X).peak
    rows = {(held.nbytes, held.origin.function) for held in peak.parts if held.origin}
    assert (96 * 32 * 4, "first_line") in rows
    assert (96 * 4 * 4, "second_line") in rows
    assert peak.nbytes == sum(held.nbytes for held in peak.parts)
    assert all(held.first <= peak.step <= held.last for held in peak.parts)
    empty = ft.explain(lambda x: x)(1.0)
    assert empty.peak.parts == []
    assert "most" not in str(empty)


def test_statements_have_the_lines_that_they_compute() -> None:
    v = fnp.ones((32, 4))
    found = ft.explain(lambda w, x: second_line(first_line(w, x), v))(W, X)
    first, second, *_ = found.kernels
    for text in (first.statements, first.loops):
        (tanh,) = [line for line in text.splitlines() if "= tanh" in line]
        (total,) = [line for line in text.splitlines() if "reduce[add]" in line]
        assert tanh.endswith("(first_line)")
        assert total.endswith("(first_line)")
    (exp,) = [line for line in second.statements.splitlines() if "= exp" in line]
    assert exp.endswith("(second_line)")
    assert first.statements in str(first)


def earlier(w: Any, x: Any) -> Any:
    return fnp.tanh((x @ w) * 1.0).T.sum(0)


def later(w: Any, x: Any) -> Any:
    return fnp.tanh((x @ w) * 1.0).T.sum(0)


def in_loop(function: Any) -> Any:
    def both(w: Any, x: Any) -> Any:
        return ft.lax.scan(lambda c, _: (c + function(w, x), None), x[:, 0], None, 3)

    return both


@pytest.mark.parametrize("wrapped", [lambda f: f, ft.grad, in_loop])
def test_lines_are_those_of_the_function_that_is_explained(wrapped: Any) -> None:
    """Another that came to the same nodes, and passes that made them, say nothing."""
    of = (lambda f: lambda w, x: f(w, x).sum()) if wrapped is ft.grad else lambda f: f

    def names(function: Any) -> set[str]:
        parts = [*ft.explain(wrapped(of(function)))(W, X).kernels]
        for part in parts:
            parts += part.inner
        told = {origin.function for part in parts for origin in part.origins}
        text = "\n".join(part.statements for part in parts)
        return (told | set(re.findall(r"\((earlier|later)\)", text))) & known

    known = {"earlier", "later"}
    assert names(earlier) == {"earlier"}
    assert names(later) == {"later"}
    assert names(earlier) == {"earlier"}


def test_loops_are_those_of_the_kernel() -> None:
    kernel = ft.explain(layer)(W, X).kernels[0]
    lines = kernel.loops.splitlines()
    loops = [line for line in lines if line.strip().startswith("for ")]
    assert [line.strip() for line in loops] == [
        "for i0 in range(96):", "for i1 in range(32):", "for r2 in range(64):",
    ]  # fmt: skip
    depth = {name: len(s) - len(s.lstrip()) for s in lines for name in (s.split()[0],)}
    assert depth["v9"] == depth["v10"] == 4  # the sum, and what uses it
    assert depth["v8"] == 6  # in the loop of the sum


def test_layers_that_are_alike_have_lines_of_their_own() -> None:
    def same(w: Any, x: Any) -> Any:
        return fnp.tanh(x @ w)

    def other(w: Any, x: Any) -> Any:
        return fnp.tanh(x @ w)

    w = fnp.ones((64, 64))
    first, second = ft.explain(lambda x: other(w, same(w, x)))(X).kernels
    # A weight that both load is one node, with the line that asked for it last.
    lines = [s for s in first.statements.splitlines() if "load buffer2" not in s]
    assert "(same)" in str(lines)
    assert "(other)" not in str(lines)
    assert "(other)" in second.statements.split("reduce")[1]


def test_opencl_c_is_shown_on_any_device() -> None:
    kernel = ft.explain(layer)(W, X).kernels[0]
    assert "__kernel void" in kernel.opencl
    assert "get_global_id" in kernel.opencl
    sorting = ft.explain(fnp.sort)(X).kernels[0]
    assert (sorting.opencl, sorting.loops) == ("", "")
    assert sorting.statements.startswith("sort of ")


def test_loops_show_their_steps() -> None:
    def step(c: Any, _: Any) -> Any:
        return fnp.sin(c @ c), None

    x = fnp.ones((30, 30))
    found = ft.explain(lambda x: ft.lax.scan(step, x, None, length=3)[0])(x)
    (loop,) = found.kernels
    names = [part.name for part in loop.inner]
    assert any("sin" in name for name in names)
    assert names == [name for name in names if name in str(loop)]
    assert loop.kernel is None
    assert (loop.loops, loop.opencl, loop.assembly, loop.schedule) == ("",) * 4


def test_loops_do_what_their_iterations_do() -> None:
    def step(c: Any, _: Any) -> Any:
        return fnp.tanh(c @ X.T[:, :64]), c.sum()

    def run(x: Any, **kind: Any) -> Any:
        return ft.lax.scan(step, x, None, **kind)

    found = ft.explain(lambda x: run(x, length=50))(fnp.ones((32, 64)))
    loop = found.kernels[-1]
    assert loop.name == "loop of 50"
    assert loop.operations == 50 * sum(part.operations for part in loop.inner)
    assert loop.operations >= 50 * 2 * 32 * 64 * 64
    assert loop.nbytes == 50 * sum(part.nbytes for part in loop.inner)
    assert found.most is not None
    assert "% of " in loop.limit(found.most)


def chosen(x: Any) -> Any:
    def body(c: Any) -> Any:
        i, x = c
        return i + 1, ft.lax.cond(i % 3 == 0, lambda: fnp.sort(x, 0) + x, lambda: x @ x)

    return ft.lax.while_loop(lambda c: c[0] < 7, body, (0, x))


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
def test_steps_of_loops_have_times(device: str) -> None:
    """Of each time, and of all: a while loop is seen to go around, and branches."""
    with ft.config(device=device):
        found = ft.explain(chosen)(fnp.ones((32, 32)) / 32)
    (loop,) = [part for part in found.kernels if part.name == "while loop"]
    (branch,) = [part for part in loop.inner if part.inner]
    assert branch.timing is not None
    assert branch.timing.runs == 7
    runs = [part.timing and part.timing.runs for part in branch.inner]
    assert runs == [{0: 4, 1: 3}[part.body] for part in branch.inner]
    for part in (loop, branch):
        inner = [each.seconds or 0.0 for each in part.inner]
        assert part.seconds is not None
        assert 0 < sum(inner) <= part.seconds
    for each in branch.inner:
        assert each.timing is not None
        assert each.seconds == pytest.approx(each.timing.runs * each.timing.each)
    product = next(part for part in branch.inner if "reduce_sum_mul" in part.name)
    assert found.most is not None
    assert "% of " in product.limit(found.most)
    row = re.search(
        r"\n +\S*\.\d+ \S*reduce_sum_mul_32x32, 4 × \S+ .s +\S+ .s", str(found)
    )
    assert row, str(found)
    assert found.seconds == sum(part.seconds or 0.0 for part in found.kernels)


def test_a_branch_that_is_not_taken_has_no_time() -> None:
    def either(x: Any) -> Any:
        return ft.lax.cond(x.sum() > 0, lambda: x @ x, lambda: fnp.sort(x, 0))

    (*_, branch) = ft.explain(either)(fnp.ones((32, 32))).kernels
    taken, other = [[p for p in branch.inner if p.body == i] for i in (1, 0)]
    assert all(part.seconds for part in taken)
    assert all(part.seconds is None for part in other)
    assert (
        not ft.explain(either)(ft.ShapeDtypeStruct((32, 32), "f4")).kernels[-1].timing
    )


def test_of_long_loops_the_first_times_are_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are as many as there are, and take as long."""
    monkeypatch.setattr("ftrace.backends.llvm.runtime.step_log.ROWS", 64)
    x = fnp.ones((48, 48)) / 48

    def run(x: Any) -> Any:
        return ft.lax.fori_loop(0, 500, lambda _, c: c @ x + fnp.sort(c, 0), x)

    (*_, loop) = ft.explain(run)(x).kernels
    assert len(loop.inner) > 1
    runs = [part.timing.runs for part in loop.inner if part.timing is not None]
    assert max(runs) == pytest.approx(500)


def test_iterations_on_several_threads_take_their_part_of_the_time() -> None:
    def one(row: Any) -> Any:
        return fnp.linalg.svd(row)[1]

    x = np.random.default_rng(0).normal(size=(16, 24, 24)).astype(np.float32)
    (*_, loop) = ft.explain(lambda x: ft.lax.map(one, x))(x).kernels
    inner = [part.seconds or 0.0 for part in loop.inner]
    assert loop.seconds is not None
    assert 0 < sum(inner) <= 1.1 * loop.seconds
    assert all(part.timing and part.timing.runs == 16 for part in loop.inner)


def test_what_is_in_the_caches_is_not_held_to_memory() -> None:
    (kernel,) = ft.explain(lambda x: x + 1)(X).kernels
    assert kernel.seconds is not None
    moved, done = kernel.nbytes / kernel.seconds, kernel.operations / kernel.seconds
    assert kernel.limit(Roofline(moved * 2, done * 4)) == "50% of memory"
    assert kernel.limit(Roofline(moved * 4, done * 2)) == "50% of arithmetic"
    assert kernel.limit(Roofline(moved / 2, done * 4)) == "25% of arithmetic"


def test_a_limit_is_measured_once_for_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is on disk; one below what was done was measured beside other programs."""
    rows = [Roofline(3.0, 2.0), Roofline(1.0, 5.0)]
    monkeypatch.setattr(module, "_measure_limits", lambda *_: rows.pop(0))
    device = module.get_device("cpu")
    for kept in (True, False):
        left = len(rows)
        monkeypatch.setattr(module, "_known", {})
        with ft.config(cache_dir=str(tmp_path), cache_size=1 << 20 if kept else 0):
            assert module.roofline(device, 7) == (3.0, 2.0)
            assert module.roofline(device, 7, done=2.0) == (3.0, 2.0)
            assert len(rows) == left - 1
            if kept:
                monkeypatch.setattr(module, "_known", {})  # as in the next process
                assert module.roofline(device, 7) == (3.0, 2.0)
                assert module.roofline(device, 7, done=4.0) == (3.0, 5.0)
                assert not rows
                rows.append(Roofline(3.0, 2.0))


def test_no_product_is_quicker_than_multiply_adds_in_registers() -> None:
    x = fnp.ones((256, 256))
    with ft.config(threads=1):
        found = ft.explain(lambda x: x @ x)(x)
    (kernel,) = found.kernels
    assert kernel.operations == 2 * 256**3
    assert kernel.seconds is not None
    assert found.most is not None
    assert kernel.operations / kernel.seconds <= found.most.peak


def test_limits_are_looked_for_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks once for each look at it: how many runs there are."""
    clock = iter(range(999))
    monkeypatch.setattr(module, "perf_counter", lambda: next(clock))
    graph = ft.make_graph(lambda x: x + 1)(X)
    compiled = module.compile_graph(graph, module.get_device())
    monkeypatch.setattr(module, "_PATIENCE", 999)
    assert len(module._timed_runs(compiled, [X])) == 5
    assert len(module._timed_runs(compiled, [X], 40)) >= 39
    monkeypatch.setattr(module, "_PATIENCE", 2)
    assert len(module._timed_runs(compiled, [X])) < 5


def test_of_what_is_decided_as_it_runs_there_is_no_limit() -> None:
    def either(x: Any) -> Any:
        return ft.lax.cond(x.sum() > 0, lambda: x @ x, lambda: fnp.sin(x))

    def until(x: Any) -> Any:
        return ft.lax.while_loop(lambda c: c.sum() < 1e5, lambda c: c + c @ c, x)

    x = fnp.ones((32, 32))
    rows = (either, "one of 2 branches", max), (until, "while loop", sum)
    for fun, name, of_parts in rows:
        found = ft.explain(fun)(x)
        part = found.kernels[-1]
        assert (part.name, found.most is None) == (name, False)
        assert part.operations == of_parts([p.operations for p in part.inner])
        assert part.operations >= 2 * 32**3
        assert part.limit(found.most) == ""  # pyright: ignore[reportArgumentType]


def test_a_shell_shows_what_is_printed() -> None:
    found = ft.explain(layer)(W, X)
    assert repr(found) == str(found)
    (kernel,) = found.kernels
    assert repr([kernel]) == f"[<step {kernel.name}>]"
    origin = ft.nan_origin(fnp.log)(-1.0)
    assert origin is not None
    jitted = ft.jit(layer)
    jitted(W, X)
    told = ft.zero_gradients(fnp.round)(1.0)
    shown = [origin, found.peak, found.regions[0], told, jitted.misses]
    shown += [jitted.misses[0], ft.bisect(layer, W, X, path=None)]
    for answer in shown:
        assert repr(answer) == str(answer)
        page = answer._repr_html_()
        assert html.unescape(page).removeprefix("<pre>") == f"{answer}</pre>"
    assert "<" not in repr(jitted.misses[0])
    assert repr(told).startswith("the gradient of")


# The graph as it was written.


def net(w: Any, v: Any, x: Any) -> Any:
    return ft.nn.softmax(fnp.tanh(x @ w) @ v)


def test_products_are_regions_that_unfold() -> None:
    found = ft.explain(net)(W, fnp.ones((32, 8)), X)
    names = [region.name for region in found.regions]
    assert names == ["matmul", "tanh", "matmul", "softmax"]
    product = found.regions[0]
    assert product.folded in found.outline
    assert product.folded.split("#")[0].split()[1:] == ["=", "matmul", "c", "a"]
    assert len(str(product).splitlines()) == 1 + len(product.nodes) > 5
    inner = [line.strip() for line in str(product).splitlines()[1:]]
    assert all(line in str(found.graph) for line in inner)
    x, k = fnp.ones((2, 3, 8, 8)), fnp.ones((4, 3, 3, 3))
    conv = ft.lax.conv_general_dilated
    found = ft.explain(lambda x, k: conv(x, k, (1, 1), "SAME"))(x, k)
    assert [region.name for region in found.regions] == ["conv_general_dilated"]


@pytest.mark.parametrize(
    ("fun", "argument", "place"),
    [
        (lambda a, b: a - b.sum(0), 0, 0),
        (lambda a, b: b - a.sum(0), 1, 0),
        (lambda a, b: b.sum(0) - a, 0, 1),
    ],
)
def test_operands_stand_in_the_order_of_the_call(
    fun: Any, argument: int, place: int
) -> None:
    """Whichever was there first: a sum is read through a view, the argument is not."""
    found = ft.explain(fun)(X, X + 1)
    region = found.regions[-1]
    assert (region.name, len(region.inputs)) == ("subtract", 2)
    assert region.inputs[place] is found.graph.inputs[argument]


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x,
        lambda x: 3 * fnp.ones(3),
        ft.grad(lambda x: net(x, x[:, :4], x.T).sum() + (x @ x.T).sum()),
        ft.vmap(lambda r: fnp.outer(r, r) @ r),
        lambda x: ft.lax.scan(lambda c, v: (c * v, c @ x), x[0], x),
        lambda x: fnp.linalg.svd(x @ x.T)[1] + fnp.where(x > 0, x, -x).sum(),
        ft.hessian(lambda x: fnp.log(1 + (x @ x.T) ** 2).sum()),
    ],
)
def test_regions_are_the_graph_in_an_order_in_which_it_can_be_computed(
    fun: Any,
) -> None:
    graph = ft.make_graph(fun)(fnp.ones((4, 4)))
    regions = regions_of(graph)
    nodes = [node for region in regions for node in region.nodes]
    names = names_of(graph)
    twice = {node for node in nodes if nodes.count(node) > 1}
    assert all(
        node.op.family in ("movement", "source", "compare", "cast") for node in twice
    )
    assert {*nodes} == {n for n in names if names[n] and n not in graph.inputs}
    known = {n for n in names if not names[n]} | {*graph.inputs}
    for region in regions:
        assert set(region.inputs) <= known
        for node in region.nodes:  # and in it
            assert set(node.src) <= known
            known.add(node)
        assert set(region.outputs) <= set(region.nodes)


def labels(fun: Any, *args: Any) -> list[str]:
    """What the regions are called, one behind the other."""
    found = regions_of(ft.make_graph(fun)(*args))
    return [r.name if len(r.nodes) > 1 else r.nodes[0].op.name for r in found]


@pytest.mark.parametrize(
    ("fun", "forward"),
    [
        (lambda x: (ft.nn.softmax(x) ** 2).sum(), "softmax"),
        (lambda x: (fnp.sort(x, 0) * x).sum(), "sort"),
        (lambda x: ft.nn.gelu(x @ x).sum(), "gelu"),
        (lambda x: fnp.linalg.inv(x).sum(), "inv"),
        (lambda x: ft.nn.logsumexp(x, 1).sum(), "logsumexp"),
        (lambda x: (fnp.cumsum(x, 1) ** 2).sum(), "cumsum"),
    ],
)
def test_what_is_done_backwards_has_a_name(fun: Any, forward: str) -> None:
    x = fnp.eye(4) + 1
    rows = [
        (ft.grad(fun), x), (ft.jit(ft.grad(fun)), x),
        (ft.vmap(ft.grad(fun)), fnp.stack([x, x])),
    ]  # fmt: skip
    for derivative, arg in rows:
        names = labels(derivative, arg)
        assert names.count(f"{forward}_backward") == 1, names
    assert labels(ft.grad(lambda x: fun(x) + 0), x).count(forward) <= 1
    names = labels(ft.grad(lambda x: (ft.grad(fun)(x) ** 2).sum()), x)
    assert not any("backward_backward" in name for name in names)
    for plain in (fun, lambda x: ft.jvp(fun, (x,), (x,))):
        assert not any("backward" in name for name in labels(plain, x))


def test_what_two_calls_have_made_is_in_both_their_regions() -> None:
    w = fnp.ones((4, 3))
    assert (
        labels(lambda x: x @ w + x @ (w * 2), fnp.ones((6, 4)))[::2].count("matmul") + 1
    )
    names = labels(lambda x, w: x @ w + x @ (w * 2), fnp.ones((6, 4)), w)
    assert [name for name in names if name != "const"] == [
        "matmul", "mul", "matmul", "add",
    ]  # fmt: skip
    names = labels(lambda x: 9 * fnp.eye(4) + fnp.linalg.inv(x), fnp.ones((4, 4)))
    assert names.count("inv") == 1
    assert [name for name in names if name not in ("const", "inv")] == [
        "multiply", "add",
    ]  # fmt: skip
    # What is a call of its own stays one, however many read it.
    names = labels(lambda x: (x.T @ x) + fnp.tanh(x.T), fnp.ones((4, 4)))
    assert names.count("permute") == 1


# Tables.


def test_a_graph_unfolds_in_a_notebook() -> None:
    def layer(x: Any) -> Any:
        return ft.nn.softmax(x @ W[:32]) < 0.5

    graph = ft.make_graph(layer)(fnp.ones((4, 32)))
    html = graph._repr_html_()
    told = ft.explain(layer)(fnp.ones((4, 32)))
    assert told._repr_html_().count("<details>") > html.count("<details>") >= 3
    assert "= softmax " in html
    assert html.count("<details>") == html.count("</details>")
    assert html.startswith("<code>graph (a:f32[4,32]")
    assert "<lambda>" not in ft.make_graph(lambda x: x + 1)(1.0)._repr_html_()


def test_a_notebook_shows_tables_that_unfold() -> None:
    html = ft.explain(lambda x: net(W, fnp.ones((32, 8)), x))(X)._repr_html_()
    assert html.count("<table>") == html.count("</table>") == 2
    assert html.count("<details>") == html.count("</details>") > 7
    assert "&lt;lambda&gt;" in html
    assert "<lambda>" not in html


def test_a_terminal_shows_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    console = pytest.importorskip("rich.console")
    found = ft.explain(layer)(W, X)
    wide = console.Console(width=200, file=io.StringIO())
    wide.print(found)
    text = wide.file.getvalue()
    assert found.kernels[0].name in text
    assert "of the limit" in text
    assert "test_explain.py" in text
    for rich in ("rich.console", None):
        if rich is not None:
            monkeypatch.setitem(sys.modules, rich, None)
        stream = io.StringIO()
        stream.isatty = lambda: True  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setattr("sys.stdout", stream)
        found.show()
        monkeypatch.undo()
        assert found.kernels[0].name[:8] in stream.getvalue()


def test_a_narrow_terminal_shows_names_and_lines() -> None:
    """Columns go before a letter of those does; what is left of the others is whole."""
    console = pytest.importorskip("rich.console")
    found = ft.explain(layer)(W, X)
    heads = "step", "time", "of the limit", "bytes", "operations", "share"
    told: list[int] = []
    for width in (40, 60, 80, 100, 140):
        narrow = console.Console(width=width, file=io.StringIO())
        narrow.print(found)
        shown = narrow.file.getvalue()
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= width
        words = "".join(shown.split())
        for number, part in enumerate(found.kernels):
            assert f"{number}{part.name}" in words
            for origin in part.origins:
                assert f"test_explain.py:{origin.line}" in words
        (first,) = [row for row in shown.splitlines() if row.startswith(" step")]
        there = [name in first for name in heads]
        told.append(there.index(False) if False in there else len(heads))
        assert sum(there) == told[-1]  # those after it are not there either
        assert told[-1] >= 2
    assert told[0] < told[-1] == len(heads)


def test_nothing_runs_where_it_must_not(capsys: pytest.CaptureFixture[str]) -> None:
    struct = ft.ShapeDtypeStruct((96, 64), np.float32)
    found = ft.explain(layer)(W, struct)
    assert found.seconds is None
    assert "limits" not in str(found)

    def prints(x: Any) -> Any:
        ft.debug.print("{}", x)
        return x + 1

    assert ft.explain(prints)(1.0).seconds is None
    assert capsys.readouterr().out == ""


def test_arguments_are_not_given_up() -> None:
    x = fnp.ones(1000)
    ft.explain(ft.jit(lambda x: x * 2, donate_argnums=0))(x)
    assert x.sum() == 1000


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x,
        lambda x: {"a": fnp.linalg.svd(x)[1], "b": x[:0]},
        lambda x: ft.lax.scan(lambda c, v: (c * v, c), x[0], x),
        lambda x: ft.lax.cond(x.sum() > 0, lambda: x, lambda: -x),
        lambda x: ft.lax.while_loop(lambda c: c.sum() < 99, lambda c: c + x, x),
    ],
)
def test_any_program_is_told(fun: Any) -> None:
    found = ft.explain(fun)(fnp.ones((8, 8)))
    assert len(found.kernels) == len(found.program.steps)
    assert str(found).startswith("<lambda> on cpu")


def test_static_and_named_arguments() -> None:
    f = ft.jit(lambda x, n, *, y: x**n + y, static_argnums=1)
    assert ft.explain(f)(X, 3, y=1.0).kernels


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match="explain"):
        ft.explain(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("x", [0.1, 3, True, np.float64(2), ft.random.key(0)])
def test_numbers_are_given_as_the_program_takes_them(x: Any) -> None:
    def fun(x: Any) -> Any:
        if x.ndim == 0 and fnp.issubdtype(x.dtype, ft.dtypes.prng_key):
            return ft.random.uniform(x, (3,))
        return x.astype("float64") * 2

    assert ft.explain(fun)(x).seconds is not None


def test_amounts_of_open_sizes_are_told_by_name() -> None:
    step = ft.jit(lambda x: fnp.tanh(x).sum(0), dynamic={"x": {0: "n"}})
    text = str(ft.explain(step)(np.ones((5, 3), np.float32)))
    assert "12*n" in text
    assert "n operations" in text


def test_of_many_steps_the_longest_are_shown() -> None:
    def many(x: Any) -> Any:
        for _ in range(60):
            x = fnp.sort(fnp.sin(x))
        return x

    found = ft.explain(many)(fnp.ones(64))
    count = len(found.kernels)
    assert count >= 60
    rows = [line.split() for line in str(found).splitlines()]
    numbers = [int(row[0]) for row in rows if row and row[0].isdigit()]
    shown = numbers[:50]
    assert shown == sorted(shown)
    assert f"{count - 50} shorter ones, " in str(found)
    seconds = [part.seconds or 0.0 for part in found.kernels]
    left = [s for number, s in enumerate(seconds) if number not in shown]
    assert max(left) <= min(seconds[number] for number in shown)


def _libraries_and_loops(x: Any) -> Any:
    y = fnp.cumsum(fnp.sort(x @ x.T, 0), 1)
    z = lax.fori_loop(0, 5, lambda i, a: a * 1.1 + i, y)
    found = lax.scan(lambda c, row: (c + row @ row, c), 0.0, z)
    branch = lax.cond(fnp.sum(z) > 0, lambda z: z, lambda z: -z, z)
    return found, branch, fnp.linalg.qr(x), fnp.linalg.cholesky(z @ z.T)


def test_results_of_libraries_and_loops_are_of_the_line_that_asks_for_them(
    tmp_path: Path,
) -> None:
    """Also where they have just been compiled, and where they come from a cache."""
    code, x = _libraries_and_loops.__code__, fnp.ones((3, 3))
    inside = range(code.co_firstlineno, code.co_firstlineno + 7)
    texts: list[str] = []
    with ft.config(cache_dir=str(tmp_path)):
        for _ in range(2):
            ft.clear_caches()
            f = ft.jit(_libraries_and_loops)
            f(x)
            texts.append(str(f.lower(x).compile()))
    told = [int(n) for n in re.findall(r"# \w+\.py:(\d+) ", texts[0])]
    assert told
    assert set(told) <= set(inside)
    assert texts[0] == texts[1]
