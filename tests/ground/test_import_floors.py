"""The floors of the house: no import runs upward, and none runs in a circle.

    ground <- trace <- lower <- backends <- transforms <- top
                   <- surface <----------/         <- compat

`surface` is numpy and trees: what transforms stand on. `top` is the other names of JAX,
which stand on transforms. What lies in one folder, files and folders alike, stands on
floors of its own: the docstring of the package is a map that names them from the ground
up.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import ftrace
from ftrace.backends.llvm.object_cache import SOURCES

PACKAGE = Path(__file__).parents[2] / "ftrace"

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
    "package": "ground trace lower backends surface transforms top",
    "compat": "ground trace lower backends surface transforms top package",
}

#: The floors each of whose packages has a map of what is in it as its docstring.
MAPPED = ("ground", "trace", "lower", "backends", "transforms")

#: Folder -> imports that close a circle between its files and folders all the same.
#: The list may only get shorter.
KNOTS: dict[str, tuple[str, ...]] = {}

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
    # Devices, and the lowering for them.
    "ftrace.backends": ("ftrace.backends", "ftrace.lower"),
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
    # Meshes, which most programs have not.
    "ftrace.transforms.device_placement": ("ftrace.transforms.shardings",),
    # Logging, queues and more come with it.
    "ftrace.backends.llvm.object_cache": ("tempfile",),
    "ftrace.backends.llvm.compile": ("concurrent.futures",),
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
    part = module.split(".")[1] if "." in module else "__init__"
    for floor, parts in FLOORS.items():
        if part in parts:
            return floor
    pytest.fail(f"{module} stands on no floor; add {part!r} to FLOORS in {__file__}")


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
def own_imports(path: Path) -> list[tuple[str, int]]:
    """(module of ftrace, line) for every import of `path` from the package."""
    found = [
        (name, statement.lineno)
        for statement, _ in imports(path)
        for name in names(path, statement)
        if name.split(".")[0] == "ftrace"
    ]
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
        if floor in folder.relative_to(PACKAGE).parts[:1] and folder.name != "backends":
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
                known = KNOTS.get(folder.relative_to(PACKAGE).as_posix(), ())
                if order.index(other) > order.index(room) and arrow not in known:
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
