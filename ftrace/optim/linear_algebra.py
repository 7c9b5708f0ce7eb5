"""Eigenvalues, roots of matrices and least squares, by iterations."""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from functools import partial
from typing import Any

import ftrace.numpy as fnp
from ftrace import lax, random
from ftrace.errors import ArgumentError, ShapeError
from ftrace.optim import tree as trees

Tree = Any


def _unit(x: Tree) -> Tree:
    return trees.scale(1.0 / trees.norm(x), x)


def power_iteration(
    matrix: Any, *, v0: Tree = None, num_iters: Any = 100, error_tolerance: Any = 1e-6,
    precision: Any = lax.Precision.HIGHEST, key: Any = None,
) -> tuple[Any, Tree]:  # fmt: skip
    """(the eigenvalue of greatest magnitude, an eigenvector of length 1).

    Args:
      matrix: of shape (n, n), symmetric; or the function that multiplies by it.
      v0: where to begin, by default at random.
      num_iters: how many products at most.
      error_tolerance: of the residual, relative to the eigenvalue.
      precision: of products.
      key: of the random begin.

    Raises:
      ArgumentError: `matrix` is a function, and `v0` is not given.

    Example:
      >>> from ftrace import optim
      >>> value, vector = optim.power_iteration(fnp.array([[3.0, 0.0], [0.0, 1.0]]))
      >>> fnp.round(value, 3)
      Array(3., dtype=float32)
    """
    multiply: Any = matrix
    if not hasattr(matrix, "shape"):
        if v0 is None:
            raise ArgumentError("power_iteration: of a function v0 must be given")
    else:
        multiply = partial(fnp.matmul, matrix, precision=precision)
    if v0 is None:
        key = random.PRNGKey(0) if key is None else key
        v0 = random.uniform(key, matrix.shape[-1:], matrix.dtype, -1.0, 1.0)
    v0 = _unit(v0)

    def more(carry: Any) -> Any:
        vector, product, value, count = carry
        error = trees.norm(trees.add_scale(product, -value, vector))
        return ~(fnp.abs(error / value) < error_tolerance) & (count < num_iters)

    def step(carry: Any) -> Any:
        vector = _unit(carry[1])
        product = multiply(vector)
        return vector, product, trees.vdot(vector, product), carry[3] + 1

    start = v0, multiply(v0), fnp.zeros((), trees.dtype(v0, "promote")), 0
    _, product, value, _ = lax.while_loop(more, step, start)
    return value, _unit(product)


def matrix_inverse_pth_root(
    matrix: Any, p: Any, num_iters: Any = 100, ridge_epsilon: Any = 1e-6,
    error_tolerance: Any = 1e-6, precision: Any = lax.Precision.HIGHEST,
) -> tuple[Any, Any]:  # fmt: skip
    """(matrix to the power -1/p, what is left as an error).

    Args:
      matrix: symmetric and positive.
      p: 1, 2, 4 or 8.
      num_iters: how many steps at most.
      ridge_epsilon: times the greatest eigenvalue is added to all of them.
      error_tolerance: where to stop.
      precision: of products.

    Source: C.-H. Guo, N. Higham, "A Schur-Newton method for the matrix pth root", 2006.

    Example:
      >>> a = fnp.diag(fnp.array([4.0, 9.0]))
      >>> root, error = ft.optim.matrix_inverse_pth_root(a, 2)
      >>> fnp.round(root, 3)
      Array([[0.5  , 0.   ],
             [0.   , 0.333]], dtype=float32)
    """
    product = partial(fnp.matmul, precision=precision)
    alpha, size = fnp.asarray(-1.0 / p, "float32"), matrix.shape[0]
    ridge = ridge_epsilon * fnp.maximum(power_iteration(matrix)[0], 1e-16)
    if size == 1:
        return (matrix + ridge) ** alpha, 0
    one = fnp.eye(size, dtype="float32")

    def power(times: int, x: Any) -> Any:
        for _ in range(times):
            x = product(x, x)
        return x

    powers = [partial(power, times) for times in range(4)]
    exponent = fnp.round(fnp.log2(p)).astype("int32")

    def more(carry: Any) -> Any:
        count, _, _, _, error, better = carry
        return (count < num_iters) & (error > error_tolerance) & better

    def step(carry: Any) -> Any:
        count, rest, root, _, error, _ = carry
        factor = (1 - alpha) * one + alpha * rest
        rest = product(lax.switch(exponent, powers, factor), rest)
        now = fnp.max(fnp.abs(rest - one))
        return count + 1, rest, product(root, factor), root, now, now < error * 1.2

    damped = matrix + ridge * one
    z = (1 + p) / (2 * fnp.linalg.norm(damped))
    rest, root = damped * z, one * fnp.power(z, 1.0 / p)
    start = 0, rest, root, root, fnp.max(fnp.abs(rest - one)), True
    _, rest, root, before, _, better = lax.while_loop(more, step, start)
    found = fnp.where(better, root, before).astype(matrix.dtype)
    return found, fnp.max(fnp.abs(rest - one))


def nnls(A: Any, b: Any, iters: int, unroll: int | bool = 1, L: Any = None) -> Any:
    """x >= 0 with the least |A x - b|, by Nesterov's gradient method.

    Args:
      A: of shape (m, n).
      b: (m,) or (m, k).
      iters: how many steps.
      unroll: as that of `lax.scan`.
      L: a bound of the greatest eigenvalue of A'A, which is estimated by default.

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> from ftrace import optim
      >>> a = fnp.array([[1.0, 0.0], [0.0, 1.0]])
      >>> fnp.round(optim.nnls(a, fnp.array([2.0, -1.0]), iters=100), 3)
      Array([2., 0.], dtype=float32)
    """
    if A.ndim != 2 or b.ndim not in (1, 2) or len(A) != len(b):
        raise ShapeError(f"nnls takes (m, n) and (m,) or (m, k): {A.shape}, {b.shape}")
    square, right = A.mT @ A, A.mT @ b
    bound = L
    if bound is None:
        most = fnp.linalg.norm(square, 1) if square.size else 0
        bound = fnp.minimum(fnp.linalg.norm(square), most)
    rate = fnp.where(bound == 0, 1, bound)

    def step(carry: Any, _: Any) -> Any:
        x, ahead, weight = carry
        later = (1 + fnp.sqrt(1 + 4 * weight**2)) / 2
        now = (ahead - (square @ ahead - right) / rate).clip(0)
        return (now, now + (weight - 1) / later * (now - x), later), None

    zero = fnp.zeros_like(right)
    weight = fnp.zeros((), zero.dtype)
    return lax.scan(step, (zero, zero, weight), length=iters, unroll=unroll)[0][0]
