"""The floors of the house: no import runs upward, and none runs in a circle.

An import is a statement, or the name by which code loads a module when it needs it.

    ground <- trace <- lower <- backends <- transforms <- top
                   <- surface <----------/         <- jaxprs <- package <- compat

`surface` is numpy and trees: what transforms stand on. `top` is the other names of JAX,
which stand on transforms; `jaxprs` is what their names for primitives are made of, and
`compat` runs programs that were written for others. What lies in one folder, files and
folders alike, stands on floors of its own: the docstring of the package is a map that
names them from the ground up.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import ftrace
from ftrace.backends.llvm.object_cache import SOURCES

PACKAGE = Path(__file__).parents[2] / "ftrace"

#: Of `compat` what names of lower floors are made of: see the table of offers in
#: ftrace/__init__.py.
JAXPRS = (
    "hijax", "jaxpr", "lax_primitives", "library_view", "linear_util", "primitive",
    "sparsify", "view", "jax/dtypes",
)  # fmt: skip

#: Floor -> the files and folders of ftrace/ that stand on it.
FLOORS = {
    "ground": ("dtypes", "errors", "ground", "monitoring"),
    "trace": ("trace",),
    "surface": ("numpy", "tree", "tree_util", "flatten_util"),
    "lower": ("lower",),
    "backends": ("backends",),
    "transforms": ("transforms",),
    "top": (
        "image", "lax", "nn", "scipy", "ops", "debug", "test_util", "experimental",
        "ad_checkpoint", "custom_batching", "custom_derivatives", "extend",
        "distributed", "memory", "profiler", "sharding", "stages",
        "dlpack", "optim", "random", "ref", "testing", "typing",
    ),
    "jaxprs": tuple(f"compat/{file}" for file in JAXPRS),
    "package": ("__init__", "__main__"),
    "compat": ("compat",),
}  # fmt: skip

#: Floor -> the floors that it may import, besides itself.
BELOW = {
    "ground": "",
    "trace": "ground",
    "surface": "ground trace",
    "lower": "ground trace",
    "backends": "ground trace lower",
    "transforms": "ground trace lower backends surface",
    "top": "ground trace lower backends surface transforms",
    "jaxprs": "ground trace lower backends surface transforms top",
    "package": "ground trace lower backends surface transforms top jaxprs",
    "compat": "ground trace lower backends surface transforms top jaxprs package",
}

#: Folders with a map of what is in them as the docstring, as each of those in them has.
MAPPED = (
    "ground", "trace", "lower", "backends", "transforms",
    "lax", "numpy", "optim", "random",
)  # fmt: skip

#: What a function may import when it runs: the extras of pyproject.toml, and the
#: drivers of devices.
OPTIONAL = {
    "hypothesis", "mpi4py", "opt_einsum", "platformdirs", "pyopencl", "pytest",
    "rich", "safetensors", "scipy",
}  # fmt: skip

#: What functions of a module load when they first need it, so that neither an import
#: of ftrace nor a program from disk waits for it: see
#: tests/ground/test_lazy_imports.py.
LOADED_LATER = {
    # What makes code of kernels, and what makes calls native.
    "ftrace.backends.llvm.device": ("ftrace.backends.llvm",),
    # Every kind of function by itself.
    "ftrace.backends.llvm.kernels.function_library": (
        "ftrace.backends.llvm",
        "ftrace.trace.primitives.library",
    ),
    "ftrace.backends.llvm.runtime.runtime": (
        "ftrace.backends.llvm.runtime.thread_pool",
    ),
    "ftrace.backends.llvm.call.install": ("ftrace.backends.llvm.call",),
    # Much more comes with it.
    "ftrace.backends.llvm.object_cache": ("tempfile",),
}

#: What loads a module by its name.
LOADERS = ("import_module", "_import_module", "__import__")

#: Modules that load others by names that their code has not -> whose names these are.
BY_GIVEN_NAMES = {
    "ftrace.trace.eager.function_objects": "of a pickled function",
    "ftrace.trace.primitives.primitive": "all of trace, where a pickle names a record",
    "ftrace.transforms.tree_structure": "of a class, in the text of a tree",
    "ftrace.backends.llvm.library.lapack.symbols": "of SciPy's modules",
    "ftrace.testing.graph_text": "of a class, in the text of a graph",
}

#: (module, one above it that its code names) -> why. All others look down only.
UPWARD = {
    ("ftrace", "ftrace.compat"): "it has that name, and FTRACE_AS_JAX=1 asks for it",
    (
        "ftrace.trace.tracing.tracer",
        "ftrace.numpy",
    ): "a message says whether a function "
    "of NumPy has its like there, if that is loaded",
}

FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
    for path in FILES
}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}


NAMES = {path: name for name, path in MODULES.items()}


def module_of(path: Path) -> str:
    return NAMES[path]


def floor_of(module: str) -> str:
    parts = module.split(".")[1:] or ["__init__"]
    for end in range(len(parts), 0, -1):
        place = "/".join(parts[:end])
        for floor, places in FLOORS.items():
            if place in places:
                return floor
    pytest.fail(f"{module} stands on no floor; add it to FLOORS in {__file__}")


def is_type_checking(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    test = node.test
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


@cache
def imports(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """(statement, inside a function) for every import that runs."""
    found: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    pending: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append((node, inside))
        elif isinstance(node, ast.If) and is_type_checking(node):
            pending.extend((child, inside) for child in node.orelse)
        elif not isinstance(node, ast.expr):  # none holds an import
            function = (ast.FunctionDef, ast.AsyncFunctionDef)
            inside = inside or isinstance(node, function)
            pending.extend((child, inside) for child in ast.iter_child_nodes(node))
    return found


def names(path: Path, statement: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that a statement imports, by their full names."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    base = statement.module or ""
    if statement.level:
        package = module_of(path).split(".")
        if path.name != "__init__.py":
            package = package[:-1]
        package = package[: len(package) - statement.level + 1]
        base = ".".join([*package, base]).rstrip(".")
    found: list[str] = []
    for alias in statement.names:
        full = f"{base}.{alias.name}"
        found.append(full if full in MODULES else base)
    return found


@cache
def loads(path: Path) -> list[tuple[str, int]]:
    """(module of ftrace, line) for each that the code of a file loads by its name.

    Any text counts that is such a name, and any that becomes one behind the beginning
    of an f-string: `import_module(name)` stands elsewhere than the table of the names.
    """
    nodes, own = [*ast.walk(ast.parse(path.read_text()))], module_of(path)
    if not any(key_of(node) for node in nodes):
        return []
    heads = {""} | {head_of(n, own) for n in nodes if isinstance(n, ast.JoinedStr)}
    found = {
        (f"{head}{node.value}", node.lineno)
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for head in heads
    }
    rows = [row for row in found if row[0] in MODULES and row[0] not in (own, "ftrace")]
    return sorted(row for row in rows if (own, row[0]) not in UPWARD)


def key_of(node: ast.AST) -> ast.expr | None:
    """By what a module is loaded, or looked for among those that are."""
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and called in LOADERS:
        return node.args[0]
    found = None
    if isinstance(node, ast.Call) and called == "sys.modules.get":
        found = node.args[0]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
        found = node.slice
    return found if isinstance(found, (ast.Constant, ast.JoinedStr)) else None


def head_of(text: ast.JoinedStr, module: str) -> str:
    """The beginning of an f-string, as far as it is known in a module."""
    found = ""
    for part in text.values:
        if isinstance(part, ast.FormattedValue):
            if ast.unparse(part.value) != "__name__":
                break
            found += module
        elif isinstance(part, ast.Constant):
            found += str(part.value)
    return found


@cache
def own_imports(path: Path) -> list[tuple[str, int]]:
    """(module of ftrace, line) for every import of `path` from the package."""
    found = [
        (name, statement.lineno)
        for statement, _ in imports(path)
        for name in names(path, statement)
        if name.split(".")[0] == "ftrace"
    ]
    found += loads(path)
    for name, line in found:
        assert name in MODULES, f"{path}:{line} imports {name}, which does not exist"
    return found


def test_no_import_runs_upward() -> None:
    found: list[str] = []
    for path in FILES:
        floor = floor_of(module_of(path))
        allowed = {floor, *BELOW[floor].split()}
        found += [
            f"{path}:{line}: the floor {floor!r} must not import {name}, which stands "
            f"on {floor_of(name)!r}; it may import {sorted(allowed)}"
            for name, line in own_imports(path)
            if floor_of(name) not in allowed
        ]
    assert not found, "\n".join(found)


def test_no_imports_run_in_a_circle() -> None:
    edges = {
        module: {name for name, _ in own_imports(path)} - {module}
        for module, path in MODULES.items()
    }
    # Modules that import nothing that is left are taken away, until none is.
    while ready := {m for m, others in edges.items() if not others & edges.keys()}:
        for module in ready:
            del edges[module]
    circle = {
        module: sorted(others & edges.keys())
        for module, others in edges.items()
        if any(module in edges.get(other, ()) for other in edges)
    }
    assert not edges, f"these files import each other in a circle: {circle}"


def test_what_decides_the_code_is_in_the_key_of_the_disk_cache() -> None:
    """All that the device imports; `ftrace` itself binds names alone."""
    reached: set[str] = set()
    pending = ["ftrace.backends.llvm.device"]
    while pending:
        module = pending.pop()
        if module not in reached | {"ftrace"}:
            reached.add(module)
            pending += [name for name, _ in own_imports(MODULES[module])]
    package = MODULES["ftrace"].parent
    parts = {MODULES[m].relative_to(package).parts[0] for m in reached}
    assert parts == set(SOURCES)


def test_what_is_loaded_by_its_name_is_seen() -> None:
    """Modules that load any others, of which nothing is known here, are in a table."""
    found = {
        module
        for module, path in MODULES.items()
        if floor_of(module) != "compat" and not loads(path)
        for node in ast.walk(ast.parse(path.read_text()))
        if not isinstance(key_of(node), (ast.Constant, type(None)))
    }
    assert found - {module for module, _ in UPWARD} == {*BY_GIVEN_NAMES}
    for module, above in UPWARD:
        assert above.removeprefix("ftrace.") in MODULES[module].read_text()


def test_names_of_modules_in_texts_are_imports(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(
        "import sys\n"
        "from importlib import import_module\n"
        "TABLE = {'lax': 1, 'ftrace.nn': 2}\n"
        "def function(name):\n"
        "    return import_module(f'ftrace.{name}'), sys.modules['ftrace.dtypes']\n"
    )
    NAMES[path] = "ftrace.sample"
    assert loads(path) == [("ftrace.dtypes", 5), ("ftrace.lax", 3), ("ftrace.nn", 3)]


def test_functions_import_only_optional_packages() -> None:
    found = [
        f"{path}:{statement.lineno}: {name} is imported inside a function; "
        "import it at the top of the file"
        for path in FILES
        for statement, inside in imports(path)
        for name in names(path, statement)
        if inside and not name.startswith(LOADED_LATER.get(module_of(path), ()))
        if name.split(".")[0] not in OPTIONAL
    ]
    assert not found, "\n".join(found)


def test_imports_for_type_checkers_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(
        "import typing\n"
        "if typing.TYPE_CHECKING:\n"
        "    import left_out\n"
        "else:\n"
        "    import first\n"
        "def function():\n"
        "    from second import name\n"
    )
    found = {names(path, statement)[0]: inside for statement, inside in imports(path)}
    assert found == {"typing": False, "first": False, "second": True}


def test_every_floor_names_only_floors_below() -> None:
    order = list(FLOORS)
    for floor, below in BELOW.items():
        assert all(order.index(b) < order.index(floor) for b in below.split())


#: Folder -> the files and folders in it.
ROOMS = {
    folder: sorted(
        each.stem
        for each in folder.iterdir()
        if each.suffix == ".py" or (each / "__init__.py").exists()
    )
    for folder in (path.parent for path in FILES if path.name == "__init__.py")
}


def named(folder: Path) -> list[str]:
    """The files and folders that the docstring of a package tells of, in order."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    return re.findall(r"^    (\w+)/?  +\S", text or "", re.MULTILINE)


