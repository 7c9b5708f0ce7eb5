"""Solutions of equations, whose derivatives follow from the equation.

    root_p(*consts, *guess, arg=Root)            -> *x, *aux    where f(consts, x) = 0
    linear_solve_p(*consts, *b, arg=LinearSolve) -> *x, *aux    where A(consts) x = b

How they were found does not matter to a derivative. With dots for tangents,

    f(c, x) = 0   gives   (∂f/∂x) ẋ = −(∂f/∂c) ċ    by the user's tangent solver
    A(c) x = b    gives   A ẋ = ḃ − Ȧ x             a solve by the same matrix
                          b̄ = A⁻ᵀ x̄                 and one by its transpose

(Griewank, Walther: Evaluating derivatives, chapter 15). What comes beside the solution
has no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ftrace.errors import DerivativeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.body import (
    apply_body,
    chosen,
    close,
    linearize,
    or_zeros,
    placed,
    widen,
    with_lanes,
)
from ftrace.trace.calls.rule_graphs import Call, call_compound
from ftrace.trace.graph import Body, Flags, Node, Nodes
from ftrace.trace.primitives.elementwise import cast, neg, sub
from ftrace.trace.primitives.primitive import Batched, Results, items


def _change_of(body: Body, operands: Sequence[Node], moving: Results) -> Results:
    """The tangents of a body's outputs, where its first operands have these."""
    flags = tuple(t is not None for t in moving)
    rest = [False] * (len(operands) - len(flags))
    moved = linearize(body, (*flags, *rest))
    if not moved.wanted:
        return [None] * len(body.outputs)
    tangents = close([*body.inputs, *moved.names], moved.moved)
    given = [*operands, *chosen(moving, moved.moving[: len(flags)])]
    return placed(len(body.outputs), moved.wanted, apply_body(tangents, given))


# Roots.


@dataclass(frozen=True)
class Root(Call):
    """The argument of a root.

    Attributes:
      body: (consts, guess) -> (x, aux), the solver.
      residual: (consts, x) -> what is zero at a solution.
      tangent: (consts, x, y) -> the solution of (∂f/∂x) v = y; () where nobody will
        ask for it.
      consts: how many constants there are.
    """

    residual: Body
    tangent: tuple[Body, ...]
    consts: int

    def __str__(self) -> str:
        return f"consts={self.consts}"


def _jvp_root(node: Node, tangents: Results) -> Results:
    arg: Root = node.arg
    count = len(node.src) - arg.consts
    consts, results = node.src[: arg.consts], items(node)
    operands = [*consts, *results[:count]]
    residual = _change_of(arg.residual, operands, tangents[: arg.consts])
    if not any(residual):
        return [None] * len(results)
    given = map(or_zeros, residual, results)
    found = apply_body(arg.tangent[0], [*operands, *given])
    answer = [cast(neg(t), r.dtype) for t, r in zip(found, results, strict=False)]
    return placed(len(results), range(count), answer)


def _batch_root(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: Root = node.arg
    flags = list(batched[: arg.consts])
    count = len(src) - arg.consts
    many = [True] * count
    rows = zip(src[arg.consts :], batched[arg.consts :], strict=True)
    guess = [with_lanes(x, had, True, size) for x, had in rows]
    wide = replace(
        arg,
        body=widen(arg.body, [*flags, *many], size),
        residual=widen(arg.residual, [*flags, *many], size),
        tangent=tuple(widen(b, [*flags, *many, *many], size) for b in arg.tangent),
    )
    results = root_p.results(*src[: arg.consts], *guess, arg=wide)
    return results, [True] * len(results)


root_p = call_compound(
    "root", "a root of a function, with an implicit derivative", _batch_root,
    jvp=_jvp_root,
)  # fmt: skip


# Linear systems.


@dataclass(frozen=True)
class LinearSolve(Call):
    """The argument of a linear solve.

    Attributes:
      body: (consts, b) -> (x, aux), the solver.
      matvec: (consts, x) -> A x.
      transposed: `body` and `matvec` of the transpose of A; () if there are none.
      consts: how many constants there are.
    """

    matvec: Body
    transposed: tuple[Body, ...]
    consts: int

    def __str__(self) -> str:
        return f"consts={self.consts}"


def _jvp_solve(node: Node, tangents: Results) -> Results:
    arg: LinearSolve = node.arg
    consts, results = node.src[: arg.consts], items(node)
    count = len(node.src) - arg.consts
    change = _change_of(arg.matvec, [*consts, *results[:count]], tangents[: arg.consts])
    known = tangents[arg.consts :]
    rows = zip(known, change, node.src[arg.consts :], strict=True)
    right = [_difference(t, moved, like) for t, moved, like in rows]
    if not any(right):
        return [None] * len(results)
    given = map(or_zeros, right, node.src[arg.consts :])
    found = linear_solve_p.results(*consts, *given, arg=arg)
    answer = [cast(t, r.dtype) for t, r in zip(found[:count], results, strict=False)]
    return placed(len(results), range(count), answer)


def _difference(first: Node | None, second: Node | None, like: Node) -> Node | None:
    if second is None:
        return first
    second = cast(second, like.dtype)
    return neg(second) if first is None else sub(cast(first, like.dtype), second)


def _transpose_solve(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: LinearSolve = node.arg
    if any(linear[: arg.consts]):
        raise DerivativeError(
            "custom_linear_solve is transposed with respect to what its matvec closes "
            "over, in which it is not linear",
            node.origin,
        )
    if not arg.transposed:
        raise DerivativeError(
            "custom_linear_solve: reverse mode solves the transposed system; give it "
            "transpose_solve, or symmetric=True",
            node.origin,
        )
    count = len(node.src) - arg.consts
    solve, matvec = arg.transposed
    other = replace(arg, body=solve, matvec=matvec, transposed=(arg.body, arg.matvec))
    known = cotangents[:count]
    if not any(known):
        return [None] * len(node.src)
    given = map(or_zeros, known, items(node))
    found = linear_solve_p.results(*node.src[: arg.consts], *given, arg=other)
    rows = zip(found, node.src[arg.consts :], strict=False)
    return [*[None] * arg.consts, *[cast(ct, b.dtype) for ct, b in rows]]


def _batch_solve(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: LinearSolve = node.arg
    flags = [*batched[: arg.consts], *[True] * (len(src) - arg.consts)]
    rows = zip(src, batched, flags, strict=True)
    operands = [with_lanes(x, had, has, size) for x, had, has in rows]
    wide = replace(
        arg,
        body=widen(arg.body, flags, size),
        matvec=widen(arg.matvec, flags, size),
        transposed=tuple(widen(b, flags, size) for b in arg.transposed),
    )
    results = linear_solve_p.results(*operands, arg=wide)
    return results, [True] * len(results)


linear_solve_p = call_compound(
    "linear_solve", "the solution of a linear system, with an implicit derivative",
    _batch_solve, jvp=_jvp_solve, transpose=_transpose_solve,
)  # fmt: skip
