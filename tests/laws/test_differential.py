"""The differential table: complete, sensitive, its sample equal to what JAX gave."""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import cache
from inspect import isclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.jax_names import find
from ftrace.ground.missing_names import names_of_jax
from tests.differential import record
from tests.differential.cases import DERIVED, Case, cases_of
from tests.differential.compare import call_ftrace, compare
from tests.differential.outcomes import Difference, Outcome, differences, sample
from tests.differential.purpose import Purpose, purpose_of
from tests.differential.rows import Row, read
from tests.differential.table import ROWS
from tests.differential.table.outside import MODULES, OUTSIDE

#: The sample runs in so many parts, which several processes may share.
PARTS = 48


def _public(module: str) -> list[str]:
    """The full names of what a module offers to call."""
    owner = importlib.import_module(f"ftrace.{module}" if module else "ftrace")
    names = getattr(owner, "__all__", dir(owner))
    own = hasattr(owner, "__all__") or not module
    return [
        f"{module}.{name}" if module else name
        for name in names
        if not name.startswith("_")
        and callable(getattr(owner, name))
        and (
            own or getattr(getattr(owner, name), "__module__", "") == f"ftrace.{module}"
        )
    ]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_function_has_a_row_or_a_reason(module: str) -> None:
    known = {row.name for row in ROWS}
    known |= {name for names in OUTSIDE.values() for name in names.split()}
    assert [name for name in _public(module) if name not in known] == []


@pytest.mark.parametrize("module", names_of_jax())
def test_every_function_of_jax_that_is_here_has_a_row_or_a_reason(module: str) -> None:
    """Those that docs/jax-names.md calls "same" or "differs". Classes have none."""
    known = {row.name for row in ROWS}
    known |= {name for names in OUTSIDE.values() for name in names.split()}
    found = {
        f"{module}.{name}" if module else name: find(module, name)
        for name in names_of_jax()[module]
    }
    functions = [n for n, f in found.items() if callable(f) and not isclass(f)]
    assert [name for name in functions if name not in known] == []


def test_no_reason_is_given_for_what_has_a_row() -> None:
    reasons = [name for names in OUTSIDE.values() for name in names.split()]
    assert sorted(reasons) == sorted({*reasons} - {row.name for row in ROWS})


@pytest.mark.parametrize("part", range(PARTS))
def test_sample_agrees_with_what_jax_gave(part: int) -> None:
    """The first half of the sample's cases; `python -m tests.differential` asks all."""
    recorded = record.load(record.SAMPLE)
    found: list[str] = []
    for row in ROWS[part::PARTS]:
        for case in islice(cases_of(row, 0), -(-recorded.cases(row) // 2)):
            wanted = recorded.get(case)
            if wanted is None:
                continue
            for difference in compare(case, wanted)[0]:
                if purpose_of(case, difference) is None:
                    found.append(f"{case}\n    {difference.what}: {difference.text}")
    assert not found, "\n".join(found)


def test_sample_is_of_the_rows_as_they_are() -> None:
    recorded = record.load(record.SAMPLE)
    assert len(recorded.entries) > 2000
    stale = [
        row.title
        for row in ROWS
        for case in islice(cases_of(row, 0), recorded.cases(row))
        if recorded.holds(case) and recorded.get(case) is None
    ]
    assert stale == [], "record the sample anew: python -m tests.differential --record"


def _case(text: str, number: int = 0) -> Case:
    [row] = read("numpy", text)
    eager = replace(row, properties={**row.properties, "modes": "eager"})
    return next(islice(cases_of(eager, 0), number, None))


def _changed(outcome: Outcome, **changes: Any) -> Outcome:
    [leaf] = outcome.leaves
    return replace(outcome, leaves=[replace(leaf, **changes)])


def _sine() -> tuple[Case, Outcome]:
    row: Row = replace(read("numpy", "sin {elementwise modes=eager}: float")[0])
    for case in cases_of(row, 3):
        outcome = call_ftrace(case)
        if not outcome.error and outcome.leaves[0].dtype == "float32":
            values = outcome.leaves[0].values
            if values.size > 2 and np.isfinite(values).all():
                return case, outcome
    raise AssertionError


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("weak", lambda leaf: {"weak": not leaf.weak}),
        ("dtype", lambda leaf: {"dtype": "float64"}),
        ("shape", lambda leaf: {"shape": (*leaf.shape, 1)}),
        ("value", lambda leaf: {"values": leaf.values * np.float32(1 + 1e-5)}),
        ("value", lambda leaf: {"values": np.full_like(leaf.values, np.nan)}),
    ],
)
def test_difference_is_seen(what: str, change: Any) -> None:
    case, outcome = _sine()
    assert differences(case, outcome, sample(outcome), loose=False) == []
    wanted = _changed(outcome, **change(outcome.leaves[0]))
    assert what in {d.what for d in differences(case, outcome, wanted, loose=False)}