@pytest.mark.parametrize("floor", MAPPED)
def test_the_docstring_of_a_package_is_its_map(floor: str) -> None:
    """It says of each file and folder what it is for, from the ground up."""
    for folder, rooms in ROOMS.items():
        if floor in folder.relative_to(PACKAGE).parts[:1]:
            there = sorted({*rooms} - {"__init__"})
            assert sorted(named(folder)) == there, f"{folder}/__init__.py"


def test_rooms_import_only_those_that_their_package_names_before() -> None:
    found: list[str] = []
    for folder in ROOMS:
        order = named(folder)
        prefix = module_of(folder / "__init__.py") + "."
        for module in (m for m in MODULES if m.startswith(prefix)):
            room = module[len(prefix) :].split(".")[0]
            for name, _ in own_imports(MODULES[module]):
                other = name.removeprefix(prefix).split(".")[0]
                if (
                    not name.startswith(prefix)
                    or other not in order
                    or room not in order
                ):
                    continue
                arrow = f"{module[len(prefix) :]} -> {name[len(prefix) :]}"
                if order.index(other) > order.index(room):
                    found.append(f"{folder}: {arrow}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("room", sorted({*ROOMS[PACKAGE]} - {"__init__", "__main__"}))
def test_no_public_name_hides_a_module(room: str) -> None:
    """Else `import ftrace.room.file as file` would look for the file in a function."""
    module = import_module(f"ftrace.{room}")
    assert vars(ftrace)[room] is module


def test_folders_hold_what_can_be_kept_in_mind() -> None:
    found = {str(folder): len(rooms) - 1 for folder, rooms in ROOMS.items()}
    for flat in (PACKAGE, PACKAGE / "numpy"):  # rooms of JAX, and families of NumPy
        del found[str(flat)]
    assert {f: n for f, n in found.items() if n > 25} == {}


#: Folders of tests of no one folder of the package: laws, tools, what tests share.
APART = {
    "benchmarks", "data", "differential", "distributed", "docs", "faults", "foreign",
    "fuzz", "goldens", "laws", "replay", "soak", "support", "surface", "typing",
}  # fmt: skip


def test_folders_of_tests_are_those_of_the_package() -> None:
    tests = Path(__file__).parents[1]
    folders = Counter(path.parent for path in tests.rglob("test_*.py"))
    assert {str(f): n for f, n in folders.items() if n > 25} == {}
    places = {path.parent.relative_to(tests) for path in tests.rglob("*.py")} - {Path()}
    others = {place for place in places if PACKAGE / place not in ROOMS}
    assert {place.parts[0] for place in others} <= APART, sorted(others)
