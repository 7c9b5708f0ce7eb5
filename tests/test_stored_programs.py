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
from ftrace import lax
from ftrace.devices.llvm.compile import object_cache
from ftrace.devices.llvm.device import CPU
from ftrace.lower import lower
from ftrace.lower.identity import graph_identity
from ftrace.lower.program import Program, RunKernel
from ftrace.lower.stored import program_of, program_text
from ftrace.transforms import execute
from ftrace.transforms.execute import CompiledGraph

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


PROGRAMS: dict[str, Callable[..., Any]] = {
    "mlp": mlp,
    "mixed": mixed,
    "indexed": indexed,
    "integers": integers,
    "complexes": complexes,
}


def assert_equal(a: Program, b: Program) -> None:
    assert (a.slots, a.inputs, a.outputs) == (b.slots, b.inputs, b.outputs)
    assert (a.arena, a.lifetimes) == (b.arena, b.lifetimes)
    for one, other in zip(a.steps, b.steps, strict=True):
        assert type(one) is type(other)
        if not isinstance(one, RunKernel) or not isinstance(other, RunKernel):
            assert one == other
            continue
        assert one.kernel == other.kernel
        assert one.slots == other.slots
        info, told = one.info, other.info
        assert (info.name, info.operations, info.bytes, info.nodes) == (
            told.name, told.operations, told.bytes, told.nodes
        )  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_comes_back_from_its_text(name: str) -> None:
    program = lower(ft.make_graph(PROGRAMS[name])(X), recurrences=True).program
    text = program_text(program)
    if text is None:  # it holds kernels of other kinds
        assert name == "integers"
        return
    found = program_of(text)
    assert found is not None
    assert_equal(found, program)
    assert program_text(found) == text


def test_programs_with_steps_of_other_kinds_have_no_text() -> None:
    def loop(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0, 0] < 9, lambda c: c @ c.T @ c + 1, x)

    def host(x: Any) -> Any:
        return fnp.sort(x)

    for function in (loop, host):
        assert program_text(lower(ft.make_graph(function)(X)).program) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[[],3]", "[[],null]", '[[["sin","float32"]],1]', "[[", "[1,2]"]
)
def test_text_of_another_form_is_no_program(text: str) -> None:
    assert program_of(text) is None


def test_damaged_text_is_no_program_or_another_one() -> None:
    text = program_text(lower(ft.make_graph(mlp)(X)).program)
    assert text is not None
    nodes, whole = json.loads(text)
    assert program_of(json.dumps([nodes[:-3], whole])) is None
    assert program_of(json.dumps([nodes, whole[1:]])) is None


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


def test_graphs_with_bodies_and_functions_have_no_identity() -> None:
    def loop(x: Any) -> Any:
        return lax.fori_loop(0, 9, lambda i, c: c * 0.5 + i, x)

    def host(x: Any) -> Any:
        return ft.pure_callback(np.sin, ft.ShapeDtypeStruct(x.shape, x.dtype), x)

    for function in (loop, host):
        assert graph_identity(ft.make_graph(function)(X)) is None


# Another process


def refuse(*_: Any) -> Any:
    raise AssertionError("this was to be on disk")


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_kept_is_not_lowered_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = ft.make_graph(PROGRAMS[name])(X)
    inputs = [ft.device_put(X), *graph.captured]
    monkeypatch.setattr(execute, "LARGE", 0)
    with ft.config(cache_dir=str(tmp_path)):
        first = CompiledGraph(graph, CPU())
        want = [np.asarray(y) for y in first(inputs)]
        if program_text(first.lowered.program) is None:
            return
        with monkeypatch.context() as patch:
            patch.setattr(execute, "lowering", refuse)
            second = CompiledGraph(graph, CPU())
            found = [np.asarray(y) for y in second(inputs)]
        for a, b in zip(want, found, strict=True):
            np.testing.assert_array_equal(a, b)
        assert_equal(second.lowered.program, first.lowered.program)  # lowered now


def test_donation_and_switched_off_rules_are_found_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(x: Any) -> Any:
        return fnp.tanh(x) * 2 + 1

    graph = ft.make_graph(step)(X)
    monkeypatch.setattr(execute, "LARGE", 0)
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


def test_small_programs_are_not_kept(tmp_path: Path) -> None:
    with ft.config(cache_dir=str(tmp_path)):
        CompiledGraph(ft.make_graph(lambda x: x + 1.5)(X), CPU())
        kept = len(list(tmp_path.iterdir()))
        CompiledGraph(ft.make_graph(mlp)(X), CPU())
        grown = len(list(tmp_path.iterdir()))
    assert kept <= 2  # the kernel, and the runner in the first test of a process
    assert grown > kept
