"""The rooms inside the packages: they stand on floors too, and no arrow runs back up.

A room is a folder, or files that belong together and have no folder yet. It may import
the rooms before it. Arrows that run up all the same are knots, listed file by file; the
list may only get shorter.
"""

from __future__ import annotations

import pytest

from tests.test_layering import MODULES, PACKAGE, own_imports

#: Folder -> its rooms from the lowest to the highest: a name, and what is in it.
ROOMS: dict[str, dict[str, str]] = {
    "trace": {
        "trees": "keypath layout tree",
        "sizes": "dims polynomials sizes slices",
        "graphs": "avals graph nesting rewrite",
        "process": "collection quiet",
        "primitives": "primitives",
        "derivation": "autodiff batching exchange",
        "evaluation": "all_bits contract evaluate hooks room",
        "tracing": "scopes tracer tracing",
        "eager": "eager exact fused lacking ownership product recall replay tape "
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
        "jit": "dynamic execute jit known lacking large memo numbers prepared stages "
               "static",
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
        "schedule": "across drafts hosts inlining plan precedence schedule",
        "simplify": "algebra boards compounds constants logic onehot reduces scatters "
                    "simplify",
        "movement": "chains choices exchanges movement pushes windows",
        "control": "control each_lane fission loops",
        "blocking": "beside cuts parted region regions slices",
        "program": "memory program sizes",
        "build": "build finite ranges step view",
        "register loops": "elements expressions recurrence registers scalarize scalars",
        "library": "decompositions extrema factors fourier fourier_kernel "
                   "fourier_lengths ordering running",
        "reuse": "inplace order",
        "assembly": "assemble identity isomorphic stored",
        "lowering": "lowering spec",
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
    "trace": ("evaluate -> lacking",),
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
        "ir.numbers -> compiling.made",
        "ir.squares -> loops.nest",
        "ir.squares -> loops.ranges",
        "loops.tiling -> products.register_tiles",
        "loops.turned -> products.filling",
        "render -> recurrences.recurrence",
        "runner.signals -> runtime.cores",
        "runner.whole -> runtime.pool",
        "runtime.compiled -> compiling.compile",
        "runtime.scratch -> compiling.compile",
        "target -> compiling.machine",
    ),
}


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
