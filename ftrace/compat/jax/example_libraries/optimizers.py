"""`jax.example_libraries.optimizers`: descent as triples of functions.

    opt_init, opt_update, get_params = adam(1e-3)
    state = opt_update(i, gradients, state)

Those here are transformations of `ftrace.optim`, whose steps are counted by `i`; what
is written for one array `optimizer` makes one of pytrees. Step sizes are numbers or
functions of the number of steps done.
"""

# Parameters of lambdas are Any.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, NamedTuple

import ftrace.numpy as jnp
from ftrace import optim, tree
from ftrace.errors import ArgumentError, ValueRangeError
from ftrace.trace.tracing.tracer import Function
from ftrace.tree_util import register_pytree_node

Schedule = Callable[[Any], Any]


class OptimizerState(NamedTuple):
    """The states of all leaves.

    Attributes:
      packed_state: of each leaf the arrays of its state.
      tree_def: of the parameters.
      subtree_defs: of the states of the leaves.
    """

    packed_state: tuple[Any, ...]
    tree_def: Any
    subtree_defs: tuple[Any, ...]


register_pytree_node(
    OptimizerState,
    lambda state: ((state[0],), tuple(state[1:])),
    lambda defs, packed: OptimizerState(packed[0], *defs),
)


class Optimizer(NamedTuple):
    """How to begin, to step, and to read the parameters."""

    init_fn: Function
    update_fn: Function
    params_fn: Function


def _pack(states: Iterable[Any], treedef: Any) -> OptimizerState:
    parts = [tree.flatten(state) for state in states]
    return OptimizerState(
        tuple([leaves for leaves, _ in parts]), treedef, tuple([d for _, d in parts])
    )


def _unpack(state: OptimizerState) -> list[Any]:
    return [*map(tree.unflatten, state.subtree_defs, state.packed_state)]


def optimizer(opt_maker: Function) -> Callable[..., Optimizer]:
    """Makes an optimizer of single arrays one of pytrees.

    Args:
      opt_maker: returns the functions (init, update, get_params) of an array.
    """

    @wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def begin(x0_tree: Any) -> OptimizerState:
            leaves, treedef = tree.flatten(x0_tree)
            return _pack(map(init, leaves), treedef)

        def step(i: Any, grad_tree: Any, opt_state: OptimizerState) -> OptimizerState:
            grads, treedef = tree.flatten(grad_tree)
            old = OptimizerState(*opt_state)
            _check("gradients", treedef, "parameters", old.tree_def)
            states = zip(grads, _unpack(old), strict=True)
            new = _pack([update(i, g, state) for g, state in states], treedef)
            _check("new state", new.subtree_defs, "state", old.subtree_defs)
            return new

        def read(opt_state: OptimizerState) -> Any:
            old = OptimizerState(*opt_state)
            return tree.unflatten(old.tree_def, map(get_params, _unpack(old)))

        return Optimizer(begin, step, read)

    return make


def _check(what: str, found: Any, of: str, required: Any) -> None:
    if found != required:
        raise ArgumentError(
            f"the {what} of an optimizer must have the structure of its {of}, "
            f"{required}; got {found}"
        )


def _by(
    step_size: Any,
    *parts: optim.GradientTransformation,
    after: Sequence[optim.GradientTransformation] = (),
) -> Optimizer:
    """The optimizer of an array by transformations, before and after the step size."""
    rate = make_schedule(step_size)

    def transform(rate: Any) -> optim.GradientTransformation:
        return optim.chain(*parts, optim.scale(rate), *after)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, own = state
        if optim.tree.get(own, "count") is not None:
            own = optim.tree.set(own, count=jnp.asarray(i, "int32"))
        change, own = transform(rate(i)).update(jnp.atleast_1d(g), own)
        return x - change.reshape(jnp.shape(x)), own

    return Optimizer(
        lambda x: (x, transform(1.0).init(jnp.atleast_1d(x))),
        update,
        lambda state: state[0],
    )


@optimizer
def sgd(step_size: Any) -> Optimizer:
    """Gradient descent."""
    return _by(step_size)


