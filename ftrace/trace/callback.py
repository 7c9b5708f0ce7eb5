"""Callbacks: a Python function as the argument of a node, and how it is called.

    Callback = kind, function, structure of its arguments and results

The same function with the same structures is the same callback, so that a function
that is traced again gives the same graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import product
from types import MethodType
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.arrays.array import Array, is_array
from ftrace.errors.user_line import Origin
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic.dim import is_dynamic, same_size
from ftrace.trace.tracing.scopes import outside_scopes
from ftrace.trace.tracing.tracer import aval_of, check_fits, is_value

_SCALARS = (bool, int, float, complex)
_NARROWED = {
    dtypes.int64: dtypes.int32, dtypes.uint64: dtypes.uint32,
    dtypes.float64: dtypes.float32, dtypes.complex128: dtypes.complex64,
}  # fmt: skip


@dataclass(frozen=True)
class Same:
    """A value that equals itself alone, whatever its class says of equality."""

    value: Any = field(compare=False)
    key: Any

    @staticmethod
    def of(value: Any) -> Same:
        if isinstance(value, MethodType):  # each `x.method` is a new object
            return Same(value, (id(value.__self__), id(value.__func__)))
        return Same(value, id(value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Same.of, (self.value,)  # in another process its key is another one


@dataclass(frozen=True)
class Static:
    """A leaf among the arguments that is no array: it stays out of the graph."""

    value: Any = field(compare=False)
    key: Any

    @staticmethod
    def of(value: Any) -> Static:
        if isinstance(value, (str, bytes, *_SCALARS)):  # 0.0 and -0.0 are two
            return Static(value, (type(value), repr(value)))
        return Static(value, id(value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Static.of, (self.value,)


@dataclass(frozen=True)
class Callback:
    """The argument of a node that calls back.

    Attributes:
      kind: the function that the user wrote, for messages: "debug.print".
      function: what is called.
      arguments: the structure of (args, kwargs).
      leaves: of each leaf of it the static value, or None for an operand.
      structure: of the result.
      results: the types of its leaves.
      method: what vmap makes of it: "sequential", "expand_dims", …
      lanes: for each vmap around it, the outermost first, its size, and which of the
        operands have an axis of lanes. It is called once per lane, in order.
      site: where it was written, for what must not be taken for another one.
      origin: the user's line. Not part of its identity.
    """

    kind: str
    function: Same
    arguments: Any
    leaves: tuple[Static | None, ...]
    structure: Any
    results: tuple[ShapedArray, ...]
    method: str = "sequential"
    lanes: tuple[tuple[int, tuple[bool, ...]], ...] = ()
    site: Any = None
    origin: Origin | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        function = self.function.value
        return getattr(function, "__name__", type(function).__name__)

    @property
    def drops_result(self) -> bool:
        """Whatever it returns is let go."""
        return self.kind.startswith("debug.")

    @cached_property
    def sizes(self) -> Shape:
        """How many lanes there are, for each vmap."""
        return tuple(size for size, _ in self.lanes)

    @property
    def types(self) -> tuple[ShapedArray, ...]:
        """The types of the results for all lanes together."""
        return tuple(a.with_shape((*self.sizes, *a.shape)) for a in self.results)

    def __str__(self) -> str:
        lanes = f", lanes={self.sizes}" if self.lanes else ""
        return f"{self.kind} {self.name}{lanes}"

    def __call__(self, operands: Sequence[Any]) -> list[Any]:
        """The results, as NumPy arrays: of one call, or of one call per lane.

        Raises:
          TreeError, ShapeError, DtypeError: a result is not of the promised type.
        """
        if not self.lanes:
            return self._once(operands)
        totals: list[Any] = [np.empty(a.shape, a.dtype) for a in self.types]
        for position in product(*map(range, self.sizes)):
            lane = [self._in_lane(x, i, position) for i, x in enumerate(operands)]
            for total, value in zip(totals, self._once(lane), strict=True):
                total[position] = value
        return totals

    def _in_lane(self, operand: Any, number: int, position: Shape) -> Any:
        pairs = zip(position, self.lanes, strict=True)
        return operand[tuple(p for p, (_, flags) in pairs if flags[number])]

    def _once(self, operands: Sequence[Any]) -> list[Any]:
        rest = iter(operands)
        leaves = [_as_array(next(rest)) if s is None else s.value for s in self.leaves]
        args, kwargs = tree.unflatten(self.arguments, leaves)
        # What it computes is its own affair, not part of a function that is traced.
        with outside_scopes():
            try:
                result = self.function.value(*args, **kwargs)
            except errors.UnexpectedTracerError as error:
                raise errors.UnexpectedTracerError(
                    f"{self.kind}: {self.name} uses a traced value of the function "
                    "around it, which has no elements; a callback gets values as its "
                    "arguments: pass it the traced value as one",
                    self.origin,
                ) from error
            except Exception as error:
                _add_note(error, self)
                raise
            return [] if self.drops_result else self._checked(result)

    # Results.

    def _checked(self, result: Any) -> list[Any]:
        leaves, structure = tree.flatten(result)
        if structure != self.structure:
            raise errors.TreeError(
                f"{self.kind}: {self.name} must return {_shape_of(self.structure)}, as "
                f"result_shape_dtypes says, but it returned {_shape_of(structure)}",
                self.origin,
            )
        return [
            self._checked_leaf(leaf, aval, number)
            for number, (leaf, aval) in enumerate(
                zip(leaves, self.results, strict=True)
            )
        ]

    def _checked_leaf(self, leaf: Any, aval: ShapedArray, number: int) -> Any:
        if not is_value(leaf) and not hasattr(leaf, "__array__"):
            raise errors.ArgumentError(
                f"{self._at(number)} must be an array of type {aval!r}, got "
                f"{type(leaf).__name__}: {leaf!r:.60}",
                self.origin,
            )
        array: Any = leaf if isinstance(leaf, _SCALARS) else np.asarray(leaf)
        got = aval_of(array)
        if not same_size(got.shape, aval.shape):
            lanes = (
                f"; under vmap with vmap_method={self.method!r} it gets and returns "
                "all lanes at once"
                if self.method != "sequential"
                else ""
            )
            raise errors.ShapeError(
                f"{self._at(number)} must have shape {aval.shape} (type {aval!r}), "
                f"got {got.shape} (type {got!r}){lanes}",
                self.origin,
            )
        if not _fits(got, aval):
            raise errors.DtypeError(
                f"{self._at(number)} must have dtype {aval.dtype} (type {aval!r}), got "
                f"{got.dtype} (type {got!r}); convert it with .astype, or change "
                "result_shape_dtypes",
                self.origin,
            )
        if isinstance(array, _SCALARS):
            check_fits(array, aval.dtype)
        return np.asarray(array, aval.dtype)

    def _at(self, number: int) -> str:
        """The name of a leaf of the result."""
        whole = tree.unflatten(self.structure, range(len(self.results)))
        path, _ = tree.flatten_with_path(whole)[number]
        place = tree.path_string(path)
        leaf = f"the leaf {place} of what {self.name} returned" if place else ""
        return f"{self.kind}: {leaf or f'what {self.name} returned'}"


def _fits(got: ShapedArray, wanted: ShapedArray) -> bool:
    """May a result of the one type stand for the other?

    Python numbers take the dtype that is wanted, as everywhere. NumPy computes in 64
    bits where JAX has 32: unless 64 bits are switched on, they are narrowed as there.
    """
    if got.dtype == wanted.dtype:
        return True
    if got.weak_type:
        return dtypes.promote((wanted.dtype, False), (got.dtype, True)) == (
            wanted.dtype,
            False,
        )
    if settings.current().enable_x64 is True:
        return False
    return _NARROWED.get(got.dtype, got.dtype) == wanted.dtype  # None is float64


def _as_array(operand: Any) -> Array:
    """An operand as the callback gets it: the memory is its own."""
    return operand if is_array(operand) else Array.of(np.array(operand))


def _shape_of(structure: Any) -> str:
    text = tree.readable(structure)
    return "one array" if text == "*" else text


def _add_note(error: Exception, callback: Callback) -> None:
    """Says where the callback stands in the program; tracebacks show it."""
    where = f"\n  at {callback.origin.describe()}" if callback.origin else ""
    notes: list[str] = getattr(error, "__notes__", [])
    note = f"raised in {callback.name}, the function of this {callback.kind}{where}"
    error.__notes__ = [*notes, note]  # type: ignore[attr-defined]


def promised(what: str, specs: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    """The types of `result_shape_dtypes`, and their structure.

    Raises:
      ArgumentError: a leaf has no shape and dtype.
      DtypeError: a dtype is not available.
    """
    leaves, structure = tree.flatten(specs)
    return tuple(_promised_type(what, leaf) for leaf in leaves), structure


def _promised_type(what: str, leaf: Any) -> ShapedArray:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise errors.ArgumentError(
            f"{what}: result_shape_dtypes must hold what has a shape and a dtype, got "
            f"{type(leaf).__name__}: {leaf!r:.60}; write "
            "ftrace.ShapeDtypeStruct(shape, dtype)"
        )
    dtype, wanted = dtypes.as_dtype(leaf.dtype), dtypes.named_dtype(leaf.dtype)
    if wanted != dtype:
        raise errors.DtypeError(
            f"{what}: result_shape_dtypes asks for {wanted}, but 64 bits "
            f"are switched off; ask for {dtype}, or enable them with "
            "ft.config.update('jax_enable_x64', True)"
        )
    return ShapedArray.of(
        tuple(n if is_dynamic(n) else int(n) for n in leaf.shape), dtype
    )
