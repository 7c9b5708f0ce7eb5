"""What a user's rule returned, held against what it must return.

A message names the leaf, what was expected, what came back, and the user's line: that
which made the leaf, or else that of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import Array
from ftrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from ftrace.errors.user_line import Origin
from ftrace.trace.avals import ShapedArray
from ftrace.trace.primitives.sources import const, is_variable
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic.dim import same_size
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of, is_value

_SEQUENCE: tuple[type[Any], ...] = (tuple, list)


class SymbolicZero:
    """Stands for a tangent or cotangent that is zero, in a rule with symbolic_zeros.

    Attributes:
      aval, shape, dtype: of the zero; dtype float0 for that of an integer.
    """

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        inexact = dtypes.is_inexact(self.aval.dtype)
        return self.aval.dtype if inexact else dtypes.float0

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    def instantiate(self) -> Value:
        """The zeros as an array."""
        return zeros_of(self.aval)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval!r})"


def zeros_of(aval: ShapedArray) -> Value:
    """Zeros, in the function that is being traced; float0 for an integer."""
    if not dtypes.is_inexact(aval.dtype):
        return np.zeros(aval.shape, dtypes.float0)
    scope = current_scope()
    if scope is None or scope.bound:  # rules there run with values
        return Array.of(np.zeros(aval.shape, aval.dtype))
    return scope.wrap(const(0, aval.dtype, aval.shape))


def place_of(function: Any) -> Origin | None:
    """Where a function was defined."""
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    code = getattr(function, "__code__", None)
    return None if code is None else Origin(code, -1)


class Promise:
    """What a rule must return: a structure, and a type for each leaf.

    Args:
      what: for messages: "the tangents that the jvp rule of f returned".
      like: "the results of f".
      rule: the user's function.
      example: a tree of that structure.
      avals: the types of its leaves.
    """

    def __init__(
        self, what: str, like: str, rule: Callable[..., Any],
        example: Any, avals: Sequence[ShapedArray],
    ) -> None:  # fmt: skip
        self.what = what
        self.like = like
        self.origin = place_of(rule)
        self.example = example
        self.avals = avals

    def structure(self, got: Any) -> list[Any]:
        """The leaves of what came back.

        Raises:
          TreeError: it has another structure.
        """
        leaves, treedef = tree.flatten(got)
        expected = tree.structure(self.example)
        if treedef != expected:
            raise TreeError(
                f"{self.what} must have the structure of {self.like}: expected "
                f"{tree.readable(expected)}, got {tree.readable(treedef)}",
                self.origin,
            )
        return leaves

    def check(self, leaves: Sequence[Any], tangents: bool = False) -> list[Any]:
        """The leaves, each of the promised type; None for the tangent of an integer.

        Raises:
          ShapeError, DtypeError, ArgumentError: a leaf is of another type.
        """
        pairs = enumerate(zip(leaves, self.avals, strict=True))
        return [self._leaf(leaf, aval, i, tangents) for i, (leaf, aval) in pairs]

    def _leaf(self, leaf: Any, aval: ShapedArray, number: int, tangents: bool) -> Any:
        if isinstance(leaf, SymbolicZero):
            leaf = leaf.instantiate()
        if tangents and not dtypes.is_inexact(aval.dtype):
            return None
        if getattr(leaf, "dtype", None) == dtypes.float0 or not is_value(leaf):
            got = f"{type(leaf).__name__}: {leaf!r:.60}"
            raise ArgumentError(self._differ(aval, got, number), self._origin(leaf))
        found = aval_of(leaf)
        if not same_size(found.shape, aval.shape):
            differ = self._differ(aval, repr(found), number)
            raise ShapeError(differ, self._origin(leaf))
        if found.dtype == aval.dtype or found.weak_type:
            return leaf
        # Without `enable_x64` 64 bits stand for 32, as of all tangents.
        if dtypes.narrow(found.dtype) != dtypes.narrow(aval.dtype):
            differ = self._differ(aval, repr(found), number)
            raise DtypeError(f"{differ}; convert it with .astype", self._origin(leaf))
        return leaf

    def _differ(self, aval: ShapedArray, got: str, number: int) -> str:
        path, _ = tree.flatten_with_path(self.example)[number]
        at = tree.path_string(path)
        what = f"{self.what}, at {at}" if at else self.what
        return f"{what}: expected {aval!r} as in {self.like}, got {got}"

    def _origin(self, leaf: Any) -> Origin | None:
        if isinstance(leaf, Tracer) and not is_variable(leaf.node):
            return leaf.origin or self.origin
        return self.origin


def pair_of(result: Any, what: str, rule: Callable[..., Any]) -> tuple[Any, Any]:
    """The two things that a rule returns.

    Raises:
      ArgumentError: these are not two.
    """
    listed = as_tuple(result)
    if not isinstance(result, _SEQUENCE) or len(listed) != 2:
        raise ArgumentError(
            f"{what}, got {type(result).__name__}: {result!r:.80}", place_of(rule)
        )
    first, second = listed
    return first, second


def as_tuple(value: Any) -> Any:
    """A list as a tuple; anything else as it is."""
    return tuple(value) if isinstance(value, _SEQUENCE) else value


def aligned(example: Any, got: Any) -> list[Any] | None:
    """A leaf of `got` per leaf of `example`; None in `got` stands for any subtree.

    Returns None if the structures differ.
    """
    leaves, structure = tree.flatten(got)
    if structure == tree.structure(example):
        return leaves
    return _aligned(example, got)


def _aligned(example: Any, got: Any) -> list[Any] | None:
    if got is None:
        return [None] * len(tree.leaves(example))
    if not tree.is_node(example):
        return [got] if not tree.is_node(got) else None
    if type(example) is not type(got):
        return None
    ours, data = tree.flatten_one_level(example)
    theirs, other = tree.flatten_one_level(got)
    if data != other or [key for key, _ in ours] != [key for key, _ in theirs]:
        return None
    found: list[Any] = []
    for (_, mine), (_, yours) in zip(ours, theirs, strict=True):
        part = _aligned(mine, yours)
        if part is None:
            return None
        found += part
    return found
