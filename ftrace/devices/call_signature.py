"""What a device is told of a jitted call, to do without Python's code for it.

A signature says what the arguments are, what runs, and what is made of the results. A
device that can do such calls by itself gives a `Bound` for it.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from ftrace.arrays.array import Array
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.settings import Config
from ftrace.trace.avals import ShapedArray
from ftrace.trace.pytree.structure_cache import Part


@dataclass(frozen=True)
class Fixed:
    """A static argument: this value.

    Attributes:
      constant: the very object, which never changes, whatever its class.
    """

    value: Any
    constant: bool = False


@dataclass(frozen=True, eq=False)
class Index:
    """A tuple that is one leaf: an index.

    Attributes:
      number: of the leaf.
      children: what its parts are; of integers, which only say where, their classes.
    """

    number: int
    children: tuple[Any, ...]


Expected: TypeAlias = Part | Fixed | Index


@dataclass(frozen=True, eq=False)
class Signature:
    """A kind of calls.

    Attributes:
      config: the configuration under which they are made.
      positional, named: what each argument is, in the order of the call.
      leaves: the class and the type of each leaf, by its number.
      captured: arrays that the function closed over: inputs behind the leaves.
      donated: the numbers of the leaves that are arrays which the caller gives up.
      overwritten: the numbers of the inputs that the program writes.
      result: the layout of the result, of leaves of the types `avals`.
    """

    config: Config
    positional: tuple[Expected, ...]
    named: dict[str, Expected]
    leaves: tuple[tuple[type[Any], ShapedArray], ...]
    captured: tuple[Array, ...]
    donated: tuple[int, ...]
    overwritten: tuple[int, ...]
    result: Part
    avals: tuple[ShapedArray, ...]


class Bound(Protocol):
    """A signature and a program in a form that the device calls by itself.

    Attributes:
      config: the configuration; an equal one may be put into its place by `use`.
      address: of the record that a jitted function keeps in its links.
    """

    config: Config
    address: int

    def use(self, config: Config) -> None: ...

    def serve(self, kind: type[Any]) -> None:
        """Makes the calls of a class native; there is one such class."""
        ...


#: Where an instance of it has an array: how many records it has, and their
#: addresses; and the method that does calls for which there is no record.
LINKS, PLAIN = "_links", "plain_call"
