"""Functions of functions: solvers with implicit derivatives, marks, and choices.

How a solution was found does not matter to its derivative. What JAX's `lax` has to say
how a function is compiled: `composite`, `dce_sink`, `platform_dependent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from ftrace import dtypes, errors
from ftrace.backends.base import get_device
from ftrace.lax.control import close_over
from ftrace.trace.avals import ShapedArray
from ftrace.trace.bind import bind
from ftrace.trace.body import close
from ftrace.trace.calls.custom_call import pair_of, zeros_of
from ftrace.trace.calls.custom_derivative import Ruled, custom_jvp_p, linear_call_p
from ftrace.trace.calls.rule_graphs import Rule, captured_by_rules
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.graph import Body, Flags, Graph
from ftrace.trace.primitives.elementwise import cast_p
from ftrace.trace.primitives.sources import variable
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.scopes import open_scopes
from ftrace.trace.tracing.tracer import Function, Value, aval_of
from ftrace.transforms import trace_body as bodies
from ftrace.transforms.custom.custom_derivatives import custom_jvp
from ftrace.transforms.grad import jvp, linear_transpose
from ftrace.transforms.jit.compiled_graph import apply_graph
from ftrace.transforms.trace_body import TracedBody

__all__ = [
    "composite", "custom_linear_solve", "custom_root", "dce_sink",
    "platform_dependent",
]  # fmt: skip


def custom_root(
    f: Function,
    initial_guess: Any,
    solve: Function,
    tangent_solve: Function,
    has_aux: bool = False,
) -> Any:
    """A root of `f`, differentiable in what `f` closes over, in both modes.

    Args:
      f: of a pytree of arrays to one of the same structure, shapes and dtypes.
      initial_guess: where `solve` begins; the solution does not vary with it.
      solve: (f, initial_guess) -> x where f(x) is zero; it is not differentiated.
      tangent_solve: (g, y) -> the solution of g(x) = y, for a linear `g`; linear in
        `y`. For a scalar `lambda g, y: y / g(1.0)`.
      has_aux: `solve` returns (x, aux); so does this function. aux is constant.

    Returns:
      A tree like the guess; and aux with `has_aux`.

    Raises:
      TreeError, ShapeError: what a function returned is not built like the guess.

    Example:
      >>> def cube_root(a):
      ...     f = lambda x: x**3 - a
      ...     newton = lambda f, x: lax.fori_loop(
      ...         0, 20, lambda i, x: x - f(x) / ft.grad(f)(x), x)
      ...     return lax.custom_root(f, 1.0, newton, lambda g, y: y / g(1.0))
      >>> float(cube_root(8.0)), float(ft.grad(cube_root)(8.0))  # 1/(3·2²)
      (2.0, 0.0833333358168602)
    """
    what = "custom_root"
    problem = _Problem(what, initial_guess, "initial_guess")
    residual = problem.settle(f, "f")
    solver = problem.solver(partial(solve, f), "solve", has_aux)
    traced = [solver, residual]
    if open_scopes():  # else nobody takes a derivative

        def tangents(x: Any, y: Any) -> Any:
            def linear(v: Any) -> Any:
                return jvp(f, (x,), (v,))[1]

            return tangent_solve(linear, y)

        traced.append(problem.trace(tangents, "tangent_solve", copies=2))

    return problem.apply(_root, traced, has_aux)


def _root(parts: Sequence[Body], operands: Sequence[Value], count: int) -> list[Any]:
    """The root, and what comes beside it; so many operands are the guess.

    With dots for tangents, f(c, x) = 0 gives (∂f/∂x) ẋ = −(∂f/∂c) ċ.
    """
    first = len(operands) - count

    def tangents(mask: Flags, flat: Sequence[Value]) -> list[Value]:
        operands = flat[: len(mask)]
        found = _root(parts, operands, count)
        known = [*operands[:first], *found[:count]]
        change = _change(parts[1], known, mask[:first], flat[len(mask) :])
        moved: list[Value] = []
        if change:
            moved = [-t for t in _run(parts[2], [*known, *change])]
        return _with_tangents(found, moved)

    axes, body = _with_axes(parts[0])
    return _apply_rule("custom_root", parts, axes, body, tangents, operands)


def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution x of matvec(x) = b, differentiable in `b` and in the matrix.

    Args:
      matvec: a linear function of a pytree like `b`; it may close over what is
        differentiated.
      b: a pytree of arrays.
      solve: (matvec, b) -> x; it is not differentiated.
      transpose_solve: (vecmat, b) -> x, by the transpose of `matvec`: for reverse mode.
      symmetric: `matvec` is its own transpose; `solve` is then the default of
        `transpose_solve`.
      has_aux: the solvers return (x, aux); so does this function. aux is constant.

    Returns:
      A tree like `b`; and aux with `has_aux`.

    Raises:
      TreeError, ShapeError: what a function returned is not built like `b`.
      DerivativeError: in reverse mode, without a transposed solver.

    Example:
      >>> A = fnp.array([[2.0, 0.0], [0.0, 4.0]])
      >>> def solve(b):
      ...     jacobi = lambda matvec, b: b / fnp.diag(A)
      ...     return lax.custom_linear_solve(lambda x: A @ x, b, jacobi, symmetric=True)
      >>> solve(fnp.array([2.0, 2.0]))
      Array([1. , 0.5], dtype=float32)
      >>> ft.grad(lambda b: solve(b).sum())(fnp.ones(2))
      Array([0.5 , 0.25], dtype=float32)
    """
    what = "custom_linear_solve"
    problem = _Problem(what, b, "b")
    product = problem.settle(matvec, "matvec")
    traced = [problem.solver(partial(solve, matvec), "solve", has_aux), product]
    if symmetric and transpose_solve is None:
        traced += traced
    elif transpose_solve is not None and open_scopes():

        def vecmat(x: Any) -> Any:
            return matvec(x) if symmetric else linear_transpose(matvec, x)(x)[0]

        backwards = problem.solver(
            partial(transpose_solve, vecmat), "transpose_solve", has_aux
        )
        traced += [backwards, problem.trace(vecmat, "the transpose of matvec")]

    return problem.apply(_solution, traced, has_aux)


