"""How a case is called: a mode is a function of a library, a program and arguments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

from docs.jax_names import MISSING, ROOTS, find
from tests.differential.cases import DERIVED, Case
from tests.differential.kinds import build

FLOAT0 = np.dtype([("float0", np.void, 0)])
#: What jit raises where a function needs values.
NEEDS_VALUES = ("ConcretizationTypeError", "TracerArrayConversionError",
                "NonConcreteBooleanIndexError")  # fmt: skip
#: So often is the same called again by ftrace, whose later calls are native records.
REPEATS = {"eager": 7, "jit": 7}


#: As how many devices the host is seen, in both, where there are several.
EIGHT = 8


class Missing(Exception):
    """A library has no function of that name."""


class Library:
    """jax or ftrace: its modules by name, `library.numpy.linalg`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.top = import_module(name)

    def __getattr__(self, name: str) -> Any:
        found = self.find(name)
        setattr(self, name, found)
        return found

    def find(self, name: str) -> Any:
        """What has a full name; a name of JAX's may stand in ftrace's alias alone."""
        module, _, last = name.rpartition(".")
        roots = ROOTS if self.name == "ftrace" else (self.name,)
        found = find(module, last, roots)
        if found is MISSING:
            raise Missing(name)
        return found

    def on_eight(self) -> AbstractContextManager[Any]:
        """The host as EIGHT devices. JAX has them from its first use on."""
        if self.name == "jax":
            return nullcontext()
        return self.top.config(cpu_devices=EIGHT)


