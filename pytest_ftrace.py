"""The plugin for pytest: devices in turn, and golden texts. See docs/testing.md.

    device                    a fixture: each device in turn, as the test's default one
    --ftrace-device NAME      that one alone, and the default of all other tests
    --ftrace-update-goldens   golden texts are written anew

A failure shows the user's lines, without the frames of ftrace between them.

It is a module of its own, beside the package: pytest loads it for whoever has ftrace
installed, and only those who use it shall wait for ftrace.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ftrace.backends.base import Device

#: The kinds of devices; a test holds them to those of the package.
DEVICES = ("cpu", "interpreter", "opencl")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ftrace")
    group.addoption(
        "--ftrace-device",
        metavar="NAME",
        help="the default device of all tests, and the only one of the fixture device",
    )
    group.addoption(
        "--ftrace-update-goldens",
        action="store_true",
        help="writes anew what assert_kernels and assert_golden compare with",
    )


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("ftrace_device")
    if name is not None:
        from ftrace import config as settings
        from ftrace.errors import FtraceError
        from ftrace.testing import missing_reason

        try:
            reason = missing_reason(name)
        except FtraceError as error:
            reason = error.message
        if reason is not None:
            raise pytest.UsageError(f"--ftrace-device: {reason}")
        before = settings.device
        settings.update("device", name)
        config.add_cleanup(lambda: settings.update("device", before))
    if config.getoption("ftrace_update_goldens"):
        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError(
                "--ftrace-update-goldens: one process writes them; leave out -n"
            )
        patch = pytest.MonkeyPatch()
        patch.setenv("FTRACE_UPDATE_GOLDENS", "1")
        config.add_cleanup(patch.undo)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leaves out what asks for another device than the one that is named."""
    wanted = config.getoption("ftrace_device")
    if wanted is None:
        return
    others = [item for item in items if _device_of(item) not in (None, wanted)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def _device_of(item: pytest.Item) -> str | None:
    """The device that a test is given by its name, if it is."""
    callspec: Any = getattr(item, "callspec", None)
    value = callspec.params.get("device") if callspec is not None else None
    return value if value in DEVICES else None


def require_device(name: str) -> Device:
    """The device of that name; where it is missing the test is skipped, and says why.

    Raises:
      DeviceError: nobody has heard of it.
    """
    from ftrace.backends.base import get_device
    from ftrace.testing import missing_reason

    if reason := missing_reason(name):
        pytest.skip(reason)
    return get_device(name)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Each device in turn, as the default one of the test."""
    from ftrace import config

    found = require_device(request.param)
    with config(device=found.name):
        yield found


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, Any, Any]:
    """A failure shows no frames of ftrace, unless the setting `traceback` is full."""
    tracebacks = sys.modules.get("ftrace.ground.tracebacks")
    if tracebacks is None or call.excinfo is None or tracebacks.shows_all():
        return (yield)
    excinfo = call.excinfo
    with tracebacks.fold_frames(excinfo.value):
        if (shown := excinfo.value.__traceback__) is not None:
            excinfo.traceback = type(excinfo.traceback)(shown)
        return (yield)
