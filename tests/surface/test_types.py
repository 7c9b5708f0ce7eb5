"""What checkers and editors are told of functions is so: stubs, and users' programs."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import re
import runpy
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from docs.stubs import GATHERED, MODULES, PACKAGE
from ftrace import errors
from ftrace.ground.missing_names import names_of_jax
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.jit.signatures import JitOptions, Wrapped
from tests.differential.cases import cases_of
from tests.differential.compare import library
from tests.differential.modes import Missing, run
from tests.differential.rows import Row
from tests.differential.table import ROWS

ROOT = PACKAGE.parent
USERS, MISTAKES = (ROOT / "tests" / "typing" / f"{n}.py" for n in ("users", "mistakes"))


def _lines(found: list[tuple[str, int]], path: Path) -> set[int]:
    return {line for name, line in found if Path(name).name == path.name}


def _run(checker: str, folder: Path) -> list[tuple[str, int]]:
    """File and line of each complaint."""
    if checker == "pyright":
        program = shutil.which("pyright", path=str(Path(sys.executable).parent))
        settings: dict[str, Any] = {
            "include": [], "extraPaths": [str(ROOT)], "pythonVersion": "3.10"
        }  # fmt: skip
        (folder / "pyrightconfig.json").write_text(json.dumps(settings))
        for path in (USERS, MISTAKES):
            shutil.copy(path, folder)
        settings["include"] = ["."]
        (folder / "pyrightconfig.json").write_text(json.dumps(settings))
        command = [program, "--outputjson", "--pythonpath", sys.executable]
    else:
        command = [
            sys.executable, "-m", "mypy", "--follow-imports=silent", "--output=json",
            "--no-incremental", str(USERS), str(MISTAKES),
        ]  # fmt: skip
    if command[0] is None or not importlib.util.find_spec(checker):
        pytest.skip(f"{checker} is missing: the extra ftrace[dev] brings it")
    cwd = folder if checker == "pyright" else ROOT
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=500, check=False
    )
    if checker == "pyright":
        rows = json.loads(done.stdout)["generalDiagnostics"]
        return [(r["file"], r["range"]["start"]["line"] + 1) for r in rows]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(r["file"], r["line"]) for r in rows if r["severity"] == "error"]


@pytest.mark.parametrize("checker", ["pyright", "mypy"])
def test_checkers_find_the_mistakes_of_users_and_nothing_else(
    checker: str, tmp_path: Path
) -> None:
    found = _run(checker, tmp_path)
    assert _lines(found, USERS) == set()
    lines = MISTAKES.read_text("utf-8").splitlines()
    wrong = {i for i, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) > 8
    assert _lines(found, MISTAKES) == wrong


def test_the_program_of_users_runs() -> None:
    runpy.run_path(str(USERS))


@cache
def _stub(module: str) -> str:
    path = PACKAGE.joinpath(*module.split("."))
    file = path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")
    return file.read_text("utf-8")


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_has_all_public_names(module: str) -> None:
    text = _stub(module)
    for name in dir(importlib.import_module(f"ftrace.{module}")):
        shown = rf"(^(def|class) {name}\b|^{name}( =|:)|\bas {name}\b)"
        assert re.search(shown, text, re.MULTILINE), name


@pytest.mark.parametrize("module", GATHERED)
def test_the_stub_of_a_package_tells_where_its_names_are(module: str) -> None:
    found = importlib.import_module(f"ftrace.{module}".rstrip("."))
    names = [name for name in dir(found) if name[0] != "_"]
    assert len(names) > 10
    for line in _stub(module).splitlines():
        if told := re.fullmatch(r"from (\S+) import (.*)", line):
            home = importlib.import_module(told[1])
            for own, name in re.findall(r"(\w+) as (\w+)", told[2]):
                assert getattr(home, own) is getattr(found, name), name
                names = [other for other in names if other != name]
    assert not names


def _eager_results(row: Row) -> Iterator[Any]:
    """What calls of a function return; those that are refused return nothing."""
    for case in islice(cases_of(row, 0), 12):
        eager = replace(case, factors=("eager", *case.factors[1:]))
        with contextlib.suppress(errors.FtraceError, TypeError, Missing):
            result = run(library("ftrace"), eager)
            yield result
            return


def test_what_the_table_of_calls_returns_is_what_the_stubs_say(
    request: pytest.FixtureRequest,
) -> None:
    checked, step = 0, 1 if request.config.option.all_rows else 4
    for row in ROWS[::step]:
        module, _, short = row.name.rpartition(".")
        if module not in MODULES or row.program is not None:
            continue
        shown = rf"^def {short}\(.*-> (.*): \.\.\."
        said = re.search(shown, _stub(module), re.MULTILINE)
        if said is None or said[1] not in _SHOWN:
            continue
        for result in _eager_results(row):
            assert _SHOWN[said[1]](result), f"{row.name}: {result!r:.80}, not {said[1]}"
            checked += 1
    assert checked > 300 // step


def _is_array(x: Any) -> bool:
    return isinstance(x, ft.Array)


_SHOWN = {
    "_Array": _is_array,
    "_list[_Array]": lambda x: type(x) is list and all(map(_is_array, x)),
    "_tuple[_Array, ...]": lambda x: isinstance(x, tuple) and all(map(_is_array, x)),
    "_tuple[_Array, _Array]": lambda x: len(x) == 2 and all(map(_is_array, x)),
}


def test_what_is_said_of_jitted_functions_is_there() -> None:
    members = [n for n in vars(Wrapped) if n[0] != "_" and n != "mro"]
    assert len(members) > 6
    assert all(hasattr(Jitted, name) for name in members)
    taken = set(inspect.signature(ft.jit).parameters) - {"fun"}
    assert taken == set(JitOptions.__annotations__)


#: Modules whose names users look for.
LISTED = (
    "", "numpy", "numpy.fft", "numpy.linalg", "lax", "lax.linalg", "nn",
    "nn.initializers", "random", "scipy", "scipy.special", "scipy.stats",
    "scipy.linalg", "errors", "dtypes", "extend", "optim", "tree", "tree_util",
    "sharding", "debug", "testing", "typing", "profiler", "experimental", "stages",
    "image", "ops",
)  # fmt: skip


@pytest.mark.parametrize("module", LISTED)
def test_dir_shows_public_names_only(module: str) -> None:
    found = importlib.import_module(f"ftrace.{module}".rstrip("."))
    names = dir(found)
    assert names
    assert len(set(names)) == len(names)
    for name in names:
        assert name[0] != "_", name
        value = getattr(found, name)
        home = value.__name__ if isinstance(value, types.ModuleType) else "ftrace"
        assert home.startswith("ftrace"), name
    known = {n for n in names_of_jax().get(module, ()) if not n.endswith("_p")}
    assert {n for n in known if hasattr(found, n)} <= {*names}


def test_methods_of_arrays_are_those_of_the_stub() -> None:
    text = (PACKAGE / "trace" / "arrays" / "methods.pyi").read_text("utf-8")
    names = set(re.findall(r"^    def (\w+)\(self", text, re.MULTILINE))
    assert len(names) > 70
    x = fnp.arange(6.0).reshape(2, 3)
    traced: list[Any] = []
    ft.jit(lambda y: traced.append({n for n in names if not hasattr(y, n)}))(x)
    assert traced == [set()]
    assert all(hasattr(x, name) for name in names)
    assert x.sum(0, keepdims=True).shape == (1, 3)
    np.testing.assert_array_equal(x.flatten(), np.arange(6.0))