def is_inexact(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(is_inexact(v) for v in value)
    if isinstance(value, (float, complex)):
        return True
    dtype = getattr(value, "dtype", None)
    return dtype is not None and (dtype.kind in "fc" or dtype == ml_dtypes.bfloat16)


def run(library: Library, case: Case) -> Any:
    """The result of a case; what it raises is raised."""
    given = case.arguments()
    if case.row.program is not None:
        program = case.row.program

        def function(*args: Any, **kwargs: Any) -> Any:
            return program(library, *args, **kwargs)

    else:
        function = library.find(case.row.name)
    values = [build(library, value) for _, value in given]
    traced = [i for i, (_, value) in enumerate(given) if value.traced]
    mode = MODES[case.mode]
    if case.mode in DERIVED:
        inexact = [i for i in traced if is_inexact(values[i])]
        others = [
            i for i in traced if case.mode != "jit_vmap_grad" or not given[i][1].mapped
        ]
        traced = inexact or others[:1] or traced
        if case.mode == "jit_vmap_grad":
            # What is mapped goes in as an argument, differentiated or not.
            rest = [i for i, (_, v) in enumerate(given) if v.mapped and i not in traced]
            traced = [*traced, *rest]
            inner = len(traced) - len(rest)
        else:
            inner = len(traced)
    else:
        inner = len(traced)

    def program_of(*arguments: Any) -> Any:
        whole = list(values)
        for i, argument in zip(traced, arguments, strict=True):
            whole[i] = argument
        positional = [
            v for v, (keyword, _) in zip(whole, given, strict=True) if keyword is None
        ]
        named = {k: v for v, (k, _) in zip(whole, given, strict=True) if k is not None}
        return function(*positional, **named)

    arguments = [values[i] for i in traced]
    mapped = [0 if given[i][1].mapped else None for i in traced]
    context = Context(library, case, mapped, inner)
    maps = case.mode == "vmap" and 0 in mapped
    if library.name == "jax" and (maps or case.mode in DERIVED):
        # One compilation in the place of one for each operation; a function that needs
        # values goes the slow way.
        try:
            return library.jit(partial(mode, context, program_of))(arguments)
        except tuple(getattr(library.errors, name) for name in NEEDS_VALUES):
            pass
    return mode(context, program_of, arguments)


class Context:
    """What a mode may need beside the program and its arguments."""

    def __init__(
        self, library: Library, case: Case, mapped: list[Any], inner: int
    ) -> None:
        self.library, self.case, self.mapped, self.inner = library, case, mapped, inner
        self.top = library.top

    def again(self, call: Callable[[], Any]) -> Any:
        """A call; ftrace's is repeated and gives the same bits."""
        result = call()
        if self.library.name == "jax":
            return result
        for _ in range(REPEATS[self.case.mode]):
            last = call()
        if _bits(self.top, last) != _bits(self.top, result):
            raise AssertionError("a later call gave another result")
        return result


def _bits(top: Any, result: Any) -> list[Any]:
    return [
        (np.asarray(x).dtype, np.asarray(x).tobytes())
        if hasattr(x, "dtype")
        else repr(x)
        for x in top.tree.leaves(result)
    ]


def eager(context: Context, f: Any, args: list[Any]) -> Any:
    return context.again(lambda: f(*args))


def jit(context: Context, f: Any, args: list[Any]) -> Any:
    jitted = context.top.jit(f)
    return context.again(lambda: jitted(*args))


def vmap(context: Context, f: Any, args: list[Any]) -> Any:
    if all(m is None for m in context.mapped):
        return f(*args)
    return context.top.vmap(f, in_axes=tuple(context.mapped))(*args)


def _scalar(context: Context, f: Any) -> Any:
    """The function whose result is one number: its leaves, weighted and added."""
    np_ = context.library.numpy

    def function(*args: Any) -> Any:
        leaves = context.top.tree.leaves(f(*args)) or [0.0]
        inexact = [leaf for leaf in leaves if is_inexact(leaf)]
        if not inexact:
            return np_.sum(leaves[0])
        total = 0.0
        for leaf in inexact:
            real = np_.real(leaf)
            weights = np.cos(np.arange(real.size)).reshape(real.shape)
            total = total + np_.sum(real * np_.asarray(weights, real.dtype))
        return total

    return function


def grad(context: Context, f: Any, args: list[Any]) -> Any:
    return context.top.grad(_scalar(context, f), argnums=tuple(range(len(args))))(*args)


def jit_vmap_grad(context: Context, f: Any, args: list[Any]) -> Any:
    top = context.top
    derivative = top.grad(_scalar(context, f), argnums=tuple(range(context.inner)))
    if all(m is None for m in context.mapped):
        return top.jit(derivative)(*args)
    return top.jit(top.vmap(derivative, in_axes=tuple(context.mapped)))(*args)


def _tangent(context: Context, leaf: Any) -> Any:
    """A tangent of a value, or a cotangent, as the case asks for it."""
    shape, dtype = np.shape(leaf), getattr(leaf, "dtype", None)
    inexact = is_inexact(leaf)
    if context.case.tangents == "integer":
        return 1 if shape == () else np.ones(shape, np.int32)
    if context.case.tangents == "python" and shape == ():
        return (1.1 + 0.3j if np.iscomplexobj(leaf) else 1.1) if inexact else 1
    if not inexact:
        return np.zeros(shape, FLOAT0)
    np_ = context.library.numpy
    weights = np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape)
    return np_.asarray(weights, dtype if dtype is not None else np_.asarray(leaf).dtype)


def _tangents(context: Context, values: Any) -> Any:
    return context.top.tree.map(lambda leaf: _tangent(context, leaf), values)


def jvp(context: Context, f: Any, args: list[Any]) -> Any:
    tangents = tuple(_tangents(context, a) for a in args)
    return context.top.jvp(f, tuple(args), tangents)


def vjp(context: Context, f: Any, args: list[Any]) -> Any:
    out, pull = context.top.vjp(f, *args)
    return out, pull(_tangents(context, out))


def linearize(context: Context, f: Any, args: list[Any]) -> Any:
    out, push = context.top.linearize(f, *args)
    return out, push(*(_tangents(context, a) for a in args))


def jacfwd(context: Context, f: Any, args: list[Any]) -> Any:
    return context.top.jacfwd(f, argnums=tuple(range(len(args))))(*args)


MODES: dict[str, Callable[[Context, Any, list[Any]], Any]] = {
    m.__name__: m
    for m in (eager, jit, vmap, grad, jit_vmap_grad, jvp, vjp, linearize, jacfwd)
}
