"""Pages of the documentation as programs: their blocks, and what they print.

A fenced block marked `python` is executed, all blocks of a page in order and in one
namespace; options may follow the word:

    raises=ShapeError   the block raises exactly this class; its message is printed
    file=loss.py        the name of the file that origins and messages show
    processes=2         so many run it together, in tests/distributed, and each prints
                        that; other blocks of the page are not there then

A block marked `text` right after it holds what it prints; `...` there stands for
anything. A block marked `llvm` or `console` in that place is shown, not compared: it
depends on the machine. Each page runs in a process of its own, in an empty folder,
where it may leave the pictures that it shows:

    python -m tests.docs.pages PAGE [PROCESSES]     prints the outputs as JSON
"""

from __future__ import annotations

import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
GALLERY = sorted(ROOT.glob("docs/gallery/*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/*.md")),
    *GALLERY,
]
SECONDS = 300


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
      language: the word after the fence.
      options: the words after that, `name=value`.
      text: its lines.
      first, last: numbers of the first and one past the last line inside the fence.
    """

    language: str
    options: dict[str, str]
    text: str
    first: int
    last: int


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = page.split("\n")
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = (number, line[3:])
            continue
        start, heading = opened
        language, *words = heading.split() or [""]
        options = dict(word.split("=", 1) for word in words)
        text = "\n".join(lines[start + 1 : number])
        found.append(Block(language, options, text, start + 1, number))
        opened = None
    if opened is not None:
        raise ValueError(f"a block that begins at line {opened[0] + 1} does not end")
    return found


def outputs_of(page: str, processes: str = "1") -> list[tuple[Block, Block | None]]:
    """Each Python block with the block of its output, where one follows directly.

    Args:
      page: its text.
      processes: how many run the blocks that are wanted.
    """
    blocks = blocks_of(page)
    lines = page.split("\n")
    pairs: list[tuple[Block, Block | None]] = []
    for i, block in enumerate(blocks):
        if block.language != "python":
            continue
        if block.options.get("processes", "1") != processes:
            continue
        after = blocks[i + 1] if i + 1 < len(blocks) else None
        if after is not None:
            between = "".join(lines[block.last + 1 : after.first - 1])
            if after.language not in ("text", "llvm", "console") or between.strip():
                after = None
        pairs.append((block, after))
    return pairs


def run_block(block: Block, namespace: dict[str, Any]) -> str:
    """What a block prints; raises where it does not raise what it should."""
    name = block.options.get("file", "example.py")
    wanted = block.options.get("raises")
    source = block.text + "\n"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            exec(compile(source, name, "exec"), namespace)
        except Exception as error:
            if type(error).__name__ != wanted:
                raise
            printed.write(f"{wanted}: {error}\n")
        else:
            if wanted is not None:
                raise AssertionError(f"nothing raised {wanted}:\n{block.text}")
    return "\n".join(s.rstrip() for s in printed.getvalue().rstrip().split("\n"))


@dataclass(frozen=True)
class Run:
    """What came of running a page.

    Attributes:
      printed: what each Python block printed.
      pictures: the PNG files that it wrote, by their names.
    """

    printed: list[str]
    pictures: dict[str, bytes]


def run_page(path: Path) -> Run:
    """Runs the Python blocks of a page in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FTRACE_")}
    environment["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        environment["FTRACE_CACHE_DIR"] = os.path.join(folder, "cache")
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tests.docs.pages", str(path)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        pictures = {file.name: file.read_bytes() for file in Path(folder).glob("*.png")}
    if done.returncode:
        raise AssertionError(f"{path.name} failed:\n{done.stderr}")
    return Run(json.loads(done.stdout), pictures)


def agrees(shown: str, printed: str) -> bool:
    """Is the output what the page shows? `...` stands for anything."""
    parts = [re.escape(part) for part in shown.rstrip().split("...")]
    return re.fullmatch(".*?".join(parts), printed, re.DOTALL) is not None


def updated(page: str, printed: list[str]) -> str:
    """The page with its output blocks as they are printed now."""
    lines = page.split("\n")
    pairs = list(zip(outputs_of(page), printed, strict=True))
    for (_, shown), text in reversed(pairs):
        if shown is not None and not agrees(shown.text, text):
            lines[shown.first : shown.last] = text.split("\n")
    return "\n".join(lines)


def main(path: str, processes: str = "1") -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    pairs = outputs_of(Path(path).read_text(encoding="utf-8"), processes)
    printed = [run_block(block, namespace) for block, _ in pairs]
    sys.stdout.write(json.dumps(printed) + "\n")  # one line of each process


if __name__ == "__main__":
    main(*sys.argv[1:])