@cache
def _first_cases(count: int) -> list[tuple[Row, Case]]:
    """So many of each row."""
    return [(row, case) for row in ROWS for case in islice(cases_of(row, 1), count)]


#: Whose results are others on purpose, whatever the numbers are.
_OTHER_VALUES = {
    "the function is applied once to an element of several windows",
    "a pivot beyond the rows moves none",
    "integers become floats by themselves, and do not wrap",
    "integers become the default dtype, as the array API asks",
}


def test_no_reason_excuses_any_wrong_number() -> None:
    texts = [
        f"{of} at 0: np.{kind}(1.0); not np.float64(2.0) (3 of 3)"
        for of, kind in (
            ("float64[3]", "float64"),
            ("result 1: float32[3]", "float64"),
            ("int32[3]", "int32"),
        )
    ]
    excused = {
        f"{case}: {reason.reason}: {text}"
        for row, case in _first_cases(5)
        if case.data == "plain" and case.setting != "default"
        if case.mode not in DERIVED
        for text in texts
        if (reason := purpose_of(case, Difference("value", text)))
        and reason.reason not in _OTHER_VALUES
    }
    assert excused == set()


def test_no_reason_excuses_a_finite_slope_where_it_is_infinite() -> None:
    text = "float64[3] at 0: np.float64(0.5); not np.float64(-inf) (1 of 3)"
    excused = {
        row.name: reason.reason
        for row, case in _first_cases(8)
        if case.data == "plain" and case.setting != "default"
        if case.mode in ("grad", "jacfwd", "jit_vmap_grad")
        if (reason := purpose_of(case, Difference("value", text)))
    }
    assert excused == {}


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("accepts", "float32[3]; not TypeError: got an unexpected value"),
        ("accepts", "float32[3]; not ValueError: axis 5 is out of bounds"),
        ("accepts", "float32[3]; not NotImplementedError: "),
        ("accepts", "float32[3]; not OverflowError: Python integer 300 is too large"),
        ("accepts", "float32[3]; not ValueError: VJP function: got int32[], but "
                    "expected float32[]"),
        ("refuses", "ShapeError: the shapes do not fit; not float32[3]"),
        ("refuses", "IndexError (not an error of ours): index 3; not float32[3]"),
        ("refuses", "OverflowError (not an error of ours): 300; not float32[3]"),
        ("raw", "TypeError: 'NoneType' object is not callable"),
    ],
)  # fmt: skip
def test_no_reason_excuses_any_error(what: str, text: str) -> None:
    excused = {
        row.name: reason.reason
        for row, case in _first_cases(3)
        if (reason := purpose_of(case, Difference(what, text)))
    }
    assert excused == {}


def test_a_reason_that_says_near_holds_for_near_numbers_alone() -> None:
    row = Purpose(".*", "value", "", "rounded", near=1e-6)
    text = "float64[] at 0: np.float64({}); not np.float64(-0.5) (1 of 1)"
    found = {
        number: row.holds(_case("sin: float"), Difference("value", text.format(number)))
        for number in ("-0.5000001", "-0.50001", "nan", "-inf", "0.0", "0.5")
    }
    assert [number for number, holds in found.items() if holds] == ["-0.5000001"]


def test_error_is_told_from_a_result() -> None:
    case, outcome = _sine()
    error = Outcome(error="TypeError")
    assert [d.what for d in differences(case, outcome, error, False)] == ["accepts"]
    assert [d.what for d in differences(case, error, outcome, False)] == ["refuses"]
    raw = replace(error, ours=False)
    assert [d.what for d in differences(case, raw, error, False)] == ["raw"]


def test_record_is_replaced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, outcome = _sine()
    path = str(tmp_path / "record.npz")
    record.save(path, {case: outcome})

    def interrupted(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        assert record.load(path).get(case) is not None
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        record.save(path, {})
    assert record.load(path).get(case) is not None


def test_case_follows_from_its_seed() -> None:
    for row in ROWS[::40]:
        first = [str(case) for case in islice(cases_of(row, 5), 6)]
        assert first == [str(case) for case in islice(cases_of(row, 5), 6)]
