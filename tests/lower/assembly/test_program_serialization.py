"""Programs on disk: another process finds them and lowers nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.backends.llvm.compile import object_cache
from ftrace.backends.llvm.device import CPU, CPUExecutable
from ftrace.backends.llvm.kernels.cached_kernel import pack_program, unpack_program
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.lower.assembly import serialize
from ftrace.lower.assembly.serialize import (
    graph_identity,
    program_of,
    program_text,
    size_of_graph,
)
from ftrace.lower.program import Program, RunKernel, describe, programs_of
from ftrace.trace import tiering
from ftrace.trace.calls.inline import ready_graph
from ftrace.transforms.jit import compiled_graph
from ftrace.transforms.jit.compiled_graph import CompiledGraph

X = np.linspace(-2, 3, 48, dtype=np.float32).reshape(6, 8)


def mlp(x: Any) -> Any:
    def loss(w: Any) -> Any:
        return fnp.sum(ft.nn.softmax(fnp.tanh(x @ w)) ** 2) + fnp.sum(x[1:, ::2])

    return ft.value_and_grad(loss)(fnp.ones((8, 5), np.float32) * 0.1)


def mixed(x: Any) -> Any:
    y = x.astype(fnp.bfloat16) * 3 + fnp.pad(x, 1)[1:-1, 1:-1].astype(fnp.bfloat16)
    return fnp.where(x > 0.5, y.astype(np.float32), fnp.nan), x.T, x


def indexed(x: Any) -> Any:
    rows = fnp.arange(3) * 2 % 5
    return x[rows].sum(0), fnp.zeros((6, 8), np.float32).at[rows].add(x[:3])


def integers(x: Any) -> Any:
    i = lax.bitcast_convert_type(x, fnp.int32)
    return (i >> 3) ^ fnp.int32(-7), fnp.argmax(x, axis=1), fnp.cumsum(x, axis=0)


def complexes(x: Any) -> Any:
    z = x + 1j * x[::-1]
    return fnp.abs(z * z + (0.5 - 2j)), fnp.prod(z, axis=0)


def scanned(x: Any) -> Any:
    w = fnp.eye(8, dtype=np.float32) * 0.7

    def loss(x: Any) -> Any:
        last, all_ = lax.scan(lambda c, y: (fnp.tanh(c @ w + y), c), x[0], x)
        return last.sum() + (all_**2).sum()

    return ft.grad(loss)(x)


def loops(x: Any) -> Any:
    small = lax.while_loop(lambda c: c < 9, lambda c: c * 2 + 1, fnp.abs(x[0, 0]))
    count, large = lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, fnp.tanh(s[1] @ s[1].T @ s[1])), (0, x)
    )
    lanes = ft.vmap(lambda c: lax.fori_loop(0, 9, lambda i, c: c * 0.5 + i, c))(x)
    return small, count, large, lanes, lax.map(fnp.sort, x)


def branches(x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda x: fnp.sort(x), lambda x: x @ x.T @ x, x)


def factors(x: Any) -> Any:
    a = x @ x.T + 9 * fnp.eye(6, dtype=np.float32)
    return (
        fnp.linalg.cholesky(a),
        fnp.linalg.solve(a, x),
        fnp.linalg.eigvalsh(a),
        fnp.linalg.slogdet(a),
        ft.scipy.linalg.solve_triangular(a, x, lower=True),
    )


def hosted(x: Any) -> Any:
    return fnp.fft.rfft(x), fnp.argsort(x), lax.top_k(x, 3), lax.cummax(x, axis=1)


def calls(x: Any) -> Any:
    """Functions with rules of their own are no part of what is lowered."""

    @ft.custom_jvp
    def f(x: Any) -> Any:
        return fnp.sin(x) * 2

    f.defjvp(lambda primals, tangents: (f(*primals), fnp.cos(*primals) * tangents[0]))
    return f(x), ft.grad(lambda x: ft.checkpoint(f)(x).sum())(x)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "mlp": mlp,
    "mixed": mixed,
    "indexed": indexed,
    "integers": integers,
    "complexes": complexes,
    "scanned": scanned,
    "loops": loops,
    "branches": branches,
    "factors": factors,
    "hosted": hosted,
    "calls": calls,
}


def assert_equal(a: Program, b: Program) -> None:
    assert (a.slots, a.inputs, a.outputs) == (b.slots, b.inputs, b.outputs)
    assert (a.arena, a.lifetimes) == (b.arena, b.lifetimes)
    for one, other in zip(a.steps, b.steps, strict=True):
        if not isinstance(one, RunKernel) or not isinstance(other, RunKernel):
            assert type(one) is type(other)
            assert describe(one) == describe(other)
            for inside, read in zip(programs_of(one), programs_of(other), strict=True):
                assert_equal(inside, read)
            continue
        assert one.buffers == other.buffers
        assert one.bounded == other.bounded
        assert one.kernel == other.kernel
        assert one.slots == other.slots
        info, told = one.info, other.info
        assert (info.name, info.operations, info.bytes, info.nodes) == (
            told.name, told.operations, told.bytes, told.nodes
        )  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_comes_back_from_its_text(name: str) -> None:
    program = lower(ft.make_graph(PROGRAMS[name])(X), Limits(recurrences=True)).program
    text = program_text(program)
    assert text is not None
    found = program_of(text)
    assert found is not None
    assert_equal(found, program)
    assert program_text(found) == text


def test_programs_that_call_a_function_of_the_user_have_no_text() -> None:
    def called(x: Any) -> Any:
        return ft.pure_callback(np.sin, ft.ShapeDtypeStruct(x.shape, x.dtype), x)

    def inside(x: Any) -> Any:
        return lax.map(called, x)

    for function in (called, inside):
        graph = ft.make_graph(function)(X)
        assert program_text(lower(graph).program) is None
        assert graph_identity(graph) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[[],3]", "[[],null]", '[[["sin","float32"]],1]', "[[", "[1,2]"]
)
def test_text_of_another_form_is_no_program(text: str) -> None:
    assert program_of(text) is None


def test_damaged_text_is_no_program_or_another_one() -> None:
    text = program_text(lower(ft.make_graph(mlp)(X)).program)
    assert text is not None
    head, *texts = text.split("\n")
    kernels, infos, whole = json.loads(head)

    def read(whole: Any, texts: Any = texts) -> Any:
        return program_of("\n".join([json.dumps(whole), *texts]))

    assert read([kernels, infos, whole]) is not None
    assert read([kernels, infos, whole], texts[1:]) is None
    assert read([kernels[:-1], infos, whole], texts[:-1]) is None
    assert read([kernels, infos[:-1], whole]) is None
    assert read([kernels, infos, whole[1:]]) is None


def test_kernels_stay_text_until_somebody_looks_at_them() -> None:
    program = lower(ft.make_graph(mlp)(X)).program
    text = program_text(program)
    assert text is not None
    head, *texts = text.split("\n")
    found = program_of("\n".join([head, *["[]" for _ in texts]]))
    assert found is not None
    assert [s.buffers for s in found.kernels] == [s.buffers for s in program.kernels]
    assert found.written_slots == program.written_slots
    with pytest.raises(errors.GraphError, match="disk cache"):
        _ = found.kernels[0].kernel


# What a graph is found by


def test_graphs_that_are_lowered_otherwise_have_other_identities() -> None:
    def identity(function: Any, *arguments: Any, settings: Any = ()) -> str:
        found = graph_identity(ft.make_graph(function)(*arguments), *settings)
        assert found is not None
        return found

    found = [
        identity(lambda x, y: x - y, X, X),
        identity(lambda x, y: y - x, X, X),
        identity(lambda x, y: (x - y, x), X, X),
        identity(lambda x, y: (x, x - y), X, X),
        identity(lambda x: x - x * 2, X),
        identity(lambda x, y: x - y, X[0], X[0]),
        identity(lambda x, y: x - y, X.astype(np.float64), X.astype(np.float64)),
        identity(lambda x, y: x - y, X, X, settings=((0,),)),
        identity(lambda x, y: x - y, X, X, settings=((), ("merge_reshapes",))),
        identity(lambda x: x - 3.0, X),
        identity(lambda x: x - (-3.0), X),
        identity(lambda x: fnp.float32(0.0) * x, X),
        identity(lambda x: fnp.float32(-0.0) * x, X),
    ]
    assert len(set(found)) == len(found)
    assert identity(lambda a, b: a - b, X, X) == found[0]


def test_bodies_tell_loops_apart() -> None:
    def loop(scale: float, length: int = 9, cond: bool = False) -> str:
        def function(x: Any) -> Any:
            if cond:
                return lax.cond(x[0, 0] > 1, lambda x: x * scale, lambda x: x, x)
            return lax.fori_loop(0, length, lambda i, c: c * scale + i, x)

        found = graph_identity(ft.make_graph(function)(X))
        assert found is not None
        return found

    found = [loop(0.5), loop(0.25), loop(0.5, 8), loop(0.5, cond=True)]
    assert len(set(found)) == len(found)
    assert loop(0.5) == found[0]


def test_nodes_of_bodies_count() -> None:
    def deep(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            for _ in range(40):
                c = fnp.sin(c) + i
            return c

        return lax.fori_loop(0, 3, body, x)

    assert size_of_graph(ft.make_graph(deep)(X)) > 80
    assert size_of_graph(ft.make_graph(lambda x: x + 1)(X)) < 5


# Another process


def refuse(*_: Any) -> Any:
    raise AssertionError("this was to be on disk")


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_kept_is_not_lowered_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = ready_graph(ft.make_graph(PROGRAMS[name])(X))
    inputs = [ft.device_put(X), *graph.captured]
    monkeypatch.setattr(tiering, "STORED_NODES", 0)
    with ft.config(cache_dir=str(tmp_path)):
        first = CompiledGraph(graph, CPU())
        want = [np.asarray(y) for y in first(inputs)]
        with monkeypatch.context() as patch:
            patch.setattr(compiled_graph, "lowering", refuse)
            patch.setattr(serialize, "make_node", refuse)  # no kernel is looked at
            second = CompiledGraph(graph, CPU())
            found = [np.asarray(y) for y in second(inputs)]
        assert second.executable.sources == first.executable.sources
        for a, b in zip(want, found, strict=True):
            np.testing.assert_array_equal(a, b)
        assert_equal(second.program, first.program)  # lowered now


def folder_of(graph: Any, folder: Path) -> list[Path]:
    """The files of a cache that has one program in it."""
    with ft.config(cache_dir=str(folder)):
        CompiledGraph(graph, CPU())
    return sorted(folder.iterdir())


def test_program_without_its_object_code_is_a_miss(tmp_path: Path) -> None:
    graph = ft.make_graph(mlp)(X)
    made_anew = 0
    for file in folder_of(graph, tmp_path):
        whole = file.read_bytes()
        file.unlink()
        with ft.config(cache_dir=str(tmp_path)):
            found = CompiledGraph(graph, CPU())([ft.device_put(X), *graph.captured])
        want = [np.asarray(y) for y in ft.jit(mlp)(X)]
        for a, b in zip(found, want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)
        if file.exists():
            made_anew += 1
            assert file.read_bytes() == whole
        file.write_bytes(whole)
    assert made_anew >= 2  # the program and a module; kernels were not asked for


def test_programs_of_another_form_are_misses() -> None:
    device, graph = CPU(), ft.make_graph(mlp)(X)
    executable = device.compile(lower(graph, Limits(recurrences=True)).program)
    assert isinstance(executable, CPUExecutable)
    whole = pack_program(executable.program, executable.kernels)
    assert whole is not None
    head, _, text = whole.partition(b"\n")
    rows = json.loads(head)

    def source_of(step: RunKernel, numbers: Any) -> Any:
        return lambda: ""

    def read(rows: Any, text: bytes) -> Any:
        return unpack_program(json.dumps(rows).encode() + b"\n" + text, source_of)

    (made, numbers), *others = rows
    assert read(rows, text) is not None
    assert read(others, text) is None
    assert read([[[*made[:3], "other"], numbers], *others], text) is None
    assert read([[made[:3], numbers], *others], text) is None
    assert read(rows, b"[]") is None
    assert unpack_program(b"\xff", source_of) is None
    assert unpack_program(b"[]\n[]", source_of) is None


def test_donation_and_switched_off_rules_are_found_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(x: Any) -> Any:
        return fnp.tanh(x) * 2 + 1

    graph = ft.make_graph(step)(X)
    monkeypatch.setattr(tiering, "STORED_NODES", 0)
    with ft.config(cache_dir=str(tmp_path)):
        assert CompiledGraph(graph, CPU()).overwritten == ()
        assert CompiledGraph(graph, CPU(), (0,)).overwritten == (0,)
        hits = object_cache.hits
        assert CompiledGraph(graph, CPU()).overwritten == ()
        assert CompiledGraph(graph, CPU(), (0,)).overwritten == (0,)
        assert object_cache.hits > hits
        with ft.config(disabled_rules={"fuse_elementwise"}):
            patched = CompiledGraph(graph, CPU())
    assert np.isfinite(np.asarray(patched([ft.device_put(X)])[0])).all()


def test_small_programs_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiering, "STORED_FIRST", 0)  # the first ones of a process are
    folder_of(ft.make_graph(lambda x: x + 2.5)(X), tmp_path / "with the runner")
    kernel = folder_of(ft.make_graph(lambda x: x + 1.5)(X), tmp_path / "small")
    assert len(kernel) <= 2  # what is cached of a kernel, and its module
    whole = folder_of(ft.make_graph(mlp)(X), tmp_path / "large")
    assert len(whole) > len(kernel)
