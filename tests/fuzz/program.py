"""A program as data: inputs, statements, outputs; and the Python that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

NAME = re.compile(r"\b[vx]\d+\b")
#: Samples of an input: the first is the plain argument, all together are a batch.
SAMPLES = 3
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0)
EXTENDED = {"bfloat16": ml_dtypes.bfloat16}


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(EXTENDED.get(name, name))


def is_float(dtype: Any) -> bool:
    """Of real or complex inexact numbers."""
    return dtype.kind in "fc" or dtype == ml_dtypes.bfloat16


@dataclass(frozen=True)
class Input:
    """One argument; its values are drawn from a seed, or written out."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str = "plain"
    seed: int = 0
    bounds: tuple[int, int] = (-3, 4)
    mapped: bool = True
    values: tuple[Any, ...] = field(default=(), compare=False)

    def sample(self, number: int = 0) -> Any:
        number = number if self.mapped else 0
        if self.values:
            return self.values[number]
        rng = np.random.default_rng((self.seed, number))
        return _draw_values(rng, self)


def _draw_values(rng: Any, spec: Input) -> Any:
    dtype, shape = dtype_of(spec.dtype), spec.shape
    if spec.kind == "index" or dtype.kind == "b":
        low, high = spec.bounds if dtype.kind != "b" else (0, 2)
        return rng.integers(low, high, shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if spec.kind == "special":
            edges = [limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max]
            return np.array(edges, dtype)[rng.integers(0, len(edges), shape)]
        low = max(limits.min, -9)
        return rng.integers(low, 10, shape).astype(dtype)
    if dtype.kind == "c":
        parts = [_real_values(rng, spec, np.dtype("f8")) for _ in range(2)]
        with np.errstate(all="ignore"):
            return (parts[0] + 1j * parts[1]).astype(dtype)
    return _real_values(rng, spec, dtype)


def _real_values(rng: Any, spec: Input, dtype: Any) -> Any:
    shape = spec.shape
    if spec.kind == "whole":
        return rng.integers(-3, 4, shape).astype(dtype)
    values = np.asarray(rng.uniform(-2, 2, shape))
    if spec.kind == "positive":
        values = np.abs(values) + 0.25
    if spec.kind == "wide":
        values = values * 10.0 ** rng.integers(-3, 4, shape)
    with np.errstate(over="ignore", under="ignore"):
        values = values.astype(dtype)
    if spec.kind == "special":
        limits = ml_dtypes.finfo(dtype)
        edges = np.array(SPECIAL, dtype)
        extremes = [limits.max, limits.tiny, limits.smallest_subnormal, -limits.max]
        edges = np.concatenate([edges, np.array(extremes, dtype)])
        chosen = edges[rng.integers(0, len(edges), shape)]
        values = np.where(rng.random(shape) < 0.4, chosen, values)
    return np.asarray(values, dtype)


@dataclass(frozen=True)
class Statement:
    """`name = text`; what it reads are the names of values that stand in the text.

    Attributes:
      name: of the value.
      text: an expression. `N(…)` marks a part that is rounded where it stands, inside
        of a loop for instance; it is written as plain parentheses.
      error: units in the last place that a good implementation may be off by; 0 for
        what moves, compares or counts.
    """

    name: str
    text: str
    error: float = 0

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(NAME.findall(self.text)))

    def rename(self, names: Mapping[str, str]) -> Statement:
        text = NAME.sub(lambda m: names.get(m[0], m[0]), self.text)
        return replace(self, text=text)


