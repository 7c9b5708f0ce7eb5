"""A row of the table: what is computed, and how each library writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

#: From a library's names to the function that is timed.
Build = Callable[[Any], Callable[..., Any]]
#: From a library to a clock: each call of it gives the seconds of one run.
Clock = Callable[[Any], Callable[[], float]]


def no_inputs() -> tuple[Any, ...]:
    return ()


@dataclass(eq=False)
class Row:
    """One line of the table.

    Attributes:
      family: the heading it stands under.
      name: unique within the family.
      inputs: makes the arguments, NumPy arrays in tuples, lists and dicts.
      build: the function, in the names that ftrace and JAX share (`libraries.Api`).
      jit: whether ftrace and JAX compile the function, or run it as it is.
      bytes: what has to be read and written. True: all inputs and all outputs once.
        None: memory does not limit this row.
      flops: floating-point operations of a contraction, or None.
      tolerance: the largest difference between libraries, relative to the largest
        element of an output.
      compare: the peers whose results have to agree with ours.
      wait: wait for the result of every call, or once for all calls of a timing.
      clock: for rows that time themselves; then there are no inputs.
      shared: the peers besides ftrace that `build` or `clock` serves.
      peers: the function as other libraries write it, by their names.
    """

    family: str
    name: str
    inputs: Callable[[], tuple[Any, ...]] = no_inputs
    build: Build | None = None
    jit: bool = True
    bytes: int | bool | None = None
    flops: float | None = None
    tolerance: float = 2e-3
    compare: Sequence[str] = ("jax", "torch", "numpy")
    wait: str = "each"
    clock: Clock | None = None
    shared: Sequence[str] = ("jax",)
    peers: dict[str, Build] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.family}/{self.name}"

    def serves(self, library: str) -> bool:
        """Whether this row can be timed in a library."""
        return library in ("ftrace", *self.shared) or library in self.peers

    def peer(self, *libraries: str) -> Callable[[Build], Build]:
        """Decorates the builder that serves these libraries."""

        def register(build: Build) -> Build:
            self.peers.update(dict.fromkeys(libraries, build))
            return build

        return register


class Family:
    """Rows under one heading, in the order in which they are written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row] = []

    def row(
        self,
        name: str,
        inputs: Callable[[], tuple[Any, ...]] = no_inputs,
        **options: Any,
    ) -> Callable[[Build], Row]:
        """Decorates the builder of a row; the options are fields of `Row`."""

        def register(build: Build) -> Row:
            row = Row(self.name, name, inputs, build, **options)
            self.rows.append(row)
            return row

        return register

    def clocked(self, name: str, clock: Clock, **options: Any) -> Row:
        """Adds a row that times itself."""
        row = Row(self.name, name, clock=clock, **options)
        self.rows.append(row)
        return row
