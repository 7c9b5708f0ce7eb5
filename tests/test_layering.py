"""The floors of the house: no import runs upward, and none runs in a circle.

    ground <- buffer <- array <- trace <- lower <- devices <- transforms <- top
                                       <- surface <---------/

`surface` is numpy, random, optim and the like: compositions of primitives.

Inside the packages rooms stand on floors too. A room is a folder, or files that belong
together and have no folder yet; it may import the rooms before it. Arrows that run up
all the same are knots, listed file by file; the list may only get shorter.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ftrace"

#: Floor -> the files and folders of ftrace/ that stand on it.
FLOORS = {
    "ground": (
        "capacity", "dtypes", "errors", "fence", "limits", "locks", "origin",
        "records", "settings", "tables", "version", "weak",
    ),
    "buffer": ("buffer",),
    "array": ("array",),
    "trace": ("trace",),
    "surface": ("numpy", "random", "optim", "tree", "tree_util", "flatten_util"),
    "lower": ("lower",),
    "devices": ("devices",),
    "transforms": ("transforms",),
    "top": (
        "lax", "nn", "scipy", "testing", "ops", "debug", "test_util", "storage",
        "experimental",
        "ad_checkpoint", "custom_batching", "custom_derivatives", "extend",
    ),
    "package": ("__init__", "__main__", "pytest_plugin"),
}  # fmt: skip

#: Floor -> the floors that it may import, besides itself.
BELOW = {
    "ground": "",
    "buffer": "ground",
    "array": "ground buffer",
    "trace": "ground buffer array",
    "surface": "ground buffer array trace",
    "lower": "ground buffer array trace",
    "devices": "ground buffer array trace lower",
    "transforms": "ground buffer array trace lower devices surface",
    "top": "ground buffer array trace lower devices surface transforms",
    "package": "ground buffer array trace lower devices surface transforms top",
}

#: Folder -> its rooms from the lowest to the highest: a name, and what is in it.
ROOMS: dict[str, dict[str, str]] = {
    "trace": {
        "trees": "keypath layout tree",
        "sizes": "dims polynomials sizes slices",
        "graphs": "avals graph nesting rewrite",
        "process": "collection quiet",
        "primitives": "primitives",
        "derivation": "autodiff batching exchange",
        "evaluation": "all_bits backend contract evaluate room tiering",
        "tracing": "scopes tracer tracing",
        "eager": "eager exact fused ownership recall tape "
                 "unfolding wholes",
        "binding": "body callback effects operations",
        "control": "control",
        "calls": "calls",
    },
    "trace/primitives": {
        "arrays": "barrier broadcast conversion elementwise extrema indexing meanings "
                  "movement record reduction source special sums",
        "host": "host",
    },
    "transforms": {
        "arguments": "arguments placement scoping travel",
        "jit": "backend dynamic execute jit known large numbers prepared "
               "stages static",
        "tangents": "tangents",
        "vmap": "vmap",
        "derivatives": "checkpoint derivatives jacobian",
        "bodies": "bodies levels",
        "custom": "callbacks custom custom_call custom_check custom_linear custom_vmap",
    },
    "lower": {
        "analysis": "alignment values",
        "kernels": "index kernel place positions rendering users",
        "math": "math",
        "legalize": "legalize",
        "schedule": "drafts merge_policy schedule",
        "simplify": "algebra compounds constants logic onehot reduces scatter "
                    "split_reductions",
        "movement": "chains push_through sliding_window_sums",
        "control": "control fission loops",
        "blocking": "find_regions tile_regions",
        "program": "memory program",
        "build": "build_kernel finite index_view",
        "register loops": "promote_loops recurrence scalar_elements",
        "library": "fft_kernels fourier_lengths lapack_kernels ordering scan_kernels",
        "reuse": "buffer_reuse",
        "assembly": "serialize",
        "lowering": "lowering pipeline spec",
    },
    "devices/llvm": {
        room: room
        for room in (
            "target", "ir", "runner", "runtime", "loops", "products", "sliding",
            "render", "compiling", "calling", "fourier", "lapack", "ordering",
            "recurrences", "rendering", "device",
        )
    },
}  # fmt: skip

#: Folder -> imports of a higher room, file by file.
KNOTS: dict[str, tuple[str, ...]] = {
    "transforms": ("jit -> derivatives",),
    "devices/llvm": (
        "ir.blocks -> loops.nest",
        "ir.blocks -> loops.ranges",
        "ir.blocks -> loops.staging",
        "ir.blocks -> loops.tiles",
        "ir.library -> compiling.compile",
        "ir.library -> fourier.tables",
        "ir.library -> lapack.blas",
        "ir.library -> runtime.compiled",
        "ir.library -> runtime.scratch",
        "ir.squares -> loops.nest",
        "ir.squares -> loops.ranges",
        "loops.tiling -> products.register_tiles",
        "loops.turned -> products.filling",
        "runtime.compiled -> compiling.compile",
        "runtime.scratch -> compiling.compile",
        "target -> compiling.machine",
    ),
}

#: What a function may import when it runs: the extras of pyproject.toml, and the
#: drivers of devices.
OPTIONAL = {
    "hypothesis", "opt_einsum", "platformdirs", "pyopencl", "pytest",
    "rich", "safetensors", "scipy",
}  # fmt: skip

#: What functions of a module load when they first need it, so that neither an import
#: of ftrace nor a program from disk waits for it: see tests/test_late_imports.py.
LOADED_LATER = {
    # Devices, and the lowering for them.
    "ftrace.devices": ("ftrace.devices", "ftrace.lower"),
    # What makes code of kernels, and what makes calls native.
    "ftrace.devices.llvm.device": ("ftrace.devices.llvm",),
    "ftrace.devices.llvm.compiling.made": ("ftrace.devices.llvm.ir.library",),
    # Every kind of function by itself.
    "ftrace.devices.llvm.ir.library": (
        "ftrace.devices.llvm",
        "ftrace.trace.primitives.host",
    ),
    "ftrace.devices.llvm.runtime.compiled": ("ftrace.devices.llvm.runtime.pool",),
    "ftrace.devices.llvm.calling.install": ("ftrace.devices.llvm.calling",),
    # Logging, queues and more come with it.
    "ftrace.devices.llvm.compiling.cache": ("tempfile",),
    "ftrace.devices.llvm.compiling.compile": ("concurrent.futures",),
}

#: Packages whose docstring is a map: it says what each of their files is for.
MAPS = (
    "devices/llvm",
    "devices/llvm/calling",
    "devices/llvm/compiling",
    "devices/llvm/fourier",
    "devices/llvm/ir",
    "devices/llvm/lapack",
    "devices/llvm/loops",
    "devices/llvm/ordering",
    "devices/llvm/products",
    "devices/llvm/recurrences",
    "devices/llvm/runner",
    "devices/llvm/runtime",
    "devices/llvm/sliding",
    "lower",
    "lower/math",
)

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


@pytest.mark.parametrize("package", MAPS)
def test_the_docstring_of_a_package_names_its_files(package: str) -> None:
    text = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text()))
    named = set(re.findall(r"\w+", text or ""))
    files = {path.stem for path in (PACKAGE / package).glob("*.py")} - {"__init__"}
    assert files <= named, (
        f"ftrace/{package}/__init__.py: say in the docstring what these are for: "
        f"{sorted(files - named)}"
    )


def room_of(folder: str, module: str) -> str | None:
    """The room of a folder in which a module is, if it is in one."""
    inside = module.removeprefix(f"ftrace.{folder.replace('/', '.')}.")
    name = inside.partition(".")[0]
    for room, names in ROOMS[folder].items():
        if inside != module and name in names.split():
            return room
    return None


def upward(folder: str) -> set[str]:
    """`file -> file` for the imports that run from a room to one above it."""
    order = list(ROOMS[folder])
    found: set[str] = set()
    for module, path in MODULES.items():
        if (room := room_of(folder, module)) is None:
            continue
        for name, _ in own_imports(path):
            other = room_of(folder, name)
            if other is not None and order.index(other) > order.index(room):
                skip = len(f"ftrace.{folder}.")
                found.add(f"{module[skip:]} -> {name[skip:]}")
    return found


@pytest.mark.parametrize("folder", ROOMS)
def test_rooms_hold_all_that_is_in_the_folder(folder: str) -> None:
    rooms = ROOMS[folder].values()
    names = [name for text in rooms for name in text.split()]
    there = {
        path.stem
        for path in (PACKAGE / folder).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert sorted(names) == sorted(there - {"__init__"})


@pytest.mark.parametrize("folder", ROOMS)
def test_no_import_runs_up_but_for_the_knots_that_are_known(folder: str) -> None:
    found, known = upward(folder), set(KNOTS.get(folder, ()))
    assert not found - known, (
        f"a room must not import one above it; the order is {list(ROOMS[folder])}"
    )
    assert not known - found, "these are untied: take them out of KNOTS"


def test_folders_with_rooms_have_an_order() -> None:
    """But for those of the surface, and of the devices."""
    roots = ("trace", "transforms", "lower", "devices/llvm")
    folders = {
        path.parent.parent.relative_to(PACKAGE).as_posix()
        for root in roots
        for path in (PACKAGE / root).rglob("*/__init__.py")
    }
    assert folders <= {*ROOMS}
