"""How a sampler runs: recorded where something is traced, evaluated where not.

A sampler is written as a function of traced arrays. The graph of an eager call is
cached, by the types of the operands and the static arguments, with what evaluates it:
NumPy's code first, compiled code if it pays.

    gauss(key)   ->   threefry, shifts, u - 1     exact: compiled, after some calls
                      u * 2 - 1, erf_inv          NumPy, or all of it compiled

A process that draws a few numbers shall not wait for a compiler. But the numbers of a
key must not change from one call to the next: so what is rounded is done by NumPy at
each call, or compiled from the first one on, which the size alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import signature
from typing import Any, TypeVar, cast as cast_to

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.settings import config
from ftrace.numpy.axes import bind_names, cast, check_sizes
from ftrace.numpy.elementwise import refuse_complex
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.avals import Shape
from ftrace.trace.backend import Program, backend
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.eager.composite import Composite, Tape, composite_of, exact_subgraph
from ftrace.trace.eager.function_objects import Eager
from ftrace.trace.evaluate import NumpyPlan
from ftrace.trace.graph import Graph, bodies_of, toposort
from ftrace.trace.tracing.scopes import asarray, current_scope, scope_of
from ftrace.trace.tracing.tracer import Tracer, aval_of, check_fits


def _native(graph: Graph) -> Eager:
    """What NumPy does for a graph of one output; its calls can become native."""
    composite = Composite(graph)

    def call(*arrays: Array) -> Array:
        return composite.run("random", arrays, arrays)

    return Eager(call, (np.integer,), __name__)


class Sampler(Composite):
    """One sampler for operands of certain types.

    A program may do what it begins with: its exact part, or all of it where that is
    compiled at the first call.
    """

    def __init__(self, graph: Graph) -> None:
        ends, exact = exact_subgraph(graph)
        size = max([n.size for n in (*ends, *graph.outputs)])
        # Compiled at the first call, or never: its last bits depend on it.
        loops = any(bodies_of(node.arg) for node in graph.nodes)
        large = size >= tiering.DRAWS_LARGE and len(ends) > 0
        at_once = (large or loops) and not exact
        super().__init__(graph)
        self.part = Graph(graph.inputs, graph.outputs if at_once or exact else ends)
        self._is_huge = size >= tiering.DRAWS_HUGE
        now = at_once or self._is_huge
        self._pays = tiering.pays_after(0) if now else tiering.draws_pay(graph, size)
        self._program: Program | None = None
        ends = self.part.outputs
        needed = set(toposort(graph.outputs, set(ends)))
        self._used = [i for i, n in enumerate(graph.inputs) if n in needed]
        inputs = [graph.inputs[i] for i in self._used]
        self._start = _native(self.part) if len(ends) == 1 else None
        self._go_on = _native(Graph((*inputs, *ends), graph.outputs))

    @cached_property
    def _part_plan(self) -> NumpyPlan:
        return NumpyPlan(self.part.outputs, self.part.inputs)

    def value(self, *given: Any) -> Any:
        program = self._compile()
        arrays = [Array.of(np.asarray(x)) for x in given]  # with all their bits
        if program:
            done = program(*given)
        elif self._start:
            done = [self._start(*arrays)]
        else:
            done = [Array.of(x) for x in self._part_plan(given)]
        if self.part.outputs != self.graph.outputs:
            done = [self._go_on(*[arrays[i] for i in self._used], *done)]
        return done[0].numpy()

    def run(self, name: str, arrays: Sequence[Array], given: Sequence[Any]) -> Array:
        # The device has what takes long, also if it is no device for small things.
        if self._is_huge and self._compile() is None:
            return backend().run_graph(self.graph, arrays)[0]
        return super().run(name, arrays, given)

    def note(self, tape: Tape, given: Sequence[Any], made: Array) -> None:
        if self.part.outputs:
            tape.note(self.value, given, made)
        else:
            super().note(tape, given, made)

    def _compile(self) -> Program | None:
        """The part's program; None if it is too soon or there is no compiler."""
        if self._program is None and not (self._pays() and self.part.outputs):
            return None
        self._program = self._program or backend().program_of(self.part)
        return self._program if backend().compiles() else None


Build = Callable[..., Tracer]


def draw(build: Build, *operands: Any, **statics: Any) -> Any:
    """`build(*operands, **statics)`, a function of traced values, as a value.

    In a function under a transform it is recorded also where no operand is traced:
    the numbers belong to the program, and asking for its shapes must not draw them.
    """
    scope = scope_of(operands) or current_scope()
    if scope is not None:
        return build(*[scope.wrap(scope.lift(x)) for x in operands], **statics)
    arrays = [asarray(x) for x in operands]
    # Numbers of NumPy are made of arguments that a record is for.
    pairs = zip(operands, arrays, strict=True)
    given = [a.numpy() if isinstance(x, np.generic) else a for x, a in pairs]
    name = f"random.{build.__name__.lstrip('_')}"
    return composite_of(Sampler, build, arrays, statics).run(name, arrays, given)


def word(x: int, dtype: np.dtype[Any]) -> Any:
    """A Python integer as an unsigned scalar.

    Raises:
      OverflowError: it is none.
    """
    if recording.tape is None:
        return _word(x, dtype)[()]
    made = Array.of(_word(x, dtype))
    recording.tape.note(_word, [x, dtype], made)
    return made


def _word(x: int, dtype: np.dtype[Any]) -> Any:
    if not 0 <= x < 1 << dtype.itemsize * 8:
        raise OverflowError
    return np.array(x, dtype)


F = TypeVar("F", bound=Callable[..., Any])


