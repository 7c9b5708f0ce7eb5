"""What all tests share: hypothesis profiles, and ways to run beside the devices."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

import ftrace.ground.settings
from pytest_ftrace import DEVICES, require_device

pytest_plugins = ["pytester"]

# Compilation takes long at the first example and no time after it: no deadlines.
settings.register_profile(
    "local",
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("share", settings.get_profile("local"), max_examples=8)
settings.register_profile(
    "ci", settings.get_profile("local"), derandomize=True, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Here it is ftrace that fails: its own lines are shown.
ftrace.ground.settings.config.update("traceback", "full")

# The laws of OpenCL are asked of our code, not of how well its compiler compiles it.
os.environ.setdefault("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")

# The laws about threads hold for any number of them, on any machine.
ftrace.ground.settings.MACHINE_THREADS = ftrace.ground.settings.MAX_THREADS


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What 30,000 tests are made of stays: no search for cycles walks it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


#: Rows of a law's table that a run of the whole suite takes at least, and their share.
FEWEST_ROWS, SHARE_OF_ROWS = 2, 0.05


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-rows",
        action="store_true",
        help="every row of every table, as in CI and where files or -k are named; else "
        "the whole suite holds each law to a part of its table",
    )


def pytest_configure(config: pytest.Config) -> None:
    """What is asked for by name runs whole. Processes of pytest-xdist are told so."""
    config.addinivalue_line("markers", "thorough: left out where laws have some rows")
    option = config.option
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    worker = hasattr(config, "workerinput")
    if not worker and (named or option.keyword or option.markexpr):
        option.all_rows = True
    if not option.all_rows and not os.environ.get("CI"):
        settings.load_profile("share")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Takes some rows of long tables, always the same ones, spread over the table."""
    if config.option.all_rows:
        return
    laws: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        laws[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for rows in laws.values():
        rows.sort(key=lambda item: crc32(item.nodeid.encode()))
        left_out.update(rows[max(FEWEST_ROWS, int(len(rows) * SHARE_OF_ROWS)) :])
    left_out.update(item for item in items if item.get_closest_marker("thorough"))
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=sorted(left_out, key=lambda i: i.nodeid))


@pytest.fixture(scope="module", autouse=True)
def only_own_objects_are_searched() -> None:
    """What the files before have left stays: searches walk what this one makes."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A disk cache of the module's own."""
    from ftrace.ground.settings import config

    with config(cache_dir=str(tmp_path_factory.mktemp("cache"))):
        yield


@pytest.fixture
def quick_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `explain` knows of a machine takes no time, and is nobody else's."""
    from ftrace.ground.settings import config
    from ftrace.transforms.viz import explain

    monkeypatch.setattr(explain, "_LONG", 1 << 12)
    monkeypatch.setattr(explain, "_known", {})
    with config(cache_dir=str(tmp_path)):
        yield


@pytest.fixture
def own_primitives() -> Iterator[None]:
    """Primitives that a test makes are gone after it: others ask something of all."""
    from ftrace.lower.legalize.legalize import DECOMPOSITIONS
    from ftrace.trace.primitives.primitive import COMPOUNDS, PRIMITIVES

    registries: list[dict[str, Any]] = [PRIMITIVES, COMPOUNDS, DECOMPOSITIONS]
    before = [set(registry) for registry in registries]
    yield
    for registry, known in zip(registries, before, strict=True):
        for name in set(registry) - known:
            del registry[name]


@pytest.fixture(params=[*DEVICES, "disable_jit"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each device in turn, and evaluation node by node."""
    import ftrace as ft

    with ExitStack() as stack:
        if request.param == "disable_jit":
            stack.enter_context(ft.disable_jit())
        else:
            found = require_device(request.param)
            stack.enter_context(ft.config(device=found.name))
        yield request.param


@pytest.fixture(params=["native", "plain"])
def calling(request: pytest.FixtureRequest) -> Iterator[str]:
    """Calls that are native, where this interpreter has them, and those of Python."""
    from ftrace.ground.settings import config

    with config(native_calls=request.param == "native", device="cpu"):
        yield request.param
