"""The page of the benchmarks says what the figures say; nothing is timed here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.page import join, main, page_of

MACHINE = {
    "processor": "cpu, x86_64",
    "cores": 2,
    "system": "Linux",
    "python": "3.11.7",
}


def row(name: str, ours: float, theirs: float | None, **other: Any) -> dict[str, Any]:
    rounds = {"ftrace": [9 * ours, ours]} | (
        {} if theirs is None else {"jax": [theirs]}
    )
    return {
        "family": "sums", "name": name, "bytes": 8, "flops": None, "rounds": rounds,
        "limits": {"memory": [ours / 16, ours]}, "problems": {}, **other,
    }  # fmt: skip


def figures(*rows: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {
        "libraries": {"ftrace": "0.1.0 on cpu", "jax": "0.10.2"}, "machine": MACHINE,
        "threads": 2, "load": 0.1, "rows": list(rows), "date": "2026-01-02",
        "effort": "full", **other,
    }  # fmt: skip


def test_the_page_has_machine_versions_date_and_every_row() -> None:
    rows = row("a", 1e-3, 2e-3), row("b", 1e-3, 5e-4), row("c", 1.0, None)
    page = page_of(join([figures(*rows)])).replace("\N{NO-BREAK SPACE}", " ")
    for said in ("cpu, x86_64, 2 cores", "Python 3.11.7", "JAX 0.10.2", "2026-01-02"):
        assert said in page
    assert "| a | 1 ms | 50% | 2 ms | **2.00×** |" in page
    assert "| b | 1 ms | 50% | 500 µs | 0.50× |" in page
    assert "| c | 1 s | 50% | – | – |" in page
    assert re.search(r"\*geometric mean\* \|\s+\|\s+\|\s+\| 1\.00× \|", page)
    assert "| JAX | 2 | 1.00× | 1 |" in page
    widths = {line.count("|") for line in page.splitlines() if line.startswith("| a")}
    assert widths == {6}


def test_a_busy_machine_and_short_timings_are_said() -> None:
    quiet, busy = (
        page_of(join([figures(row("a", 1.0, 2.0), load=load, effort=effort)]))
        for load, effort in ((0.1, "full"), (3.2, "quick"))
    )
    assert "other work" not in quiet
    assert "--quick" not in quiet
    assert "load 3.2 when it began" in busy
    assert "other work" in busy
    assert "--quick" in busy


def test_parts_of_a_run_are_joined_and_strangers_are_not() -> None:
    first = figures(row("a", 1.0, 2.0), row("b", 1.0, 1.0))
    found = join([first, figures(row("a", 1.0, 3.0), load=0.5)])
    assert [(r["name"], r["ratio"]["jax"]) for r in found["rows"]] == [
        ("a", 3),
        ("b", 1),
    ]
    assert found["load"] == 0.5
    with pytest.raises(ValueError, match="two machines"):
        join([first, figures(machine={**MACHINE, "cores": 4})])
    with pytest.raises(ValueError, match="two versions of jax"):
        join([first, figures(libraries={"jax": "0.9"})])


def test_the_command_writes_page_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "figures.json"
    file.write_text(json.dumps(figures(row("a", 1.0, 2.0))))
    assert main([str(file), "--folder", str(tmp_path)]) == 0
    page = (tmp_path / "benchmarks.md").read_text("utf-8")
    for picture in re.findall(r"\]\((\S+\.png)\)", page):
        assert (tmp_path / picture).stat().st_size > 1000
    assert main([str(tmp_path / "no.json")]) == 2
    file.write_text(json.dumps(figures()))
    assert main([str(file), "--folder", str(tmp_path)]) == 2
    assert "no row" in capsys.readouterr().err