def sampler(
    kinds: str = "f",
    statics: tuple[str, ...] = (),
    shape_of: Callable[..., Shape] | None = None,
    own: Callable[..., np.dtype[Any]] | None = None,
) -> Callable[[F], F]:
    """The public function of a distribution, given how it draws.

        @sampler()
        def pareto(key, b, shape=None, dtype=None):
            return fnp.exp(exponential_of(key, shape, dtype) / b)

    Written is a function of a traced key, traced parameters in the dtype that is drawn,
    a shape to which they broadcast, and the dtype. It is called with what users give;
    other formulas take it out again, by `unwrap`.

    Args:
      kinds: of dtype that can be drawn; the default dtype is of the first.
      statics: arguments that are passed as they are.
      shape_of: (name, shape, *parameters) -> the shape; by default `common_shape`.
      own: (*parameters) -> the dtype that they are drawn in, if it is another one.
    """
    resolve = common_shape if shape_of is None else shape_of

    def decorate(function: F) -> F:
        name, parameters = function.__name__, signature(function)
        defaults = {n: x.default for n, x in parameters.parameters.items()}
        fixed = ("key", "shape", "dtype", *statics)
        names = [n for n in defaults if n not in fixed]

        def build(
            key: Tracer, *traced: Tracer, dtype: Any, kept: Any = None, **static: Any
        ) -> Tracer:
            given = [cast(x, kept or dtype) for x in traced]
            by_name = dict(zip(names, given, strict=True))
            return function(key, **by_name, dtype=dtype, **static)

        def call(*args: Any, **kwargs: Any) -> Any:
            given = {**defaults, **bind_names(function, parameters, args, kwargs)}
            dtype = check_dtype(name, given["dtype"], kinds)
            static = {n: given[n] for n in statics}
            kept = dtype
            if own is not None:
                kept = static["kept"] = own(*[given[n] for n in names])
            operands = [parameter(given[n], kept) for n in names]
            shape = resolve(name, given["shape"], *operands)
            key = check_key(name, given["key"])
            return draw(build, key, *operands, shape=shape, dtype=dtype, **static)

        build.__name__ = name
        return cast_to(F, update_wrapper(call, function))

    return decorate


# What the samplers ask of their arguments.


def check_key(name: str, key: Any) -> Any:
    """A single key, of either kind.

    Raises:
      ArgumentError: it is no key.
      ValueRangeError: it is an array of several keys.
    """
    shape = check_keys(name, key)
    if shape:
        raise errors.ValueRangeError(
            f"random.{name} takes a single key, got an array of keys of shape {shape}; "
            "use vmap to draw with each of them"
        )
    policy = "allow" if dtypes.is_key(key.dtype) else config.read("legacy_prng_key")
    if policy != "allow":
        text = (
            "Legacy uint32 key array passed as key to jax.random function, "
            f"random.{name}; random.key makes typed ones"
        )
        if policy == "error":
            raise errors.ValueRangeError(text)
        errors.warn_user(text)
    return key


def check_keys(name: str, key: Any, words: int = 0) -> Shape:
    """The shape of one or more keys; that of raw ones without the axis of words.

    Args:
      words: of each, where that is known.

    Raises:
      ArgumentError: it is neither a key nor a uint32 array of two or four words.
    """
    shape, dtype = getattr(key, "shape", None), getattr(key, "dtype", None)
    if shape is not None and dtypes.is_key(dtype):
        return shape
    sizes = (words,) if words else (2, 4)
    if dtype != dtypes.uint32 or not shape or shape[-1] not in sizes:
        got = f"{dtype} of shape {shape}" if shape is not None else f"{key!r:.60}"
        raise errors.ArgumentError(
            f"random.{name}: a key is required, made by random.key(seed) or "
            f"random.split, or a uint32 array whose last axis has size {sizes[0]}, "
            f"made by random.PRNGKey(seed); got {got}"
        )
    return shape[:-1]


def as_shape(name: str, shape: Any) -> Shape:
    """A shape as a tuple of Python integers."""
    return check_sizes(shape, f"random.{name}")


_WORDS = {
    "f": "float dtypes", "fc": "float or complex dtypes", "iu": "integer dtypes",
    "u": "unsigned integers",
}  # fmt: skip


def check_dtype(name: str, dtype: Any, kinds: str = "f") -> np.dtype[Any]:
    """A dtype of one of the kinds; None is the default dtype of the first of them.

    Raises:
      DtypeError: it is of another kind.
    """
    default = dtypes.default_dtype(kinds[0])
    found = default if dtype is None else dtypes.as_dtype(dtype)
    if dtypes.kind(found) not in kinds:
        raise errors.DtypeError(f"random.{name} draws {_WORDS[kinds]}, got {found}")
    return found


def parameter(x: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number in the dtype that is drawn; arrays as they are."""
    if type(x) in (bool, int, float):
        check_fits(x, dtype)
        return np.asarray(x).astype(dtype)[()]
    refuse_complex("random: a parameter", x)
    return x


def drawn_dtype(x: Any) -> np.dtype[Any]:
    """The float dtype drawn beside a parameter: the default for any number."""
    aval = aval_of(x)
    kept = dtypes.is_float(aval.dtype) and not aval.weak_type
    return aval.dtype if kept else dtypes.default_dtype("f")


def common_shape(name: str, shape: Any, *parameters: Any) -> Shape:
    """The shape asked for, or by default that of the parameters.

    Raises:
      ShapeError: the parameters do not broadcast to it.
    """
    shapes: Sequence[Shape] = [aval_of(x).shape for x in parameters]
    if shape is None and shapes:
        return broadcast_shapes(f"random.{name}", shapes)
    shape = as_shape(name, shape)
    if broadcast_shapes(f"random.{name}", [shape, *shapes]) != shape:
        raise errors.ShapeError(
            f"random.{name}: parameters of shapes {shapes} do not broadcast to shape "
            f"{shape}"
        )
    return shape