@optimizer
def momentum(step_size: Any, mass: Any) -> Optimizer:
    """Gradient descent with the momentum `mass`."""
    return _by(step_size, optim.trace(mass))


@optimizer
def nesterov(step_size: Any, mass: Any) -> Optimizer:
    """Gradient descent with Nesterov's momentum `mass`."""
    return _by(step_size, optim.trace(mass, nesterov=True))


@optimizer
def adagrad(step_size: Any, momentum: Any = 0.9) -> Optimizer:
    """Steps over the root of the sum of squared gradients (Duchi et al., 2011)."""
    mean = optim.ema(momentum, debias=False)
    return _by(step_size, optim.scale_by_rss(0.0, 0.0), mean)


@optimizer
def rmsprop(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> Optimizer:
    """Steps over the root of the running mean of squared gradients (Hinton, 2012)."""
    return _by(step_size, optim.scale_by_rms(gamma, eps))


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9
) -> Optimizer:
    """`rmsprop` with momentum."""
    over_root = optim.scale_by_rms(gamma, eps)
    return _by(step_size, over_root, after=[optim.trace(momentum)])


@optimizer
def adam(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Optimizer:
    """Running means of gradients and of their squares (Kingma & Ba, 2015)."""
    return _by(step_size, optim.scale_by_adam(b1, b2, eps))


@optimizer
def adamax(
    step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8
) -> Optimizer:
    """Adam by the largest gradients in place of their squares (Kingma & Ba, 2015)."""
    return _by(step_size, optim.scale_by_adamax(b1, b2, eps))


@optimizer
def sm3(step_size: Any, momentum: Any = 0.9) -> Optimizer:
    """Adagrad with one sum for each row of each axis (Anil et al., 2019)."""
    return _by(step_size, optim.scale_by_sm3(momentum, eps=0.0))


# Schedules.


def constant(step_size: Any) -> Schedule:
    """The same step size always."""
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """step_size decay_rate^(i / decay_steps)."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """step_size / (1 + decay_rate i / decay_steps), where the quotient may be whole."""
    if staircase:
        return lambda i: step_size / (1 + decay_rate * jnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0
) -> Schedule:
    """From `step_size` to `final_step_size` by a power of what is left of the way."""
    return optim.polynomial_schedule(step_size, final_step_size, power, decay_steps)


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """values[k] between the boundaries k - 1 and k."""
    ends, levels = jnp.array(boundaries), jnp.array(values)
    if not (ends.ndim == levels.ndim == 1 and len(ends) == len(levels) - 1):
        raise ValueRangeError(
            "piecewise_constant requires a sequence of boundaries and one of values "
            f"that is longer by one; got shapes {ends.shape} and {levels.shape}"
        )
    return lambda i: levels[jnp.sum(i > ends)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule as it is, a number as a constant one."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule):
        raise ArgumentError(
            "a step size is a number or a function of the step; got "
            f"{type(scalar_or_schedule).__name__}"
        )
    return constant(scalar_or_schedule)


# Norms, and states to be stored.


def l2_norm(tree_: Any) -> Any:
    """The Euclidean norm of all that is in a pytree."""
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree.leaves(tree_)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Gradients, scaled down to the norm `max_norm` where theirs is larger."""
    norm = l2_norm(grad_tree)
    return tree.map(
        lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree
    )


class JoinPoint:
    """A leaf that holds the state of a parameter."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Iterator[Any]:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The parameters' pytree with a `JoinPoint` in the place of each leaf."""
    return tree.unflatten(opt_state.tree_def, map(JoinPoint, _unpack(opt_state)))


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state that `unpack_optimizer_state` took apart."""
    points, treedef = tree.flatten(marked_pytree)
    if not all(isinstance(x, JoinPoint) for x in points):
        raise ArgumentError(
            "pack_optimizer_state takes what unpack_optimizer_state gives: all leaves "
            f"are JoinPoints; got {treedef}"
        )
    marked: Sequence[JoinPoint] = points
    return _pack([x.subtree for x in marked], treedef)