def _solution(
    parts: Sequence[Body], operands: Sequence[Value], count: int
) -> list[Any]:
    """The solution, and what comes beside it; so many operands are the right side.

    With dots for tangents, A x = b gives A ẋ = ḃ − Ȧ x and b̄ = A⁻ᵀ x̄.

    Args:
      parts: the solver and the product, of what they close over and of a vector; and
        those of the transposed system, if there are any.
    """
    what, first = "custom_linear_solve", len(operands) - count
    solver, product, *others = parts

    def cotangents(mask: Flags, flat: Sequence[Value]) -> list[Value]:
        if not others:
            raise errors.DerivativeError(
                f"{what}: reverse mode solves the transposed system; give it "
                "transpose_solve, or symmetric=True"
            )
        given = iter(flat[first:])
        pairs = zip(mask, solver.outputs[:count], strict=False)
        cts = [next(given) if has else zeros_of(n.aval) for has, n in pairs]
        return _solution([*others, *parts[:2]], [*flat[:first], *cts], count)[:count]

    def tangents(mask: Flags, flat: Sequence[Value]) -> list[Value]:
        operands, dots = flat[: len(mask)], flat[len(mask) :]
        free, right = operands[:first], operands[first:]
        found = _solution(parts, operands, count)
        change = _change(product, [*free, *found[:count]], mask[:first], dots)
        given = iter(dots[sum(mask[:first]) :])
        moved = [
            next(given) if has else zeros_of(aval_of(x))
            for x, has in zip(right, mask[first:], strict=True)
        ]
        if change:
            change = [_as_type_of(t, x) for t, x in zip(change, right, strict=True)]
            moved = [t - other for t, other in zip(moved, change, strict=True)]
        return _with_tangents(found, _solution(parts, [*free, *moved], count)[:count])

    axes, body = _with_axes(solver)
    avals = tuple([n.aval for n in body.inputs])
    rule = Rule(what, tuple(parts), cotangents, axes)
    linear = Ruled(body, False, what, avals, len(axes) + first, (rule,))
    whole = linear_call_p.results(*body.inputs, arg=linear)
    body = Body(body.inputs, tuple(whole))
    return _apply_rule(what, parts, axes, body, tangents, operands)


