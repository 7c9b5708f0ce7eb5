"""Functions that know a derivative: autograd's transforms, on those of ftrace.

A transform calls the function with tracers of float64 in the place of its argument;
`if`, `float` and NumPy's scalars see their values. What comes back is NumPy's again.

    leaves of x  --ft.vjp-->  tracers in x's containers  --fun-->  leaves of the result

A `Primitive` is a function with rules of the user's: its own code is called with
values, whatever it does with them, and a rule makes the derivative of them.
"""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper
from itertools import count, islice
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ArgumentError, MissingRuleError, warn_user
from ftrace.trace.flatten_arguments import put
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import hide_scopes
from ftrace.trace.tracing.tracer import Tracer, stack

Box = Tracer
Maker = Callable[..., Any]

#: The scopes of forward transforms that are open, by identity.
_forward: set[int] = set()


def isbox(x: Any) -> bool:
    """Does it stand for a value while a derivative is taken?"""
    return type(x) is Tracer


def getval(x: Any) -> Any:
    """The value that a box stands for; others are their own."""
    return np.asarray(ft.lax.stop_gradient(x))[()] if isbox(x) else x


def holds_box(x: Any) -> bool:
    """Is it a box, or a list, tuple or dict with one in it?"""
    kind = type(x)
    if kind is Tracer:
        return True
    if kind is list or kind is tuple:
        return any(map(holds_box, x))
    return kind is dict and any(map(holds_box, x.values()))


def to_numpy(x: Any) -> Any:
    """NumPy's array or scalar in the place of ours; it may be changed."""
    return np.array(x)[()] if isinstance(x, ft.Array) and not isbox(x) else x


class Leaves:
    """The numbers in a container, and the way back.

    Attributes:
      values: those that derivatives are taken of, as arrays of floats.
    """

    def __init__(self, x: Any, only_boxes: bool = False) -> None:
        found, self.structure = tree.flatten(x)
        self.alone = len(found) == 1 and found[0] is x
        counts = self.alone and not only_boxes and _counts(x)
        chosen = isbox if only_boxes else _is_inexact
        self.others = list(found)
        self.places = [i for i, leaf in enumerate(found) if counts or chosen(leaf)]
        self.values = [_as_float(found[i]) for i in self.places]

    def rebuild(self, values: Sequence[Any]) -> Any:
        """The container with others in the places of the numbers."""
        leaves = put(self.others, self.places, map(to_numpy, values))
        return tree.unflatten(self.structure, leaves)

    def take(self, x: Any) -> list[Any]:
        """What stands in those places in another container, in their dtypes."""
        leaves = tree.leaves(x)
        if len(leaves) != len(self.others):
            wanted = tree.readable(self.structure)
            raise ArgumentError(f"a {wanted} is asked for, got {x!r:.80}")
        pairs = zip(self.places, self.values, strict=True)
        return [_like(leaves[place], value) for place, value in pairs]


def _is_inexact(x: Any) -> bool:
    return type(x) in (float, complex) or _kind_of(x) in "fc"


def _counts(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) or _kind_of(x) in "iu"


def _kind_of(x: Any) -> str:
    dtype = getattr(x, "dtype", None)
    return dtype.kind if isinstance(dtype, np.dtype) else "O"


def _as_float(x: Any) -> Any:
    if isbox(x):
        return x if x.dtype.kind in "fc" else x.astype(np.float64)
    array = np.asarray(x)
    small = array.dtype in (np.float32, np.complex64, np.float16)
    if small:
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _like(x: Any, other: Any) -> Any:
    """A cotangent or tangent in the dtype and the shape of what it belongs to."""
    if not holds_box(x):
        x = np.asarray(x)
    if np.iscomplexobj(x) and other.dtype.kind != "c":
        x = fnp.real(x)
    return fnp.broadcast_to(fnp.asarray(x, other.dtype), other.shape)


class _Traced:
    """A function of leaves, which notes how its result is built."""

    def __init__(self, fun: Callable[[Any], Any], leaves: Leaves, mode: str) -> None:
        self.fun, self.leaves, self.mode = fun, leaves, mode
        self.out: Leaves

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        scope = stack.scopes[-1]
        if self.mode == "forward":
            _forward.add(id(scope))
        try:
            result = self.fun(self.leaves.rebuild(values))
        finally:
            _forward.discard(id(scope))
        found = tree.leaves(result)
        if not any(isbox(x) and x.scope is scope for x in found):
            warn_user("Output seems independent of input.")
        # Whole numbers have no derivative: their values are the result.
        counted = [isbox(x) and x.dtype.kind not in "fc" for x in found]
        if any(counted):
            pairs = zip(found, counted, strict=True)
            found = [getval(x) if whole else x for x, whole in pairs]
            result = tree.unflatten(tree.structure(result), found)
        self.out = Leaves(result)
        return tuple(self.out.values)


