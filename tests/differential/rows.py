"""Rows of the table: a public function, and the kinds of its arguments.

A table is text, a line for each group of functions with the same arguments:

    sum prod: any axis=axis keepdims=flag
    round: any decimals=[0,2,-1]
    clip: any any? any?

`kind` is an argument by position (`?` where it may be left out), `name=kind` one by
name, which may always be left out (`!` where it may not), and `[…]` a choice of
literals in the place of a kind. What stands in `{}` behind the names are properties:

    elementwise   each element of a result stands for itself, and is held to be so
    values        no: only dtypes and shapes are the same (signs of eigenvectors)
    modes         the modes that make sense, a group of `MODES`; otherwise all
    switched      only with the switch enable_x64 on or off: what is drawn depends on it
    rough         times so much error is allowed, with the reason beside the table
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.differential.kinds import ABSENT, KINDS, Choice, Numbers

LINE = re.compile(
    r"^(?P<names>[^:{]+?)\s*(\{(?P<properties>[^}]*)\})?:\s*(?P<kinds>.*)$"
)
KIND = re.compile(
    r"^((?P<keyword>[a-z_A-Z0-9]+)=)?(?P<kind>[a-z_0-9]+|\[.*\])(?P<mark>[?!]?)$"
)


MODES = {
    "plain": ("eager", "jit"),
    "mapped": ("eager", "jit", "vmap"),
    "forward": ("eager", "jit", "vmap", "jvp"),
}


@dataclass(frozen=True)
class Argument:
    """One argument of a row: its kind, its keyword, and whether it may be left out."""

    kind: Numbers | Choice
    keyword: str | None
    optional: bool

    @property
    def levels(self) -> tuple[Any, ...]:
        return (*self.kind.levels, ABSENT) if self.optional else self.kind.levels


@dataclass(frozen=True)
class Row:
    """A public function of a module, and what it takes.

    Attributes:
      name: module and function, "numpy.linalg.det".
      arguments: in the order of their positions.
      properties: see above.
      program: what is called in its place, with the library in front.
      variant: which row of that name, where there are more.
    """

    name: str
    arguments: tuple[Argument, ...]
    properties: dict[str, str]
    program: Callable[..., Any] | None = None
    variant: int = 1

    @property
    def title(self) -> str:
        return self.name if self.variant == 1 else f"{self.name}~{self.variant}"

    @property
    def elementwise(self) -> bool:
        return "elementwise" in self.properties

    @property
    def modes(self) -> tuple[str, ...] | None:
        named = self.properties.get("modes")
        return MODES.get(named, (named,)) if named else None

    @property
    def rough(self) -> float:
        return float(self.properties.get("rough", 1))


def _argument(text: str) -> Argument:
    match = KIND.match(text)
    if match is None:
        raise ValueError(f"not a kind of argument: {text!r}")
    name, mark, keyword = match["kind"], match["mark"], match["keyword"]
    kind = Choice(tuple(eval(name))) if name[0] == "[" else KINDS[name]
    optional = mark == "?" or (keyword is not None and mark != "!")
    return Argument(kind, keyword, optional)


def _split(text: str) -> list[str]:
    """The words of a line; what stands in brackets is one of them."""
    words, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == " " and depth == 0:
            words.append("")
        else:
            words[-1] += character
    return [word for word in words if word]


def lines(text: str) -> list[str]:
    """The rows' lines; one that is indented goes on with the line above."""
    return re.sub(r"\n\s+", " ", text.strip()).splitlines()


def names(text: str) -> list[str]:
    """The names of a table."""
    return [n for line in lines(text) for n in re.split("[{:]", line)[0].split()]


def read(
    module: str, text: str, programs: dict[str, Callable[..., Any]] | None = None
) -> list[Row]:
    """The rows of a table."""
    rows: list[Row] = []
    for line in lines(text):
        match = LINE.match(line.strip())
        if match is None:
            raise ValueError(f"not a row: {line!r}")
        arguments = tuple(_argument(word) for word in _split(match["kinds"]))
        pairs = [p.partition("=") for p in (match["properties"] or "").split()]
        properties = {name: value for name, _, value in pairs}
        for name in match["names"].split():
            full = f"{module}.{name}" if module else name
            rows.append(Row(full, arguments, properties, (programs or {}).get(name)))
    return rows