def _with_axes(body: Body) -> tuple[tuple[Value, ...], Body]:
    """What rules use of the axes that have names here, and a body that has it first."""
    axes = tuple(captured_by_rules([]))
    names = [variable(aval_of(x), "axis", i) for i, x in enumerate(axes)]
    return axes, close([*names, *body.inputs], body.outputs)


def _apply_rule(
    what: str, key: Sequence[Body], axes: tuple[Value, ...], body: Body,
    tangents: Function, operands: Sequence[Value],
) -> list[Any]:  # fmt: skip
    """The results of a body whose tangents are what a function of flat values says."""
    avals = tuple([n.aval for n in body.inputs])
    rule = Rule(what, tuple(key), tangents, axes)
    arg = Ruled(body, False, what, avals, len(axes), (rule,))
    return bodies.apply_compound(
        what, custom_jvp_p, arg, [*axes, *operands],
        lambda nodes: bodies.match_all(nodes, avals),
    )  # fmt: skip


def _run(body: Body, values: Sequence[Value]) -> list[Any]:
    return apply_graph(Graph(body.inputs, body.outputs), values)


def _change(
    body: Body, values: Sequence[Value], mask: Flags, dots: Sequence[Value]
) -> list[Any]:
    """The tangents of a body where those of its first inputs are these; [] is zero."""
    moving = [i for i, has in enumerate(mask) if has]

    def of_moving(*given: Value) -> Any:
        full = dict(enumerate(values)) | dict(zip(moving, given, strict=True))
        return _run(body, [*full.values()])

    primals = [values[i] for i in moving]
    return jvp(of_moving, primals, dots[: len(moving)])[1] if moving else []


def _with_tangents(found: Sequence[Value], moved: Sequence[Value]) -> list[Value]:
    """A solution and its tangents; what comes beside it does not vary."""
    known = [_as_type_of(t, x) for t, x in zip(moved, found, strict=False)]
    rest = [aval_of(x) for x in found[len(moved) :]]
    zeros = [zeros_of(a) for a in rest if dtypes.is_inexact(a.dtype)]
    return [*found, *known, *zeros]


def _as_type_of(tangent: Value, like: Value) -> Value:
    return bind(cast_p, tangent, arg=(aval_of(like).dtype, False))


class _Problem:
    """An equation, whose unknown has one structure throughout.

    Attributes:
      values: the guess or the right side, flat.
      avals: the types of the solution.
    """

    def __init__(self, what: str, given: Any, name: str) -> None:
        self.what = what
        self.name = name
        self.values, self.treedef = flatten_values((given,), f"{what}: {name} ")
        self.structure = tree.structure(given)
        self.names = bodies.leaf_names(name, given)
        self.avals: list[ShapedArray] = [aval_of(x) for x in self.values]

    def settle(self, function: Function, name: str) -> TracedBody:
        """The graph of `x -> something like x`; weak numbers become what it returns."""
        while True:
            traced = self.trace(function, name)
            found = bodies.next_types(
                f"{self.what}: {name}", self.avals, traced.draft.outputs, self.names
            )
            if found == self.avals:
                return traced
            self.avals = found

    def trace(self, function: Function, name: str, copies: int = 1) -> TracedBody:
        """The graph of a function of so many trees like x to another one.

        Raises:
          ArgumentError: it has effects.
        """
        tree.check_callable(function, self.what)
        args = (tree.unflatten(self.structure, self.values),) * copies
        where = f"{self.what}: {name}"
        types = self.avals * copies
        traced = bodies.trace_function(where, function, tree.structure(args), types)
        if traced.draft.effects:
            raise errors.ArgumentError(
                f"{where} has effects (debug.print, io_callback), which would happen "
                "at no definite time; take them out of it"
            )
        self._check(where, traced.treedef, [n.aval for n in traced.draft.outputs])
        return traced

    def solver(self, function: Function, name: str, has_aux: bool) -> TracedBody:
        """The graph of b -> (x, aux)."""
        if not has_aux:
            return self.trace(function, name)
        where = f"{self.what}: {name}"
        message = f"{where} must return a pair (x, aux) with has_aux=True"

        def solve(given: Any) -> Any:
            return pair_of(function(given), message, function)

        traced = bodies.trace_function(where, solve, self.treedef, self.avals)
        count, outputs = len(self.avals), traced.draft.outputs
        first = tree.structure(tree.unflatten(traced.treedef, outputs)[0])
        self._check(where, first, [n.aval for n in outputs[:count]])
        return traced

    def _check(
        self, where: str, got: tree.TreeDef, types: Sequence[ShapedArray]
    ) -> None:
        if got != self.structure:
            raise errors.TreeError(
                f"{where} must return the structure of {self.name}, "
                f"{tree.readable(self.structure)}, got {tree.readable(got)}"
            )
        for name, mine, aval in zip(self.names(), self.avals, types, strict=True):
            if not same_size(aval.shape, mine.shape):
                raise errors.ShapeError(
                    f"{where} must return the shapes of {self.name}: {name} is "
                    f"{mine!r}, got {aval!r}"
                )

    def apply(
        self, solved: Function, traced: Sequence[TracedBody], has_aux: bool
    ) -> Any:
        """The solution, and aux where there is one."""
        free, places = bodies.distinct([t.draft.values for t in traced])
        closed: list[Body] = []
        count = len(self.avals)
        for t, mine in zip(traced, places, strict=True):
            consts, _, _ = close_over(t, mine, free, False)
            outputs = [
                *bodies.match_all(t.draft.outputs[:count], self.avals),
                *t.draft.outputs[count:],
            ]
            closed.append(close([*consts, *t.draft.arguments], outputs))
        results = solved(closed, [*free, *self.values], count)
        if not has_aux:
            return tree.unflatten(self.structure, results)
        return tuple(tree.unflatten(traced[0].treedef, results))


