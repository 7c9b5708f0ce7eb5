"""Projections onto convex sets: of a tree the nearest one that lies in a set."""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace import lax, nn
from ftrace.flatten_util import ravel_pytree
from ftrace.optim import tree as trees

Tree = Any


def projection_non_negative(tree: Tree) -> Tree:
    """Onto x >= 0.

    Args:
      tree: of arrays.

    Example:
      >>> from ftrace.optim import projections
      >>> projections.projection_non_negative(fnp.array([-1.0, 2.0]))
      Array([0., 2.], dtype=float32)
    """
    return trees.map(nn.relu, tree)


def projection_box(tree: Tree, lower: Any, upper: Any) -> Tree:
    """Onto lower <= x <= upper: numbers, or trees of the same structure.

    Args:
      tree: of arrays.
      lower, upper: numbers, or trees like it.

    Example:
      >>> ft.optim.projections.projection_box(fnp.array([-1.0, 0.5, 2.0]), 0.0, 1.0)
      Array([0. , 0.5, 1. ], dtype=float32)
    """

    def spread(bound: Any) -> Tree:
        one = trees.structure(bound) != trees.structure(tree)
        return trees.map(lambda x: bound, tree) if one else bound

    return trees.map(fnp.clip, tree, spread(lower), spread(upper))


def projection_hypercube(tree: Tree, scale: Any = 1) -> Tree:
    """Onto 0 <= x <= scale.

    Args:
      tree: of arrays.
      scale: the upper bound.

    Example:
      >>> ft.optim.projections.projection_hypercube(fnp.array([-1.0, 0.5, 2.0]))
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    return projection_box(tree, 0, scale)


def projection_linf_ball(tree: Tree, scale: Any = 1) -> Tree:
    """Onto |x| <= scale, element by element.

    Args:
      tree: of arrays.
      scale: the bound.

    Example:
      >>> ft.optim.projections.projection_linf_ball(fnp.array([3.0, -0.5]))
      Array([ 1. , -0.5], dtype=float32)
    """
    return projection_box(tree, -scale, scale)


def projection_simplex(tree: Tree, scale: Any = 1) -> Tree:
    """Onto x >= 0 whose sum is `scale`.

    Source: J. Duchi et al., "Efficient projections onto the l1-ball", 2008. Which
    elements are positive is a constant of the derivative.

    Args:
      tree: of arrays, whose elements count together.
      scale: their sum.

    Example:
      >>> from ftrace.optim import projections
      >>> projections.projection_simplex(fnp.array([1.0, 1.0, -5.0]))
      Array([0.5, 0.5, 0. ], dtype=float32)
    """
    values, unravel = ravel_pytree(tree)
    sizes = fnp.arange(1, values.size + 1)
    ordered = fnp.sort(values)[::-1]
    fits = ordered * sizes > fnp.cumsum(ordered) - scale
    some = values >= fnp.min(fnp.where(fits, ordered, fnp.inf))
    excess = (fnp.sum(fnp.where(some, values, 0)) - scale) / fnp.sum(some)
    return unravel(fnp.where(some, nn.relu(values - excess), 0))


def projection_l1_sphere(tree: Tree, scale: Any = 1) -> Tree:
    """Onto Σ|x| = scale.

    Args:
      tree: of arrays, whose elements count together.
      scale: the radius.

    Example:
      >>> ft.optim.projections.projection_l1_sphere(fnp.array([3.0, 1.0]))
      Array([1., 0.], dtype=float32)
    """
    near = projection_simplex(trees.map(fnp.abs, tree), scale)
    return trees.mul(trees.map(fnp.sign, tree), near)


def projection_l1_ball(tree: Tree, scale: Any = 1) -> Tree:
    """Onto Σ|x| <= scale.

    Args:
      tree: of arrays, whose elements count together.
      scale: the radius.

    Example:
      >>> ft.optim.projections.projection_l1_ball(fnp.array([3.0, 1.0]))
      Array([1., 0.], dtype=float32)
    """
    inside = trees.norm(tree, 1) <= scale
    return lax.cond(inside, lambda x: x, lambda x: projection_l1_sphere(x, scale), tree)


def projection_l2_sphere(tree: Tree, scale: Any = 1) -> Tree:
    """Onto the sphere of radius `scale`.

    Args:
      tree: of arrays, whose elements count together.
      scale: the radius.

    Example:
      >>> ft.optim.projections.projection_l2_sphere(fnp.array([3.0, 4.0]))
      Array([0.6, 0.8], dtype=float32)
    """
    return trees.scale(scale / trees.norm(tree), tree)


def projection_l2_ball(tree: Tree, scale: Any = 1) -> Tree:
    """Onto the ball of radius `scale`.

    Args:
      tree: of arrays, whose elements count together.
      scale: the radius.

    Example:
      >>> from ftrace.optim import projections
      >>> projections.projection_l2_ball(fnp.array([3.0, 4.0]))
      Array([0.6, 0.8], dtype=float32)
    """
    size = fnp.maximum(trees.norm(tree, squared=True), scale**2)
    return trees.scale(scale / fnp.sqrt(size), tree)


def projection_vector(x: Tree, a: Tree) -> Tree:
    """Onto the line of the vector a.

    Args:
      x, a: trees of arrays of one structure.

    Example:
      >>> x, a = fnp.array([1.0, 2.0]), fnp.array([1.0, 0.0])
      >>> ft.optim.projections.projection_vector(x, a)
      Array([1., 0.], dtype=float32)
    """
    return trees.scale(trees.vdot(x, a) / trees.vdot(a, a), a)


def projection_hyperplane(x: Tree, a: Tree, b: Any) -> Tree:
    """Onto ⟨x, a⟩ = b.

    Args:
      x, a: trees of arrays of one structure.
      b: a number.

    Example:
      >>> x, a = fnp.array([1.0, 1.0]), fnp.array([1.0, 0.0])
      >>> ft.optim.projections.projection_hyperplane(x, a, 3.0)
      Array([3., 1.], dtype=float32)
    """
    return trees.add_scale(x, (b - trees.vdot(x, a)) / trees.vdot(a, a), a)


def projection_halfspace(x: Tree, a: Tree, b: Any) -> Tree:
    """Onto ⟨x, a⟩ <= b.

    Args:
      x, a: trees of arrays of one structure.
      b: a number.

    Example:
      >>> x, a = fnp.array([1.0, 1.0]), fnp.array([1.0, 0.0])
      >>> ft.optim.projections.projection_halfspace(x, a, 0.5)
      Array([0.5, 1. ], dtype=float32)
    """
    step = fnp.minimum((b - trees.vdot(x, a)) / trees.vdot(a, a), 0)
    return trees.add_scale(x, step, a)
