"""The disk cache takes code only from files that nobody else can have written."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ftrace as ft
from ftrace.backends.llvm.object_cache import ObjectCache
from ftrace.errors import CacheWarning

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs owners of files")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
STRANGER = 4321


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with ft.config(cache_dir=str(tmp_path / "a" / "cache")):
        yield tmp_path / "a" / "cache"


def filled() -> ObjectCache:
    cache = ObjectCache()
    cache.store(b"code", "key")
    assert cache.load("key") == b"code"
    return cache


def the_file(folder: Path) -> Path:
    (file,) = folder.glob("*.ftrace.o")
    return file


def a_link(file: Path) -> None:
    target = file.with_name("elsewhere")
    file.rename(target)
    file.symlink_to(target)


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


FILES: dict[str, Callable[[Path], None]] = {
    "a link": a_link,
    "a link to nothing": lambda file: (a_link(file), file.resolve().unlink())[0],
    "a pipe": a_pipe,
    "a folder": a_folder,
    "written by the group": lambda file: file.chmod(0o660),
    "written by all": lambda file: file.chmod(0o602),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_others_can_have_written_is_a_miss_told_of_once(
    folder: Path, kind: str
) -> None:
    filled()
    FILES[kind](the_file(folder))
    cache = ObjectCache()
    with pytest.warns(CacheWarning) as caught:
        found = [cache.load("key") for _ in range(2)]
    assert found == [None, None]
    (warning,) = caught
    mend(str(warning.message))
    cache.store(b"code", "key")  # it is as new
    assert filled().load("key") == b"code"


def mend(message: str) -> None:
    """Runs the command that a warning names."""
    found = re.search(r": ((?:rm|chmod) .*?)    \(", message)
    assert found is not None, message
    subprocess.run(found[1], shell=True, check=True)


@pytest.mark.parametrize("mode", [0o770, 0o703, 0o1777])
def test_a_folder_that_others_can_write_is_a_miss_told_of_once(
    folder: Path, mode: int
) -> None:
    filled()
    folder.chmod(mode)
    cache = ObjectCache()
    with pytest.warns(CacheWarning) as caught:
        found = [cache.load("key"), cache.store(b"other", "key"), cache.load("key")]
    assert found == [None] * 3
    (warning,) = caught
    message = str(warning.message)
    if mode & stat.S_ISVTX:  # a folder for all stays one
        assert f"export FTRACE_CACHE_DIR={folder}/ftrace-{os.geteuid()}" in message
        with ft.config(cache_dir=f"{folder}/ftrace-{os.geteuid()}"):
            filled()
    else:
        mend(message)
        assert cache.load("key") == b"code"  # and nothing was written meanwhile


def test_nobody_is_told_to_change_a_folder_of_other_things(folder: Path) -> None:
    filled()
    (folder / "thesis.tex").write_text("of a colleague")
    folder.chmod(0o775)
    with pytest.warns(CacheWarning, match="FTRACE_CACHE_DIR=~/.cache/ftrace") as caught:
        assert ObjectCache().load("key") is None
    assert "chmod" not in str(caught[0].message)


def test_no_folder_is_told_of_as_that(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with ft.config(cache_dir=tmp_path / "file"):
        with pytest.warns(CacheWarning, match=r"Not a directory: .*file'") as caught:
            ObjectCache().store(b"code", "key")
        assert ObjectCache().load("key") is None
    assert "chmod" not in str(caught[0].message)


def test_the_null_device_is_no_disk_cache() -> None:
    with ft.config(cache_dir=os.devnull):
        cache = ObjectCache()
        cache.store(b"code", "key")  # and no warning
        assert cache.load("key") is None


@needs_root
def test_code_of_another_user_is_not_run(folder: Path) -> None:
    filled()
    os.chown(the_file(folder), STRANGER, STRANGER)
    with pytest.warns(CacheWarning, match=f"belongs to user {STRANGER}: rm"):
        assert ObjectCache().load("key") is None
    filled()
    os.chown(folder, STRANGER, STRANGER)
    with pytest.warns(CacheWarning, match=f"user {STRANGER}: export FTRACE_CACHE_DIR="):
        assert ObjectCache().load("key") is None


@needs_root
def test_another_user_takes_what_root_has_filled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = filled()
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert cache.load("key") == b"code"


def test_folders_are_made_for_the_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        filled()
    finally:
        os.umask(before)
    for made in (folder, folder.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert stat.S_IMODE(the_file(folder).stat().st_mode) == 0o600


def test_a_folder_may_be_reached_by_a_link(folder: Path) -> None:
    filled()
    link = folder.with_name("link")
    link.symlink_to(folder)
    with ft.config(cache_dir=str(link)):
        assert ObjectCache().load("key") == b"code"
