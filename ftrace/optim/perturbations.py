"""Functions smoothed by noise, so that they have derivatives; normal distributions.

Source: Q. Berthet et al., "Learning with differentiable perturbed optimizers", 2020.
"""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace import lax, random
from ftrace.optim import tree as trees
from ftrace.transforms.vmap import vmap

Tree = Any


class Normal:
    """The standard normal distribution; its log density up to a constant."""

    def sample(self, key: Any, sample_shape: Any = (), dtype: Any = float) -> Any:
        return random.normal(key, sample_shape, dtype)

    def log_prob(self, inputs: Any) -> Any:
        return -0.5 * inputs**2


class Gumbel:
    """Gumbel's distribution."""

    def sample(self, key: Any, sample_shape: Any = (), dtype: Any = float) -> Any:
        return random.gumbel(key, sample_shape, dtype)

    def log_prob(self, inputs: Any) -> Any:
        return -inputs - fnp.exp(-inputs)


def make_perturbed_fun(
    fun: Callable[[Tree], Tree],
    num_samples: int = 1000,
    sigma: Any = 0.1,
    noise: Any = None,
    use_baseline: bool = True,
) -> Callable[[Any, Tree], Tree]:
    """The mean of `fun(x + sigma · noise)`, with derivatives of all orders.

    Args:
      fun: from a tree to a tree of arrays; it need not have derivatives.
      num_samples: how many samples the mean is of.
      sigma: the size of the noise.
      noise: `Gumbel()` by default, or another with `sample` and `log_prob`.
      use_baseline: subtract `fun(x)` in derivatives, which then vary less.

    Returns:
      (key, x) -> the mean.
    """
    drawn_of = Gumbel() if noise is None else noise

    def estimate(key: Any, x: Tree, baseline: Tree) -> Tree:
        drawn = trees.random_like(key, x, drawn_of.sample)
        moved = lax.stop_gradient(trees.add_scale(x, sigma, drawn))
        drawn = trees.map(lambda y, x: (y - x) / sigma, moved, x)
        chance = trees.sum(trees.map(drawn_of.log_prob, drawn))
        # 1, whose derivative is that of the logarithm of the density.
        one = fnp.exp(chance - lax.stop_gradient(chance))
        made = trees.scale(one, fun(moved))
        return trees.add_scale(made, 1 - one, baseline) if use_baseline else made

    def mean(key: Any, x: Tree) -> Tree:
        baseline = fun(lax.stop_gradient(x)) if use_baseline else None
        keys = random.split(key, num_samples)
        found = vmap(estimate, (0, None, None))(keys, x, baseline)
        return trees.map(lambda y: fnp.mean(y, 0), found)

    return mean


class MultiNormalDiagFromLogScale:
    """Independent normal distributions, by means and logarithms of deviations."""

    def __init__(self, loc: Any, log_scale: Any) -> None:
        self.params = [fnp.asarray(loc), fnp.asarray(log_scale)]
        shapes = [x.shape for x in self.params]
        self._param_shape = lax.broadcast_shapes(*shapes)

    @property
    def log_scale(self) -> Any:
        return self.params[1]

    def sample(self, shape: Any, key: Any) -> Any:
        """Samples of a shape, and that of the parameters after it."""
        drawn = random.normal(key, (*shape, *self._param_shape))
        return drawn * fnp.exp(self.log_scale) + self.params[0]

    def log_prob(self, x: Any) -> Any:
        """The sum of the log densities."""
        z = (x - self.params[0]) / fnp.exp(self.log_scale)
        found = -0.5 * (z * z + math.log(2 * math.pi)) - self.log_scale
        return fnp.sum(found, tuple(range(-len(self._param_shape), 0)))


multi_normal = MultiNormalDiagFromLogScale