def composite(
    decomposition: Callable[..., Any], name: str, version: int = 0
) -> Callable[..., Any]:
    """`decomposition`, which is known by a name: `f(*arrays, **attributes)`.

    Compilers that know an operation of that name may do it by themselves; this one
    does what the function does. It has no derivative: `custom_jvp` gives it one.

    Args:
      decomposition: a function of arrays, and of attributes by keyword.
      name: of the operation.
      version: of its meaning.

    Example:
      >>> f = lax.composite(lambda x, *, scale: x * scale, "my.scale")
      >>> f(fnp.array([1.0, 2.0]), scale=3.0)
      Array([3., 6.], dtype=float32)
    """
    tree.check_callable(decomposition, "lax.composite")

    def refuse(primals: Any, tangents: Any) -> Any:
        raise errors.DerivativeError(
            f"JVP rule for composite {name!r} not implemented; give a function that "
            "calls it a rule with custom_jvp"
        )

    @wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        made = custom_jvp(partial(decomposition, **attributes))
        made.defjvp(refuse)
        return made(*args)

    return call


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Counts the arrays of a tree as used. Nothing is computed for it.

    Args:
      val: a pytree of arrays.
      prevent_mlir_dce: accepted, without effect.

    Raises:
      ArgumentError: a leaf is no array.

    Example:
      >>> lax.dce_sink(fnp.ones(2))
    """
    flatten_values(val, "dce_sink: the operand ")


#: What JAX calls the platforms of our devices.
_PLATFORMS = {"cpu": "cpu", "interpreter": "cpu", "opencl": "opencl"}


def platform_dependent(
    *args: Any,
    default: Callable[..., Any] | None = None,
    **per_platform: Callable[..., Any],
) -> Any:
    """`per_platform[platform](*args)`, of the default device when this is called.

    Under jit that is when the function is traced: the branches must be ways to compute
    one and the same.

    Args:
      args: arrays, or pytrees of them.
      default: the branch of all other platforms.
      per_platform: branches by platform: "cpu", "opencl"; others are never taken.

    Returns:
      What the branch returns.

    Raises:
      ArgumentError: a branch is no function.
      DeviceError: there is no branch for this platform.

    Example:
      >>> lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x - 1)
      3.0
    """
    for name, branch in {**per_platform, "default": default}.items():
        if branch is not None or name != "default":
            tree.check_callable(branch, f"lax.platform_dependent: {name}")
    if "gpu" in per_platform:
        raise errors.ArgumentError(
            "lax.platform_dependent: write opencl= (in JAX cuda= or rocm=), not gpu="
        )
    device = get_device(None).name
    chosen = per_platform.get(_PLATFORMS.get(device, device), default)
    if chosen is None:
        raise errors.DeviceError(
            f"lax.platform_dependent: no branch for the device {device!r}; give "
            "default="
        )
    return chosen(*args)
