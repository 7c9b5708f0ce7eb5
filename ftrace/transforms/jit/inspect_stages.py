"""What becomes of a function for one signature: graph, kernels, source, program."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import field
from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.devices.base import Device
from ftrace.errors import ArgumentError, ShapeError
from ftrace.ground.fast_dataclasses import OfProcess, dataclass
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.graph import Graph
from ftrace.trace.symbolic.dim import is_dynamic
from ftrace.transforms.flatten_arguments import Output
from ftrace.transforms.jit.compiled_graph import compile_graph


@dataclass(eq=False)
class Traced(OfProcess):
    """A function traced for one signature.

    Attributes:
      graph: what it computes.
      output: the structure of its result.
      closed: it uses no tracers of transforms around it.
      nbytes: what it weighs without its programs.
      programs: what runs it, by device and settings of compilation.
    """

    graph: Graph
    output: Output
    closed: bool
    nbytes: int = 0
    programs: dict[Any, Any] = field(default_factory=dict[Any, Any])


class Stages(OfProcess):
    """A jitted function for one signature: graph, kernels, source, program.

    Attributes:
      graph: as it was traced.
      simplified: after the rewrites of lowering.
      program: buffers and steps.
    """

    def __init__(
        self,
        jitted: Callable[..., Any],
        traced: Traced,
        device: Device,
        donated: tuple[int, ...],
    ) -> None:
        self._jitted = jitted
        self._compiled = compile_graph(ready_graph(traced.graph), device, donated)
        self.graph = traced.graph
        self.simplified = self._compiled.simplified
        self.program = self._compiled.program

    @property
    def kernels(self) -> list[Any]:
        """The kernels in the order in which they run."""
        return [step.kernel for step in self.program.kernels]

    @property
    def sources(self) -> tuple[str, ...]:
        """The source text of each kernel on its device."""
        return self._compiled.executable.sources

    def as_text(self) -> str:
        """The graph, the program, and the kernels, as text."""
        parts = [str(self.graph), str(self.program), *map(str, self.kernels)]
        return "\n\n".join(parts)

    def compile(self) -> Callable[..., Any]:
        """The function for exactly this signature, compiled ahead."""
        return self._jitted

    def __str__(self) -> str:
        return self.as_text()


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """Shape and dtype of an array that need not exist.

    Raises:
      ArgumentError: the shape is no sequence of integers, the dtype no dtype.
      ShapeError: a size is negative.
    """

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool = False

    def __post_init__(self) -> None:
        try:
            shape: Any = tuple(
                [n if is_dynamic(n) else operator.index(n) for n in self.shape]
            )
        except TypeError:
            raise ArgumentError(
                "ShapeDtypeStruct: the shape must be a sequence of integers, got "
                f"{self.shape!r}"
            ) from None
        if any(n < 0 for n in shape):
            raise ShapeError(f"ShapeDtypeStruct: {shape} has a negative size")
        if self.dtype is None:
            raise ArgumentError("ShapeDtypeStruct: the dtype is missing")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtypes.named_dtype(self.dtype))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)
