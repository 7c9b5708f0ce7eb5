"""The picture of `make demo` in the README: a terminal, as an SVG that moves.

    python -m docs.demo_picture [SCRIPT]

The demo is run in a terminal of its own, and what it writes is noted with its time.
Each line of the screen becomes a text for as long as it stood there; where nothing
moves, or somebody wishes that nothing moves, the last screen is shown.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "demo.svg"
COLUMNS, ROWS = 80, 16
#: Of a letter, in pixels; seconds between two pictures, and those of the last one.
WIDTH, HEIGHT, MARGIN = 8.4, 19, 16
PAUSE, END = 0.2, 5.0
CONTROL = re.compile(r"\x1b\[(\d*)([A-LN-Z])|\x1b\[\?\d+[hl]|\r|\n")

Screen = tuple[str, ...]


def record(script: Path) -> Iterator[tuple[float, str]]:
    """What a program writes into a terminal, and when, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        begin = 0.0
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(folder)
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            os.environ["PYTHONPATH"] = str(ROOT)
            command = [sys.executable, str(script.resolve()), "--out", "examples/out"]
            os.execv(sys.executable, command)
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
        while True:
            try:
                text = os.read(terminal, 1 << 16).decode(errors="replace")
            except OSError:  # what Linux says at the end
                break
            begin = begin or time.perf_counter()
            yield time.perf_counter() - begin, text
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"{script.name} has failed")


def screens(written: Iterator[tuple[float, str]]) -> Iterator[tuple[float, Screen]]:
    """The lines that stand there, and from when on."""
    lines, row = [""], 0
    shown = -PAUSE
    at, text = 0.0, ""
    for at, text in written:
        end = 0
        for found in CONTROL.finditer(text):
            lines[row] += text[end : found.start()]
            end = found.end()
            if found[0] == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            elif found[2] == "K":
                lines[row] = ""
            elif found[2] == "A":
                row -= int(found[1] or 1)
        lines[row] += text[end:]
        if at - shown >= PAUSE:
            shown = at
            yield at, tuple(lines)
    yield at, tuple(lines)


def spans(line: str) -> str:
    """A line with its colours, as parts of a text of SVG."""
    text, parts = Text.from_ansi(line), list[str]()
    for segment in text.render(Console(width=COLUMNS)):
        style = segment.style or Style()
        look = ' font-weight="bold"' if style.bold else ""
        if style.color is not None and not style.color.is_default:
            look += f' fill="{style.color.get_truecolor(MONOKAI).hex}"'
        parts.append(f"<tspan{look}>{escape(segment.text)}</tspan>")
    return "".join(parts)


def picture(frames: list[tuple[float, Screen]]) -> str:
    """The SVG of the screens, which begins again at its end."""
    whole, last = frames[-1][0] + END, frames[-1][1]
    texts, rules = list[str](), list[str]()
    for row in range(len(last)):
        changes = [(0.0, "")]
        for at, screen in frames:
            line = screen[row] if row < len(screen) else ""
            if line != changes[-1][1]:
                changes.append((at, line))
        ends = [at for at, _ in changes[1:]] + [whole]
        for (begin, line), end in zip(changes, ends, strict=True):
            if not line.strip():
                continue
            name, stays = f"t{len(texts)}", ' class="last"' if end == whole else ""
            shown = f"{begin / whole:.2%}{{visibility:visible}}"
            gone = "" if stays else f"{end / whole:.2%}{{visibility:hidden}}"
            rules.append(f"@keyframes {name}{{0%{{visibility:hidden}}{shown}{gone}}}")
            y = MARGIN + HEIGHT * (row + 0.75)
            texts.append(
                f'<text{stays} x="{MARGIN}" y="{y:g}" style="animation-name:{name}">'
                f"{spans(line)}</text>"
            )
    width = round(COLUMNS * WIDTH + 2 * MARGIN)
    height = len(last) * HEIGHT + 2 * MARGIN
    style = "".join(rules)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
text {{ font: 14px ui-monospace, Menlo, Consolas, monospace; white-space: pre;
  fill: #d9d9d9; visibility: hidden; animation: {whole:.1f}s steps(1, end) infinite }}
.last {{ visibility: visible }}
@media (prefers-reduced-motion) {{ text {{ animation: none }} }}
{style}
</style>
<rect width="{width}" height="{height}" rx="10" fill="#15181d"/>
{"".join(texts)}
</svg>
"""


if __name__ == "__main__":
    script = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "examples" / "digits.py"
    PICTURE.write_text(picture([*screens(record(script))]), encoding="utf-8")
    sys.stdout.write(f"{PICTURE}: {PICTURE.stat().st_size / 1e3:.0f} kB\n")
