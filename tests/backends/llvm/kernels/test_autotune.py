"""Tuning: every schedule computes the same, and the fastest is found once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.compile import object_cache
from ftrace.backends.llvm.kernels import autotune
from ftrace.errors import ArgumentError

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "elementwise": (lambda x: fnp.tanh(x) * 2 + x, (normal(3001),)),
    "sum": (fnp.sum, (normal(70_001),)),
    "rows": (ft.nn.softmax, (normal(37, 301),)),
    "columns": (lambda x: fnp.sum(x, axis=0), (normal(301, 37),)),
    "product": (lambda a, b: fnp.tanh(a @ b), (normal(97, 130), normal(130, 75))),
    "turned": (lambda x, y: x.T + y, (normal(130, 97), normal(97, 130))),
    "gather": (
        lambda t, i: t[i] + 1,
        (normal(50, 33), RNG.integers(0, 50, 70).astype(np.int32)),
    ),
    "convolution": (
        lambda x, w: ft.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        (normal(2, 5, 14, 13), normal(7, 5, 3, 3)),
    ),
    "scatter": (
        lambda t, i: t.at[i].add(1.0),
        (normal(50, 33), RNG.integers(0, 50, 70).astype(np.int32)),
    ),
    "half precision": (
        lambda x: (x @ x.T).sum(0),
        (normal(60, 41).astype(ft.numpy.bfloat16),),
    ),
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path) -> Any:
    ft.clear_caches()
    with ft.config(device="cpu", cache_dir=str(tmp_path)):
        yield


def tuned(function: Any, arguments: tuple[Any, ...]) -> Any:
    with ft.config(tune=True):
        return np.asarray(ft.jit(function)(*arguments), np.float32)


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_every_schedule_gives_the_same_bits(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, arguments = PROGRAMS[program]
    expected = np.asarray(ft.jit(function)(*arguments), np.float32)
    monkeypatch.setattr(autotune, "MOST_SCHEDULES", 7)
    for pick in (-1, -3):

        def choose(candidates: Any, *_: Any, pick: int = pick) -> int:
            assert candidates[0].number == 0
            return int(candidates[max(pick, -len(candidates))].number)

        monkeypatch.setattr(autotune, "fastest", choose)
        object_cache.clear()
        ft.devices("cpu")[0].clear_cache()
        found = tuned(lambda *args: function(*args), arguments)
        assert found.tobytes() == expected.tobytes()


def test_sums_in_another_order_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: set[Any] = set()
    compiled = autotune.compile_kernels

    def note(kernels: Any, render: Any, *args: Any, **known: Any) -> Any:
        orders.add(tuple(s.order_of_sums for s in render(kernels[0]).schedules))
        return compiled(kernels, render, *args, **known)

    monkeypatch.setattr(autotune, "compile_kernels", note)
    tuned(fnp.sum, (normal(5000, 3),))
    assert len(orders) == 1


def test_most_programs_have_several_schedules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(autotune, "MOST_SCHEDULES", 4)
    x = normal(300, 511)
    tuned(lambda x: ft.nn.softmax(x @ x.T) * 3, (x,))
    shown = capsys.readouterr().err.split("tuning kernels")[1:]
    assert shown
    for kernel in shown:
        assert "for units of" in kernel
        assert kernel.count("µs") > 1


def test_the_choice_is_kept_on_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[int] = []

    def pick(candidates: Any, *_: Any) -> int:
        asked.append(1)
        return int(candidates[-1].number)

    monkeypatch.setattr(autotune, "fastest", pick)
    x = normal(12_345)

    def f(x: Any) -> Any:
        return fnp.exp(x) + 7

    first = tuned(f, (x,))
    assert asked == [1]
    device = ft.devices("cpu")[0]
    again: Any = type(device)()  # as another process: nothing is in memory
    program = ft.jit(f).lower(x).program
    with ft.config(tune=True):
        again.compile(program)
    assert asked == [1]
    for file in tmp_path.rglob("*.o"):
        file.write_bytes(b"damaged")
    with ft.config(tune=True):
        type(device)().compile(program)
    assert asked == [1, 1]
    np.testing.assert_allclose(first, np.exp(x) + 7, rtol=1e-6)


def test_nothing_is_tried_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "fastest", lambda *_: pytest.fail("it was tried"))
    ft.jit(lambda x: fnp.exp(x) + 8)(normal(12_346))


def test_the_quickest_wins_by_more_than_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [1.0, 0.99, 1.2]
    monkeypatch.setattr(autotune, "_runner", lambda number, *_: number)
    monkeypatch.setattr(autotune, "_clock", lambda number: lambda: seconds[number])
    candidates: Any = [autotune.Candidate(n, str(n), n) for n in range(3)]
    assert autotune.fastest(candidates, [], 1) == 0
    seconds[2] = 0.5
    assert autotune.fastest(candidates, [], 1) == 2


def test_without_memory_the_default_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(autotune, "_fill", none_left)
    x = normal(12_347)
    np.testing.assert_allclose(tuned(lambda x: x * 9, (x,)), x * 9)


def test_tuning_really_times_and_shows_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = normal(12_348)
    np.testing.assert_allclose(tuned(lambda x: x * 10, (x,)), x * 10)
    assert "tuning kernels: 1 of 1, mul_12348" in capsys.readouterr().err


def test_on_a_terminal_one_line_shows_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(autotune, "_tune", lambda *_: 0)
    x = normal(12_349)
    tuned(lambda x: (fnp.sum(x * 11), fnp.sort(x * 12) + 1)[0], (x,))
    shown = capsys.readouterr().err
    assert shown.startswith("\r")
    assert "tuning kernels: 1 of" in shown
    assert shown.count("\n") == 1


def test_tune_is_a_switch() -> None:
    with pytest.raises(
        ArgumentError, match="tune must be True or False, got str: 'yes'"
    ):
        ft.config.update("tune", "yes")
