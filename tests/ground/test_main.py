"""`python -m ftrace`, and what is shown while something takes long."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import __main__ as program
from ftrace.backends.llvm.compile import object_cache
from ftrace.ground import progress as shown
from ftrace.ground.progress import progress
from ftrace.lower.lowering import lower


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = program.main(words)
    return code, capsys.readouterr().out


def test_it_tells_of_devices_and_caches(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys)
    assert code == 0
    for part in ("ftrace 0", "native calls: ", "disk cache: ", "memory for", "cpu: ok"):
        assert part in text
    assert "interpreter: ok" in text


def test_a_check_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text = said(capsys, "check", "interpreter")
    assert (code, "interpreter: ok" in text, "cpu" in text) == (0, True, False)
    code, text = said(capsys, "check", "nosuch")
    assert code == 1
    assert "nosuch: WRONG: Unknown backend" in text

    no_driver = {"OCL_ICD_VENDORS": "/nonexistent", "OCL_ICD_FILENAMES": ""}
    done = subprocess.run(
        [sys.executable, "-m", "ftrace", "check", "opencl"],
        env={**os.environ, **no_driver}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "opencl: not there: " in done.stdout

    def fails(x: Any) -> Any:
        raise ValueError("no such kernel\nand more")

    wrong = {"sum": (program.PROGRAMS["sum"][0], program.X, 0.0), "bad": (fails, 1, 1)}

    def mute(x: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(program, "PROGRAMS", {"mute": (mute, 1, 1)})
    assert list(program.problems("cpu")) == ["mute: MemoryError: "]
    monkeypatch.setattr(program, "PROGRAMS", wrong)
    code, text = said(capsys, "check", "cpu")
    assert code == 1
    assert "cpu: WRONG" in text
    assert "sum: it is " in text
    assert "bad: ValueError: no such kernel\n" in text


def test_the_disk_cache_is_told_and_cleared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with ft.config(cache_dir=str(tmp_path / "cache")):
        assert "(not made yet): 0 files, 0 B" in said(capsys, "cache")[1]
        for name in ("one", "two"):
            object_cache.store(b"x" * 952, name)
        other = tmp_path / "cache" / "other"
        other.write_text("of others")
        assert f"{tmp_path / 'cache'}: 2 files, 2 kB of" in said(capsys, "cache")[1]
        assert "removed 2 files" in said(capsys, "cache", "clear")[1]
        assert "0 files" in said(capsys, "cache", "info")[1]
        assert other.exists()
    with ft.config(cache_size=0):
        assert "disk cache: off" in said(capsys, "cache")[1]


def test_wrong_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["nosuch"], ["cache", "nosuch"], ["completion", "tcsh"]):
        with pytest.raises(SystemExit) as caught:
            program.main(words)
        assert caught.value.code == 2
        assert "choose from" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        program.main(["--help"])
    help_text = capsys.readouterr().out
    assert all(name in help_text for name in program.COMMANDS)


@pytest.mark.parametrize("shell", program.SHELLS)
def test_a_script_completes_the_words_of_each_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, script = said(capsys, "completion", shell)
    for name, more in program.COMMANDS.items():
        assert name in script
        assert " ".join(more) in script
    if shutil.which(shell) is None or shell != "bash":
        return
    for words, wanted in (("c", "check cache completion"), ("cache c", "clear")):
        ask = (
            f"{script}\nCOMP_WORDS=(python -m ftrace {words})\n"
            f"COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_ftrace\n"
            'echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", ask], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == wanted.split()


# Progress.


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _watched(
    monkeypatch: pytest.MonkeyPatch, stream: Any, seconds: float, rich: bool = False
) -> str:
    """What is shown of ten steps which take so long each."""
    clock = [0.0]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(shown.time, "monotonic", lambda: clock[0])
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress("compiling kernels") as step:
        for done in range(1, 11):
            clock[0] += seconds
            step(done, 10)
    return stream.getvalue()


def test_progress_is_shown_on_a_terminal_after_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = _watched(monkeypatch, _Terminal(), 0.3)
    assert "compiling kernels: 4 of 10" in text
    assert "compiling kernels: 3 of 10" not in text
    assert text.endswith("\r\033[K")
    assert _watched(monkeypatch, _Terminal(), 0.05) == ""
    assert _watched(monkeypatch, io.StringIO(), 0.3) == ""
    with ft.config(progress=False):
        assert _watched(monkeypatch, _Terminal(), 0.3) == ""


def test_progress_is_a_bar_where_rich_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    assert "10/10" in _watched(monkeypatch, _Terminal(), 0.3, rich=True)


def test_progress_of_lowering_counts_its_stages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shown, "AFTER", 0.0)
    monkeypatch.setattr(shown, "BETWEEN", 0.0)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(sys, "stderr", stream := _Terminal())
    lower(ft.make_graph(lambda x: fnp.sin(x) + 1)(fnp.ones(3)))
    stages = re.findall(r"lowering: (\d+) of (\d+)", stream.getvalue())
    assert [int(done) for done, _ in stages] == [*range(1, int(stages[0][1]) + 1)]


def test_progress_ends_with_what_ends_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(step: Callable[[int, int], object]) -> None:
        step(1, 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stderr", _Terminal())
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), progress("loading") as step:
            interrupted(step)
    with progress("one"), progress("within") as step:  # the outer one is shown
        step(1, 2)
    assert _watched(monkeypatch, _Terminal(), 0.3)
