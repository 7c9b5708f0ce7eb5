"""Counts of traces and kernels, and golden texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ArgumentError
from ftrace.testing import (
    assert_golden,
    assert_kernels,
    assert_num_kernels,
    assert_num_traces,
    count_traces,
    golden_sections,
    lowered_text,
)

X = np.ones((3, 4), np.float32)


def test_traces_are_counted_by_function_and_in_blocks() -> None:
    @ft.jit
    def step(x: Any) -> Any:
        return fnp.sin(x) + 1

    assert_num_traces(step, 0)
    with assert_num_traces(2) as traces:
        for x in (X, X, X[0]):
            step(x)
    assert traces == {"step": 2}
    assert_num_traces(step, 2)
    with assert_num_traces(0):
        for _ in range(9):  # native in the end
            step(X)
    with pytest.raises(AssertionError, match="step was traced 2 times, not 1"):
        assert_num_traces(step, 1)
    wanted = "1 traces, not 0: step 1 times"
    with pytest.raises(AssertionError, match=wanted), assert_num_traces(0):
        step(X[:2])
    wanted = "0 traces, not 3: none"
    with pytest.raises(AssertionError, match=wanted) as caught, assert_num_traces(3):
        pass
    shown = caught.traceback.filter(caught)
    assert [entry.name for entry in shown][-1] == caught.traceback[0].name


def test_traces_of_a_block_that_fails_are_not_counted_on() -> None:
    with pytest.raises(ZeroDivisionError), count_traces() as traces:
        raise ZeroDivisionError
    ft.jit(lambda x: x - 3)(X)
    assert traces == {}


def test_wrong_uses_of_counts_are_errors_of_ours() -> None:
    for arguments in ((lambda x: x, 1), (ft.jit(fnp.sin),), ("step", 2)):
        with pytest.raises(ArgumentError, match="takes a function that jit has made"):
            assert_num_traces(*arguments)


def test_kernels_are_counted_and_shown() -> None:
    def softmax(x: Any) -> Any:
        return ft.nn.softmax(x)

    for f in (softmax, ft.jit(softmax)):
        assert_num_kernels(f, X, n=1)
        assert_num_kernels(f, x=ft.ShapeDtypeStruct((3, 4), "float32"), n=1)
    with pytest.raises(AssertionError) as caught:
        assert_num_kernels(softmax, X, n=2)
    said = str(caught.value)
    assert said.startswith("assert_num_kernels: 1 kernels, not 2\n\n")
    assert said.endswith(lowered_text(softmax, X))


def test_kernels_are_held_to_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    golden = tmp_path / "new" / "chain.txt"

    def chain(x: Any, scale: float = 2.0) -> Any:
        return fnp.sin(x) * scale

    with pytest.raises(AssertionError, match=r"golden chain.txt: it is not there yet"):
        assert_kernels(chain, X, golden=golden)
    with monkeypatch.context() as patch:
        patch.setenv("FTRACE_UPDATE_GOLDENS", "1")
        assert_kernels(chain, X, golden=golden)
    assert golden.read_text() == lowered_text(chain, X)
    with ft.config(device="interpreter"):  # it is that of the CPU all the same
        assert_kernels(ft.jit(chain), X, golden=str(golden))
    with pytest.raises(AssertionError) as caught:
        assert_kernels(lambda x: fnp.cos(x) * 2.0, X, golden=golden)
    line, *rest = str(caught.value).split("\n")
    assert line.startswith("golden chain.txt: it differs from line ")
    assert line.endswith("pytest --ftrace-update-goldens writes it")
    number = int(line.split("line ")[1].split()[0])
    before = lowered_text(chain, X).split("\n")
    assert f"-{before[number - 1]}" in rest


def test_a_file_has_sections(tmp_path: Path, monkeypatch: Any) -> None:
    golden = tmp_path / "code.txt"
    texts = {"one": "a\nb", "two": "c\n"}
    for name, text in texts.items():
        with pytest.raises(AssertionError, match=f"code.txt, {name}: it is not there"):
            assert_golden(text, golden, section=name)
        with monkeypatch.context() as patch:
            patch.setenv("FTRACE_UPDATE_GOLDENS", "1")
            assert_golden(text, golden, section=name)
    assert golden.read_text() == "== one\na\nb\n\n== two\nc\n"
    assert golden_sections(golden) == {"one": "a\nb\n", "two": "c\n"}
    for name, text in texts.items():
        assert_golden(text, golden, section=name)
    with pytest.raises(AssertionError, match=r"code.txt, one: it differs from line 2"):
        assert_golden("a\nB\n", golden, section="one")
    with pytest.raises(ArgumentError, match="no empty lines: 'one'"):
        assert_golden("a\n\nb", golden, section="one")
