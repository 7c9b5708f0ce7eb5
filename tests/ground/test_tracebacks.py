"""What is shown of an exception are the user's frames; it keeps all of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.ground import tracebacks
from ftrace.trace.primitives.library.sorting import sort_values

PROGRAM = """
import threading, sys
import ftrace as ft, ftrace.numpy as fnp

def layer(w, x):
    return fnp.tanh(x @ w)

def loss(w, x):
    return layer(w, x).sum()

def raises(x):
    raise KeyError("mine")

def again():
    try:
        ft.jit(raises)(1.0)
    except KeyError as error:
        raise RuntimeError("after it") from error

def within():  # what is wrong with ftrace itself
    from ftrace.transforms.jit import jit
    jit.weight_of = None
    ft.jit(lambda x: x)(fnp.ones(3))

def step():
    return ft.jit(ft.grad(loss))(fnp.ones((3, 4)), fnp.ones((5, 7)))

def in_a_thread():
    thread = threading.Thread(target=step)
    thread.start()
    thread.join()

globals()[sys.argv[1]]()
"""


FOLDER = Path(ft.__file__).parent
OURS = f'File "{FOLDER}'


def shown(tmp_path: Path, name: str, **environment: str) -> str:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), name],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(FOLDER.parent),
            "FTRACE_TRACEBACK": "user",
            **environment,
        },
    )
    return done.stderr


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        ("step", ["in step", "in loss", "in layer"]),
        ("in_a_thread", ["in step", "in loss", "in layer"]),
        ("again", ["in again", "in raises", "direct cause", "in again"]),
    ],
)
def test_the_users_frames_alone_are_shown(
    tmp_path: Path, name: str, frames: list[str]
) -> None:
    text = shown(tmp_path, name)
    assert OURS not in text
    assert "frames of ftrace are left out" in text
    for frame in frames:
        assert frame in text
    whole = shown(tmp_path, name, FTRACE_TRACEBACK="full")
    assert OURS in whole
    assert "left out" not in whole


def test_what_goes_wrong_within_is_shown_whole(tmp_path: Path) -> None:
    text = shown(tmp_path, "within")
    assert OURS in text
    assert "'NoneType' object is not callable" in text


def failing() -> Any:
    return ft.jit(lambda x: x @ fnp.ones(4))(fnp.ones(3))


def one(a: Any) -> Any:
    return a


def two(a: Any, b: Any) -> Any:
    return a


X = fnp.ones(3)
REFUSED: dict[str, Callable[[], Any]] = {
    "jit": lambda: ft.jit(two)(X),
    "jit by name": lambda: ft.jit(one)(X, c=X),
    "grad": lambda: ft.grad(two)(1.0),
    "vmap": lambda: ft.vmap(two)(X),
    "jvp": lambda: ft.jvp(two, (X,), (X,)),
    "checkpoint": lambda: ft.checkpoint(two)(X),
    "fori_loop": lambda: ft.lax.fori_loop(0, 3, one, X),
    "scan": lambda: ft.lax.scan(one, 1.0, X),
    "while_loop": lambda: ft.lax.while_loop(one, two, X),
    "cond": lambda: ft.lax.cond(True, one, two, X),
    "tree.map": lambda: ft.tree.map(one, [1], [2]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_function_that_takes_no_such_arguments_is_the_users(name: str) -> None:
    with pytest.raises(TypeError, match=r"^(one|two)\(\) ") as caught:
        REFUSED[name]()
    with tracebacks.fold_frames(caught.value) as count:
        now = traceback.extract_tb(caught.value.__traceback__)
    assert count > 1
    assert now[-1].filename == __file__


def test_our_own_functions_called_wrongly_are_shown_whole() -> None:
    def gives(shows_all: Any) -> Any:
        return shows_all(1)

    with pytest.raises(TypeError, match=r"^shows_all\(\) takes") as caught:
        gives(tracebacks.shows_all)
    last: Any = caught.traceback[-1].frame.raw
    assert not tracebacks._refuses(str(caught.value), last)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ft.jit(two)(X, "relu"),
        lambda: X[5],  # NumPy has raised before
        lambda: ft.record("/nowhere/x.npz", one, X),
        lambda: fnp.sum(X, axes=1),
        lambda: X.sum(axes=1),
        lambda: ft.jit(lambda x: fnp.sum(x, axes=1))(X),
        lambda: ft.nn.sofmax,
    ],
)
def test_what_is_wrong_has_one_traceback_of_the_users(wrong: Any) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        wrong()
    error = caught.value
    was = error.__suppress_context__
    with tracebacks.fold_frames(error) as count:
        text = "".join(traceback.format_exception(error))
    assert count
    assert text.count("Traceback") == 1
    assert text.count("Error:") == 1
    assert OURS not in text
    assert ".tmp" not in text
    assert error.__suppress_context__ is was


def test_an_attribute_that_we_look_for_wrongly_is_shown_whole() -> None:
    beside: Any = np.ones(2)
    for call in (
        lambda: tracebacks._related_to(cast("Any", X)),
        lambda: sort_values(beside, cast("Any", 1)),
    ):
        with pytest.raises(AttributeError) as caught:
            call()
        with tracebacks.fold_frames(caught.value) as count:
            assert not count


def test_the_exception_keeps_its_frames() -> None:
    with pytest.raises(ShapeError) as caught:
        failing()
    error = caught.value
    before = traceback.extract_tb(error.__traceback__)
    with tracebacks.fold_frames(error) as count:
        now = traceback.extract_tb(error.__traceback__)
        assert all(OURS[6:] not in frame.filename for frame in now)
        assert len(now) + count == len(before)
        assert now[-1].name == "<lambda>"
    assert traceback.extract_tb(error.__traceback__) == before


def test_causes_that_are_a_cycle_end() -> None:
    with pytest.raises(ShapeError) as caught:
        failing()
    one, other = caught.value, ValueError()
    one.__context__, other.__context__ = other, one
    with tracebacks.fold_frames(one) as count:
        assert count > 0


def test_a_notebook_shows_no_frames_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def set_custom_exc(kinds: Any, handler: Any) -> None:
        shell.custom_exceptions, shell.handler = kinds, handler

    def showtraceback(what: Any, tb_offset: Any = None) -> None:
        told.extend(traceback.extract_tb(what[2]))

    shell: Any = SimpleNamespace(
        custom_exceptions=(), set_custom_exc=set_custom_exc, showtraceback=showtraceback
    )
    notebook = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    tracebacks.show_users_frames()
    try:
        failing()
    except ShapeError as error:
        with ft.config(traceback="user"):
            shell.handler(shell, type(error), error, error.__traceback__)
    assert [frame.name for frame in told][-2:] == ["failing", "<lambda>"]
    handler = shell.handler
    tracebacks.show_users_frames()  # what a user has set stays
    assert shell.handler is handler


def test_the_setting_has_jax_names() -> None:
    with ft.config(jax_traceback_filtering="off"):
        assert ft.config.traceback == "full"
    with ft.config(jax_traceback_filtering="remove_frames"):
        assert ft.config.traceback == "user"
    for wrong in ({"traceback": "short"}, {"jax_traceback_filtering": "some"}):
        with pytest.raises(ValueRangeError, match="must be one of user, full"):
            ft.config(**wrong).__enter__()
