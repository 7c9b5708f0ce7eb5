"""The benchmarks run, compare results, and say what is wrong; nothing is timed here."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import benchmarks.measure
import ftrace
from benchmarks import against, machine, models, report, stages, timing
from benchmarks.libraries import Api, leaves, load_library, map_tree
from benchmarks.machine import (
    ARITHMETIC,
    LIMITS,
    MEMORY,
    PYTHON,
    READING,
    Machine,
)
from benchmarks.measure import DisagreementError, Outcome, compare, measure
from benchmarks.options import parser
from benchmarks.row import Row
from benchmarks.rows import FAMILIES
from benchmarks.run import run, select
from benchmarks.timing import PATIENCE, PAUSE, QUICK, Effort, in_turn, rest

ROWS = [row for family in FAMILIES for row in family.rows]


def run_with(*arguments: str) -> int:
    return run(parser().parse_args(list(arguments)))


def test_two_rows_run_next_to_numpy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    status = run_with(
        "--quick", "--peer", "numpy", "--json", str(file),
        "--rows", "Rosenbrock|jitted call, 10 leaves",
    )  # fmt: skip
    text = capsys.readouterr().out
    assert status == 0, text
    assert "Hessian of Rosenbrock, 100" in text
    assert "jitted call, 10 leaves" in text
    assert "geometric mean" in text
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    assert rows["Hessian of Rosenbrock, 100"]["ratio"]["numpy"] > 0
    assert rows["jitted call, 10 leaves"]["ratio"]["numpy"] is None


def test_the_table_has_every_family_and_enough_rows() -> None:
    assert len({row.title for row in ROWS}) == len(ROWS) >= 60
    assert sum(row.serves("jax") for row in ROWS) >= 60
    assert sum(row.serves("torch") for row in ROWS) >= 15
    assert sum(row.serves("numpy") for row in ROWS) >= 10
    assert select("^contraction/matmul")
    assert not select("no such row")


def test_a_missing_peer_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setitem(sys.modules, "jax", None)
    assert run_with("--peer", "jax", "--rows", "Rosenbrock") == 2
    assert "the peer 'jax' cannot be imported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "no such row"], "no row matches 'no such row'; --list"),
        (["--rows", "("], "is no regular expression"),
        (["--rows", "Rosenbrock", "--save", "no/such/folder"], "folder does not exist"),
        (["--rows", "Rosenbrock", "--against", "no/such/file"], "--against no/such"),
        (["--rows", "Rosenbrock", "--against", __file__], "--against"),
    ],
)
def test_bad_arguments_are_messages(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(*arguments) == 2
    assert message in capsys.readouterr().err


def test_results_that_differ_are_reported() -> None:
    row = Row("test", "differs", lambda: (np.ones(3, np.float32),), lambda _: np.sum)
    row.jit = False
    row.peers["numpy"] = lambda _: lambda x: x.sum() + 1
    libraries = [load_library("ftrace"), load_library("numpy")]
    outcome = measure(row, libraries, QUICK)
    assert "differs from ftrace's by" in outcome.problems["numpy"]
    assert outcome.ratio("numpy") is None


def test_a_row_that_fails_does_not_end_the_run() -> None:
    def fails(_: Any) -> Any:
        raise KeyError("mine")

    outcome = measure(
        Row("test", "fails", build=fails), [load_library("ftrace")], QUICK
    )
    assert outcome.problems == {"ftrace": "KeyError: 'mine'"}
    assert outcome.seconds() is None


def test_compare_looks_at_number_shape_and_value() -> None:
    one = np.ones(3)
    compare([one, one[:0]], [one * 1.0001, one[:0]], 1e-3)
    for found, match in (
        ([], "0 results"),
        ([np.ones(4)], r"shape \(4,\)"),
        ([one * 1.1], "differs from"),
        ([one * np.nan], "differs from"),
    ):
        with pytest.raises(DisagreementError, match=match):
            compare(found, [one], 1e-3)


def test_libraries_take_turns() -> None:
    calls: list[str] = []

    def clock(name: str) -> Any:
        def seconds() -> float:
            calls.append(name)
            return 1.0

        return seconds

    effort = Effort(rounds=3, least=3, seconds=0, budget=0)
    measured = in_turn({"a": clock("a"), "b": clock("b")}, effort)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert measured == {"a": [1.0] * 3, "b": [1.0] * 3}


@pytest.mark.parametrize(
    ("options", "result", "limits"),
    [
        ({}, np.negative, [PYTHON]),
        ({"flops": 1e3}, np.negative, [ARITHMETIC]),
        ({"bytes": True}, np.negative, [MEMORY]),
        ({"bytes": True}, np.sum, [MEMORY, READING]),
        ({"bytes": 10**6}, np.sum, [MEMORY, READING]),
    ],
)
def test_the_limits_of_a_row_take_their_turn(
    options: dict[str, Any],
    result: Any,
    limits: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def clock(limit: str, _: float) -> Any:
        return lambda: asked.append(limit) or 2.0

    monkeypatch.setattr(benchmarks.measure, "reference", clock)
    row = Row(
        "test", "limited", lambda: (np.ones(99, np.float32),), lambda _: result,
        jit=False, **options,
    )  # fmt: skip
    effort = Effort(rounds=3, least=3, seconds=0, budget=0)
    outcome = measure(row, [load_library("ftrace")], effort)
    assert asked == [*limits, *limits[::-1], *limits]
    assert outcome.limits == {limit: [2.0] * 3 for limit in limits}
    assert list(outcome.rounds) == ["ftrace"]
    seconds = outcome.seconds()
    assert seconds is not None
    amount = options.get("flops", outcome.nbytes)
    for limit in LIMITS:
        expected = pytest.approx(2 * amount / seconds) if limit in limits else None
        assert outcome.share(limit) == expected


def test_the_loops_of_the_limits_touch_every_element(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 3 * machine.CLAIM
    monkeypatch.setattr(machine, "FLOATS", size)
    monkeypatch.setattr(machine, "STEPS", 100)
    limits = Machine()
    for limit in LIMITS:
        assert 0 < limits.clock(limit, 0)() < 1
    first, second, total = limits.arrays
    first[:], second[:] = np.arange(size) % 7, 1
    limits.work(MEMORY)[0]()
    assert (total == first + 1).all()
    for sink in limits.sinks:
        sink[:] = 0
    limits.work(READING)[0]()
    assert sum(sink.sum(dtype=np.float64) for sink in limits.sinks) == first.sum()


@pytest.mark.parametrize("spinning", [0, 7, 10_000])
def test_a_turn_begins_when_no_thread_spins(
    spinning: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(
        sleep=slept.append,
        perf_counter=lambda: sum(slept),
        process_time=lambda: sum(slept[:spinning]),
    )
    monkeypatch.setattr(timing, "time", clock)
    rest()
    if spinning < 10_000:
        assert len(slept) == spinning + 1
    else:
        assert PATIENCE <= sum(slept) < PATIENCE + 2 * PAUSE


def test_trees_keep_their_structure() -> None:
    tree = {"b": [1, (2, None)], "a": 3}
    assert map_tree(lambda x: x + 1, tree) == {"b": [2, (3, None)], "a": 4}
    assert list(leaves(tree)) == [3, 1, 2]


@pytest.mark.parametrize("show", ["_show_plain", "_show_rich"])
def test_the_report_shows_ratios_and_rates(
    show: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if show == "_show_rich":
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr(report, "find_spec", lambda _: None)
    fast, slow = Row("test", "fast", flops=1e9), Row("test", "slow")
    outcomes = [
        Outcome(
            fast, {"ftrace": [1e-3], "numpy": [4e-3]}, limits={ARITHMETIC: [5e-13]}
        ),
        Outcome(
            slow, {"ftrace": [2.0], "numpy": [0.5]}, {"jax": "it failed"}, 10**9,
            {MEMORY: [1e-9, 4e-9, 0.5e-9], READING: [1.25e-9]},
        ),
    ]  # fmt: skip
    libraries = [load_library("ftrace"), load_library("numpy")]
    report.Report(libraries, outcomes, [], load=3.0).print()
    text = capsys.readouterr().out
    for part in (
        "TEST", "4.00×", "0.25×", "1.00×", "1000.0 GFLOP/s", "0.5 GB/s", "50%",
        "slower in 1 of 2 rows", "busy (load 3.0", "FAILED test/slow in jax: it failed",
        "with 1 rows, 2 threads: 1.0 (row by row 1.0 to 1.0) GB/s from and to memory",
        "0.8 (row by row 0.8 to 0.8) GB/s of pure reading", "2000.0 (row by row",
        "of pure reading reach: slow 62%",
    ):  # fmt: skip
        assert part in text


def saved(processor: str, *rows: tuple[str, float, float]) -> dict[str, Any]:
    return {
        "machine": {"processor": processor, "cores": 2},
        "rows": [
            {
                "family": "test",
                "name": name,
                "rounds": {"ftrace": [9 * own, own]},
                "limits": {PYTHON: [reference, 7 * reference]},
            }
            for name, own, reference in rows
        ],
        "compile time": [
            {"program": "p", "size": 5, "microseconds": {"trace": 2.0}, "python": 1e-4}
        ],
    }


def test_two_runs_are_compared_by_what_had_its_turn_with_each_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = saved("old", ("same", 2.0, 1.0), ("quick", 1.0, 1.0), ("gone", 1.0, 1.0))
    now = saved("new", ("same", 6.0, 3.0), ("quick", 0.5, 1.0), ("own", 1.0, 1.0))
    file = tmp_path / "before.json"
    file.write_text(json.dumps(before))
    against.print_comparison(against.read(file), now)
    text = capsys.readouterr().out
    rows = [" ".join(re.findall(r"[\w.×/%]+", line)) for line in text.splitlines()]
    assert "test/same 2 s 6 s 0.33 1.00×" in rows
    assert "test/quick 1 s 500 ms 2.00 2.00×" in rows
    assert "gone" not in text
    assert "ANOTHER MACHINE: before processor old, cores 2; now processor new" in text
    assert f"3 rows, in turn: {2 ** (1 / 3):.3f}" in text
    assert text.count("beyond 3%") == 1
    against.print_comparison(now, now)
    text = capsys.readouterr().out
    assert "both on the same kind of machine: processor new, cores 2" in text
    assert "beyond" not in text


def test_durations_have_three_digits() -> None:
    shown = [report.duration(s) for s in (2.5, 0.0123, 1.234e-4, 4e-8, None)]
    assert shown == ["2.5 s", "12.3 ms", "123 µs", "40 ns", "–"]


def test_every_stage_of_compilation_is_timed() -> None:
    for name, make in stages.PROGRAMS.items():
        times = stages.measure_program(name, make, 60, 1)
        assert set(times.microseconds) == set(stages.STAGES)
        spent = {k: v for k, v in times.microseconds.items() if k != "transform"}
        assert all(each > 0 for each in spent.values())
        assert times.kernels[0] >= times.kernels[1] > 0
        assert -1 < times.lines < 1


def test_one_line_stands_for_all_within_its_block_alone() -> None:
    def fun(x: Any) -> Any:
        y = ftrace.numpy.sin(x)
        return y + 1

    def lines() -> set[int]:
        ftrace.clear_caches()
        nodes = ftrace.make_graph(fun)(1.0).nodes
        return {node.origin.line for node in nodes if node.origin is not None}

    assert len(lines()) > 1
    with stages.one_line_for_all():
        assert len(lines()) == 1
    assert len(lines()) > 1


@pytest.mark.parametrize(
    ("shape", "temporary"),
    [((2, 64, 128), 1_974_784), ((4, 256, 256), 54_566_912), ((2, 1024, 256), 262e6)],
)
def test_a_training_step_of_a_transformer_needs_no_more_memory_than_jax(
    shape: tuple[int, int, int], temporary: float
) -> None:
    """`temporary`: what `memory_analysis()` of JAX 0.10.2 says, results aside."""
    loss = models.block_loss(Api.of(ftrace), 8)
    step = ftrace.jit(models.sgd_step(Api.of(ftrace), loss))
    program = step.lower(*models.block_inputs(*shape)).program
    assert program.arena <= temporary
