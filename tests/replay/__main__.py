"""Which kernels are others than those of an earlier version?

    python -m tests.replay                    beside the last release
    python -m tests.replay --ref v0.1.0       beside any commit
    python -m tests.replay --record FOLDER    writes the programs, with this version
    python -m tests.replay FOLDER …           replays folders and files

Programs are those of `programs.py`. The exit status is 1 where results are others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from shutil import copytree

import ftrace as ft
from ftrace.errors import FtraceError
from tests.replay import programs

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def record(folder: Path) -> None:
    """Writes a file for each program."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (f, args) in programs.PROGRAMS.items():
        ft.record(folder / f"{name}.npz", f, *args)


def replay(paths: Sequence[Path]) -> int:
    """Prints what has become of recorded programs; 1 where results are others."""
    files = [x for path in paths for x in
             (sorted(path.glob("*.npz")) if path.is_dir() else [path])]  # fmt: skip
    changed, wrong, unread = 0, 0, 0
    for file in files:
        try:
            found = ft.replay(file)
        except FtraceError as error:
            unread += 1
            print(f"{file.stem}: {error}")
            continue
        changed += bool(found.changes)
        wrong += not found.agrees
        if found.changes or not found.agrees:
            print(f"{file.stem}: {found}")
    print(
        f"{len(files)} programs: {changed} with other kernels, {wrong} with other "
        f"results, {unread} not read"
    )
    return int(wrong > 0 or not files)


def _git(*args: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *args], cwd=ROOT, check=False, capture_output=True)


def last_release() -> str:
    """The latest tag; until there is one, the first commit that can record programs.

    Nothing where the history is not there.
    """
    tag = _git("describe", "--tags", "--abbrev=0").stdout.decode().strip()
    made = "log", "--diff-filter=A", "--format=%h", "--", "ftrace/testing/replay.py"
    return tag or next(reversed(_git(*made).stdout.decode().split()), "")


def record_of(ref: str, folder: Path) -> str:
    """Writes the programs with the ftrace of a commit; says why not, or nothing."""
    packed = _git("archive", ref, "ftrace")
    if packed.returncode:
        return f"no commit {ref!r} here: {packed.stderr.decode().strip()}"
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(place, filter="data")
        if not Path(place, "ftrace", "testing", "replay.py").exists():
            return f"ftrace of {ref} has no ft.record: it came later"
        copytree(HERE, Path(place, "tests", "replay"))
        ran = subprocess.run(
            [sys.executable, "-m", "tests.replay", "--record", os.fspath(folder)],
            cwd=place, check=False, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": place},
        )  # fmt: skip
    return ran.stderr[-2000:] if ran.returncode else ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay")
    parser.add_argument("paths", nargs="*", type=Path, help="folders and files")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    parser.add_argument("--ref", help="a commit; by default the last release")
    given = parser.parse_args(argv)
    if given.record:
        record(given.record)
        return 0
    if given.paths:
        return replay(given.paths)
    ref = given.ref or last_release()
    if not ref:
        print("there is no history here; give folders of recorded programs")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if said := record_of(ref, Path(folder)):
            print(said)
            return int(bool(given.ref))
        print(f"beside {ref}:")
        return replay([Path(folder)])


if __name__ == "__main__":
    sys.exit(main())