def make_vjp(fun: Callable[[Any], Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """(vjp, fun(x)), where `vjp(g)` is g times the Jacobian: of the kind of x."""
    leaves = Leaves(x)
    traced = _Traced(fun, leaves, "reverse")
    with ft.config(jax_enable_x64=True):
        values, pull = ft.vjp(traced, *leaves.values)

    def vjp(g: Any) -> Any:
        with ft.config(jax_enable_x64=True):
            found = pull(tuple(traced.out.take(g)))
        return leaves.rebuild(found)

    return vjp, traced.out.rebuild(values)


def make_jvp(fun: Callable[[Any], Any], x: Any) -> Callable[[Any], tuple[Any, Any]]:
    """`jvp(v)` is (fun(x), the Jacobian times v)."""
    leaves = Leaves(x)

    def jvp(v: Any) -> tuple[Any, Any]:
        traced = _Traced(fun, leaves, "forward")
        with ft.config(jax_enable_x64=True):
            tangents = tuple(leaves.take(v))
            values, slopes = ft.jvp(traced, tuple(leaves.values), tangents)
        return traced.out.rebuild(values), traced.out.rebuild(slopes)

    return jvp


# Functions with rules of the user's.


class Primitive:
    """A function whose derivatives are given, by `defvjp` and `defjvp`.

    Attributes:
      vjp: `vjp(argnums, ans, args, kwargs)(g)` gives a gradient for each argument.
      jvp: `jvp(argnums, tangents, ans, args, kwargs)` gives the tangent of the result.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self.vjp: Maker | None = None
        self.jvp: Maker | None = None
        update_wrapper(self, fun)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        argnums = [i for i, x in enumerate(args) if holds_box(x)]
        if not argnums:
            return self.fun(*args, **kwargs)
        leaves = [Leaves(args[i], only_boxes=True) for i in argnums]
        boxes = [x for part in leaves for x in part.values]
        top = max(stack.scopes.index(box.scope) for box in boxes)
        forward = id(stack.scopes[top]) in _forward
        rules = self.jvp if forward else self.vjp
        if rules is None:
            kind = "JVP" if forward else "VJP"
            name = getattr(self, "__name__", self.fun)
            raise MissingRuleError(
                f"{kind} of {name} wrt argnums {argnums} not defined"
            )
        call = _Call(self, args, kwargs, argnums, leaves, top)
        if forward:
            function: Any = ft.custom_jvp(call.value)
            function.defjvp(call.tangents)
        else:
            function = ft.custom_vjp(call.value)
            function.defvjp(call.forward, call.backward)
        found = function(*boxes)
        return call.out.rebuild(list(found))


class _Call:
    """One call of a primitive: its arguments, which of them hold boxes, its rules."""

    out: Leaves

    def __init__(
        self,
        primitive: Primitive,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: list[int],
        leaves: list[Leaves],
        top: int,
    ) -> None:
        self.primitive, self.args, self.kwargs = primitive, args, kwargs
        self.argnums, self.leaves, self.top = argnums, leaves, top
        self.floor = stack.floor

    def _with(self, values: Sequence[Any]) -> list[Any]:
        return put(self.args, self.argnums, self._split(values))

    def _split(self, values: Sequence[Any]) -> Iterator[Any]:
        """The values, or tangents, of each argument, in its containers."""
        rest = iter(values)
        for part in self.leaves:
            yield part.rebuild([*islice(rest, len(part.places))])

    def value(self, *values: Any) -> tuple[Any, ...]:
        """The results, by the function itself where nothing is traced any more."""
        with hide_scopes(self.top, self.floor):
            self.out = Leaves(self.primitive(*self._with(values), **self.kwargs))
        return tuple(self.out.values)

    def forward(self, *values: Any) -> tuple[Any, Any]:
        found = self.value(*values)
        return found, (found, values)

    def backward(self, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        found, values = residuals
        ans = self.out.rebuild(found)
        g = self.out.rebuild(cotangents)
        assert self.primitive.vjp is not None
        args = tuple(self._with(values))
        pull = self.primitive.vjp(tuple(self.argnums), ans, args, self.kwargs)
        gradients: list[Any] = []
        for part, gradient in zip(self.leaves, pull(g), strict=True):
            gradients += part.take(gradient)
        return tuple(gradients)

    def tangents(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        found = self.value(*primals)
        ans = self.out.rebuild(found)
        assert self.primitive.jvp is not None
        args, parts = tuple(self._with(primals)), list(self._split(tangents))
        argnums = tuple(self.argnums)
        with hide_scopes(self.top, self.floor):
            slope = self.primitive.jvp(argnums, parts, ans, args, self.kwargs)
        return found, tuple(self.out.take(slope))


def primitive(fun: Callable[..., Any]) -> Primitive:
    """A function whose derivatives will be given: see `defvjp`."""
    return Primitive(fun)


def notrace_primitive(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is given the values of boxes, and has no derivative."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return fun(*map(getval, args), **kwargs)

    return update_wrapper(call, fun)


def register_notrace(trace_type: Any, primitive_fun: Primitive) -> None:
    """The function has no derivative: zero where one is asked for."""
    nothing = defjvp if trace_type is JVPNode else defvjp
    nothing(primitive_fun, *[None] * 16)


def defvjp_argnums(fun: Any, vjpmaker: Maker) -> None:
    """`vjpmaker(argnums, ans, args, kwargs)(g)` gives a gradient for each argument."""
    _own(fun).vjp = vjpmaker


def defvjp_argnum(fun: Any, vjpmaker: Maker) -> None:
    """`vjpmaker(argnum, ans, args, kwargs)(g)` gives the gradient of an argument."""

    def of_all(argnums: Sequence[int], *rest: Any) -> Callable[[Any], list[Any]]:
        pulls = [vjpmaker(argnum, *rest) for argnum in argnums]
        return lambda g: [pull(g) for pull in pulls]

    defvjp_argnums(fun, of_all)


def defvjp(fun: Any, *vjpmakers: Maker | None, argnums: Any = None) -> None:
    """`vjpmaker(ans, *args, **kwargs)(g)` gives an argument's gradient; None is 0."""
    rules = _by_argnum(fun, vjpmakers, argnums)

    def of_one(argnum: int, ans: Any, args: Any, kwargs: Any) -> Callable[[Any], Any]:
        rule = _rule_of(rules, argnum, fun, "VJP")
        if rule is None:
            return lambda g: VSpace(args[argnum]).zeros()
        return rule(ans, *args, **kwargs)

    defvjp_argnum(fun, of_one)


def defjvp_argnums(fun: Any, jvpmaker: Maker) -> None:
    """`jvpmaker(argnums, tangents, ans, args, kwargs)` gives the tangent."""
    _own(fun).jvp = jvpmaker


def defjvp_argnum(fun: Any, jvpmaker: Maker) -> None:
    """`jvpmaker(argnum, tangent, ans, args, kwargs)` gives its part of the tangent."""

    def of_all(argnums: Any, tangents: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        space, total = VSpace(ans), None
        for argnum, tangent in zip(argnums, tangents, strict=True):
            part = jvpmaker(argnum, tangent, ans, args, kwargs)
            total = part if total is None else space.add(total, part)
        return total

    defjvp_argnums(fun, of_all)


def defjvp(fun: Any, *jvpfuns: Maker | str | None, argnums: Any = None) -> None:
    """`jvpfun(tangent, ans, *args, **kwargs)` gives its part of the tangent.

    "same" is the function itself, which is linear in that argument; None is 0.
    """
    rules = _by_argnum(fun, jvpfuns, argnums)

    def of_one(argnum: int, tangent: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        rule = _rule_of(rules, argnum, fun, "JVP")
        if rule is None:
            return VSpace(ans).zeros()
        if rule == "same":
            return fun(*args[:argnum], tangent, *args[argnum + 1 :], **kwargs)
        return rule(tangent, ans, *args, **kwargs)

    defjvp_argnum(fun, of_one)


def def_linear(fun: Any) -> None:
    """The function is linear in each of its arguments."""
    defjvp_argnum(
        fun, lambda i, g, ans, args, kwargs: fun(*args[:i], g, *args[i + 1 :], **kwargs)
    )


def _own(fun: Any) -> Primitive:
    if not isinstance(fun, Primitive):
        raise ArgumentError(f"{fun!r:.80} is no function that was made by primitive()")
    return fun


def _by_argnum(fun: Any, rules: Sequence[Any], argnums: Any) -> dict[int, Any]:
    for rule in rules:
        if not (rule is None or callable(rule) or rule == "same"):
            raise ArgumentError(f"Bad rule {rule!r} for {fun.__name__!r}")
    return dict(zip(count() if argnums is None else argnums, rules, strict=False))


def _rule_of(rules: dict[int, Any], argnum: int, fun: Any, kind: str) -> Any:
    if argnum not in rules:
        name = getattr(fun, "__name__", fun)
        raise MissingRuleError(f"{kind} of {name} wrt argnum {argnum} not defined")
    return rules[argnum]


class VJPNode:
    """Names reverse mode: see `register_notrace`."""


class JVPNode:
    """Names forward mode: see `register_notrace`."""


def repeat_slope(ans: Any, x: Any, slope: Any) -> Callable[[Any], Any]:
    """The reverse rule of a function of each element, by its slope.

    An argument that is smaller than the value `ans` has been repeated.
    """
    shape = np.shape(ans)
    repeated = make_vjp(lambda x: fnp.broadcast_to(x, shape), x)[0]
    return lambda g: repeated(g * slope)


# Vectors.


class VSpace:
    """The space of values of one kind: of an array's shape and dtype, or containers.

    Attributes:
      shape: of an array; of a container the spaces of what is in it.
      size: how many real numbers a value consists of.
      iscomplex: has it complex numbers?
    """

    def __init__(self, value: Any) -> None:
        self.leaves = Leaves(value)
        kinds = [x.dtype.kind for x in self.leaves.values]
        self.iscomplex = "c" in kinds
        sizes = [
            int(np.prod(np.shape(x))) * (1 + (x.dtype.kind == "c"))
            for x in self.leaves.values
        ]
        self.size = sum(sizes)
        if self.leaves.alone:
            if not sizes:
                raise ArgumentError(f"Can't find vector space for value {value!r:.60}")
            self.shape: Any = np.shape(self.leaves.values[0])
            self.dtype: Any = self.leaves.values[0].dtype
            self.ndim = len(self.shape)
        else:
            self.shape = tree.map(
                lambda x: VSpace(x) if _is_inexact(x) else None, value
            )

    def _each(self, function: Callable[..., Any], *xs: Any) -> Any:
        rows = [self.leaves.take(x) for x in xs]
        found = [
            function(leaf, *parts)
            for leaf, *parts in zip(self.leaves.values, *rows, strict=True)
        ]
        return self.leaves.rebuild(found)

    def zeros(self) -> Any:
        """The value that is 0 everywhere."""
        return self._each(lambda x: np.zeros(x.shape, x.dtype))

    def ones(self) -> Any:
        """The value that is 1 everywhere; of complex numbers 1 + 1j."""
        one = {True: 1 + 1j, False: 1}
        return self._each(lambda x: np.full(x.shape, one[x.dtype.kind == "c"], x.dtype))

    def randn(self) -> Any:
        """A value of normal numbers, from NumPy's global generator."""

        def draw(x: Any) -> Any:
            parts = [np.array(np.random.randn(*x.shape)) for _ in range(2)]  # noqa: NPY002
            complex_ = x.dtype.kind == "c"
            return (parts[0] + 1j * parts[1] if complex_ else parts[0]).astype(x.dtype)

        return self._each(draw)

    def standard_basis(self) -> Iterator[Any]:
        """The values with a 1 in one place; of complex numbers also a 1j."""
        zero = [np.zeros(x.shape, x.dtype) for x in self.leaves.values]
        for i, part in enumerate(zero):
            for unit in (1, 1j)[: 1 + (part.dtype.kind == "c")]:
                for place in np.ndindex(part.shape):
                    one = part.copy()
                    one[place] = unit
                    yield self.leaves.rebuild(
                        [x[()] for x in zero[:i] + [one] + zero[i + 1 :]]
                    )

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self._each(lambda _, a, b: a + b, x, y)

    def mut_add(self, x: Any, y: Any) -> Any:
        """x + y, where x may be None; nothing is changed in place."""
        return y if x is None else self.add(x, y)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        """x times a number."""
        return self._each(lambda _, part: part * a, x)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """The real inner product."""
        rows = zip(self.leaves.take(x), self.leaves.take(y), strict=True)
        return to_numpy(sum(fnp.real(fnp.vdot(a, b)) for a, b in rows))

    def covector(self, x: Any) -> Any:
        """The functional that is the inner product with x."""
        return self._each(lambda _, part: fnp.conj(part), x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VSpace) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> Any:
        kinds = [(np.shape(x), str(x.dtype)) for x in self.leaves.values]
        return str(self.leaves.structure), tuple(kinds)

    def __repr__(self) -> str:
        return f"VSpace{self._identity()}"


def vspace(value: Any) -> VSpace:
    """The space that a value is in."""
    return VSpace(value)
