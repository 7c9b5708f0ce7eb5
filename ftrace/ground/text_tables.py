"""What is shown in tables: as text, in a terminal through rich, in a notebook as HTML.

print(found)        text, whoever reads it
found.show()        a table of rich's where the terminal and rich are there
found               in a notebook: HTML
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ftrace.ground.fast_dataclasses import NamedTuple

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escape(text: str) -> str:
    """A text as it stands in HTML."""
    return text.translate(_ESCAPES)


#: The spaces beside a cell in a terminal.
_SIDES = 2


class Shown:
    """What a shell and a notebook show as it is printed."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Text(Shown, str):
    """A text that is an answer."""

    __slots__ = ()


class Section(NamedTuple):
    """A part of what is shown.

    Attributes:
      title: stands before it.
      columns: the heads of the table.
      rows: its cells.
      numbers: the columns that stand at the right.
      notes: lines behind it.
      optional: the columns that a narrow terminal goes without, the first one first.
    """

    title: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: Collection[int] = ()
    notes: Sequence[str] = ()
    optional: Sequence[int] = ()

    def __str__(self) -> str:
        lines = [self.title] if self.title else []
        table = [self.columns, *self.rows] if self.rows else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            cells = [
                cell.rjust(width) if i in self.numbers else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  " + "  ".join(cells).rstrip())
        return "\n".join([*lines, *[f"  {note}" for note in self.notes]])

    def _side(self, column: int) -> str:
        return "right" if column in self.numbers else "left"

    def rich(self, width: int) -> Any:
        """Its rows as a table of rich's, of the columns that have room in a width.

        Where those that have to stay have none, the last one goes below the first; if
        that is too wide as well, texts go on in the next line, wherever they end.
        """
        from rich.table import Table
        from rich.text import Text

        columns = [*zip(self.columns, *self.rows, strict=True)]
        widths = {i: _least_width(column) for i, column in enumerate(columns)}
        for i in self.optional:
            if sum(widths.values()) > width:
                del widths[i]
        spare = width - sum(widths.values())
        if spare < 0 and not self.columns[-1]:
            return self._stack().rich(width)
        table = Table(box=None, pad_edge=True)
        for i, least in widths.items():
            more = min(max(spare, 0), _SIDES + max(map(len, columns[i])) - least)
            table.add_column(
                Text(self.columns[i]), justify="right" if i in self.numbers else "left",
                overflow="fold", width=least + more - _SIDES if spare >= 0 else None,
            )  # fmt: skip
            spare -= more
        for row in self.rows:
            table.add_row(*[Text(row[i]) for i in widths])
        return table

    def _stack(self) -> Section:
        """The same with the last column below the first."""
        below = "\n    "
        rows = [
            [row[0] + below + row[-1].replace(", ", f",{below}"), *row[1:-1]]
            for row in self.rows
        ]
        return Section(
            self.title, self.columns[:-1], rows, self.numbers, self.notes, self.optional
        )

    def html(self) -> str:
        """The same in HTML."""
        title, *notes = map(escape, (self.title, *self.notes))
        rows = [("th", self.columns), *[("td", row) for row in self.rows]]
        lines = [
            "".join(
                f"<{tag} style='text-align:{self._side(i)}'>{escape(cell)}</{tag}>"
                for i, cell in enumerate(row)
            )
            for tag, row in rows
        ]
        table = "".join(f"<tr>{line}</tr>" for line in lines)
        table = f"<table>{table}</table>" if self.rows else ""
        listed = "".join(f"<div>{note}</div>" for note in notes)
        return f"<div><b>{title}</b></div>{table}{listed}"


def _least_width(column: Sequence[str]) -> int:
    """Of a column in which lists go on below, with the space at its sides."""
    parts = [part for cell in column for part in cell.replace("\n", ", ").split(", ")]
    return _SIDES + max(map(len, parts))


class Tables(Shown, ABC):
    """What is shown as tables."""

    @abstractmethod
    def sections(self) -> list[Section]:
        """Its parts."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.sections()))

    def _repr_html_(self) -> str:
        """For notebooks."""
        return "".join(section.html() for section in self.sections())

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """For rich, which asks for it."""
        from rich.text import Text

        for section in self.sections():
            yield Text(section.title, style="bold")
            if section.rows:
                yield section.rich(options.max_width)
            yield from (Text(f"  {note}") for note in section.notes)

    def show(self) -> None:
        """Prints it: a table of rich's in a terminal, where rich is installed."""
        try:
            from rich.console import Console
        except ImportError:
            Console = None
        if Console is not None and sys.stdout.isatty():
            Console().print(self)
            return
        text = f"{self}\n"
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def time_text(seconds: float) -> str:
    """A time in three digits."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e6:.3g} µs"