@dataclass(frozen=True)
class Program:
    """What is run; x64 is the setting of that name."""

    inputs: tuple[Input, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]
    x64: bool | None = None
    seed: int = 0

    def live(self) -> Program:
        """Without what no output needs."""
        wanted, kept = set(self.outputs), list[Statement]()
        for statement in reversed(self.statements):
            if statement.name in wanted:
                kept.append(statement)
                wanted.update(statement.reads)
        inputs = tuple(i for i in self.inputs if i.name in wanted)
        inputs = inputs or self.inputs[:1]
        return replace(self, inputs=inputs, statements=tuple(reversed(kept)))

    def body(self, noisy: bool = False) -> str:
        """The function `f`."""
        lines = [f"def f({', '.join(i.name for i in self.inputs)}):"]
        if noisy:
            lines += [f"    {i.name} = noise(0, {i.name})" for i in self.inputs]
        for statement in self.statements:
            text = _noisy(statement) if noisy else _plain(statement.text)
            lines.append(f"    {statement.name} = {text}")
        lines.append(f"    return ({', '.join(self.outputs)},)")
        return "\n".join(lines)

    def widened(self) -> Program | None:
        """With float32 in the place of 16-bit floats; None if it has none of these."""
        narrow = re.compile(r"\bb?float16\b")

        def widen(spec: Input) -> Input:
            if not narrow.fullmatch(spec.dtype):
                return spec
            values = tuple(spec.sample(n).astype("f4") for n in range(SAMPLES))
            return replace(spec, dtype="float32", values=values)

        inputs = tuple(widen(i) for i in self.inputs)
        statements = tuple(
            replace(s, text=narrow.sub("float32", s.text)) for s in self.statements
        )
        if inputs == self.inputs and statements == self.statements:
            return None
        return replace(self, inputs=inputs, statements=statements)

    def arguments(self, number: int = 0) -> list[Any]:
        return [i.sample(number) for i in self.inputs]

    def batch(self) -> list[Any]:
        return [
            np.stack([i.sample(n) for n in range(SAMPLES)]) if i.mapped else i.sample()
            for i in self.inputs
        ]

    def axes(self) -> tuple[int | None, ...]:
        return tuple(0 if i.mapped else None for i in self.inputs)

    def differentiable(self) -> tuple[int, ...]:
        return tuple(
            n for n, i in enumerate(self.inputs) if is_float(dtype_of(i.dtype))
        )


def _plain(text: str) -> str:
    return re.sub(r"\bN\(", "(", text)


def _noisy(statement: Statement) -> str:
    text = re.sub(r"\bN\(", f"noise({statement.error}, ", statement.text)
    if not statement.error:
        return f"noise(0, {text})"
    text = NAME.sub(lambda m: f"noise(1, {m[0]})", text)
    return f"noise({statement.error}, {text})"


def literal(array: Any) -> str:
    """An array as an expression that gives its bits again."""
    dtype = array.dtype
    if array.size > 40:
        raw = np.ascontiguousarray(array).tobytes().hex()
        kind = _literal_dtype(dtype)
        return f'np.frombuffer(bytes.fromhex("{raw}"), {kind}).reshape({array.shape})'
    values = array.tolist() if dtype.kind in "biufc" else array.astype("f4").tolist()
    text = re.sub(r"\b(nan|inf)\b", r"np.\1", repr(values))
    empty = f".reshape({array.shape})" if not array.size else ""
    return f"np.array({text}, {_literal_dtype(dtype)}){empty}"


def _literal_dtype(dtype: Any) -> str:
    return f'"{dtype.name}"' if dtype.kind in "biufc" else f"jnp.{dtype.name}"


def written(program: Program, values: Sequence[Any], call: Iterable[str]) -> str:
    """The program as a Python program of its own, which JAX takes as it is, too."""
    lines = [
        "import numpy as np",
        "import ftrace as jax",
        "import ftrace.numpy as jnp",
        "from ftrace import lax, nn",
    ]
    if program.x64 is not None:
        lines.append(f'jax.config.update("jax_enable_x64", {program.x64})')
    lines += ["", "", program.body(), "", ""]
    for i, value in zip(program.inputs, values, strict=True):
        lines.append(f"{i.name} = jnp.asarray({literal(value)})")
    return "\n".join([*lines, *call, ""])
