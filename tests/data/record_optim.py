"""Records what optax does, for `tests/optim/test_optim.py`.

    python tests/data/record_optim.py

Needs jax and optax; wrote `optim.npz` with optax 0.2.8. The test calls `optimizers`,
`schedules` and `steps` with `ftrace.optim` in the place of `optax`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).with_name("optim.npz")
STEPS = 7
COUNTS = (0, 1, 2, 3, 4, 5, 7, 10, 11, 15, 19, 20, 21, 40)


def optimizers(optim: Any) -> dict[str, Any]:
    """Optimizers by name."""
    decay = optim.exponential_decay(0.1, 2, 0.5)
    mask = {"w": True, "b": [False, False]}
    return {
        "sgd": optim.sgd(0.1),
        "sgd/momentum": optim.sgd(0.1, momentum=0.9),
        "sgd/nesterov": optim.sgd(0.1, 0.9, True),
        "sgd/schedule": optim.sgd(decay, 0.5),
        "adam": optim.adam(0.05),
        "adam/options": optim.adam(0.05, 0.8, 0.9, 1e-3, 1e-4),
        "adam/nesterov": optim.adam(0.05, nesterov=True),
        "adam/schedule": optim.adam(decay),
        "adamw": optim.adamw(0.05, weight_decay=0.1),
        "adamw/mask": optim.adamw(0.05, weight_decay=0.1, mask=mask),
        "adamw/function": optim.adamw(0.05, weight_decay=0.1, mask=lambda _: mask),
        "rmsprop": optim.rmsprop(0.02),
        "rmsprop/options": optim.rmsprop(0.02, 0.8, 1e-3, 0.5, False),
        "rmsprop/momentum": optim.rmsprop(0.02, momentum=0.9, nesterov=True),
        "rmsprop/centered": optim.rmsprop(0.02, centered=True, eps=1e-3),
        "rmsprop/unbiased": optim.rmsprop(0.02, bias_correction=True),
        "rmsprop/centered_unbiased": optim.rmsprop(
            0.02, centered=True, bias_correction=True, eps=1e-2
        ),
        "adagrad": optim.adagrad(0.1),
        "lion": optim.lion(0.02),
        "clip": optim.chain(optim.clip(0.3), optim.sgd(0.1)),
        "clip_by_global_norm": optim.chain(
            optim.clip_by_global_norm(0.5), optim.sgd(0.1)
        ),
        "scale": optim.chain(optim.scale(0.5), optim.scale(-0.1)),
        "scale_by_schedule": optim.scale_by_schedule(lambda n: -0.1 / (n + 1)),
        "scale_by_learning_rate": optim.scale_by_learning_rate(0.1),
        "add_decayed_weights": optim.chain(
            optim.add_decayed_weights(0.1), optim.scale(-0.1)
        ),
        "identity": optim.identity(),
        **_later(optim, decay, mask),
        **_wrapped(optim, decay, mask),
    }


def _later(optim: Any, decay: Any, mask: Any) -> dict[str, Any]:
    """One row or two for each of the other optimizers."""
    steps = optim.chain(optim.scale_by_distance_over_gradients(1e-2), optim.scale(-1))
    return {
        "adabelief": optim.adabelief(0.05, nesterov=True),
        "adadelta": optim.adadelta(0.5, weight_decay=0.1),
        "adafactor": optim.adafactor(0.1),
        "adafactor/factored": optim.adafactor(
            decay, 2, momentum=0.9, weight_decay_rate=0.01
        ),
        "adafactor/plain": optim.adafactor(
            0.1, multiply_by_parameter_scale=False, clipping_threshold=None
        ),
        "adamax": optim.adamax(0.05),
        "adamaxw": optim.adamaxw(0.05, weight_decay=0.1, mask=mask),
        "adan": optim.adan(0.05, weight_decay=0.1),
        "amsgrad": optim.amsgrad(0.05),
        "amsgrad/biased": optim.amsgrad(
            0.05, bias_correction_mu=False, bias_correction_nu=False
        ),
        "fromage": optim.fromage(0.1),
        "fromage/schedule": optim.fromage(decay),
        "lamb": optim.lamb(0.05, weight_decay=0.1),
        "lars": optim.lars(0.5, weight_decay=0.1),
        "nadam": optim.nadam(0.05),
        "nadamw": optim.nadamw(0.05, weight_decay=0.1),
        "noisy_sgd": optim.noisy_sgd(0.1, key=7),
        "novograd": optim.novograd(0.05, weight_decay=0.1),
        "optimistic_gradient_descent": optim.optimistic_gradient_descent(0.1, 0.9, 0.5),
        "optimistic_adam_v2": optim.optimistic_adam_v2(0.05),
        "radam": optim.radam(0.05, b2=0.9),
        "radam/nesterov": optim.radam(0.05, nesterov=True),
        "rprop": optim.rprop(0.05),
        "sign_sgd": optim.sign_sgd(0.05),
        "signum": optim.signum(0.05),
        "sm3": optim.masked(optim.sm3(0.1), {"w": True, "b": [True, False]}),
        "yogi": optim.yogi(0.05),
        "distance_over_gradients": steps,
        "lion/smooth": optim.chain(
            optim.scale_by_lion(mode="smooth", smooth_beta=2.0), optim.scale(-0.1)
        ),
        "lion/refined": optim.chain(
            optim.scale_by_lion(mode="refined"), optim.scale(-0.1)
        ),
    }


def _wrapped(optim: Any, decay: Any, mask: Any) -> dict[str, Any]:
    """Transformations of transformations, and of all updates together."""
    adam, sgd = optim.adam(0.05), optim.sgd(0.1)
    labels = {"w": "a", "b": ["b", "a"]}
    large = lambda u, s, p: optim.skip_large_updates(u, s, p, 4.0)  # noqa: E731
    few = optim.MultiSteps(adam, 2)
    skipping = optim.MultiSteps(adam, 2, False, large)
    return {
        "adaptive_grad_clip": optim.chain(optim.adaptive_grad_clip(0.1), sgd),
        "apply_every": optim.chain(optim.apply_every(3), sgd),
        "apply_if_finite": optim.apply_if_finite(adam, 2),
        "centralize": optim.chain(optim.centralize(), sgd),
        "clip_by_block_rms": optim.chain(optim.clip_by_block_rms(0.3), sgd),
        "conditionally_mask": optim.conditionally_mask(adam, lambda n: n % 3 != 1),
        "conditionally_transform": optim.chain(
            optim.conditionally_transform(adam, lambda n: n > 2), sgd
        ),
        "ema": optim.chain(optim.ema(0.8), sgd),
        "flatten": optim.flatten(adam),
        "freeze": optim.chain(sgd, optim.freeze(mask)),
        "inject_hyperparams": optim.inject_hyperparams(optim.adamw)(
            decay, weight_decay=0.1
        ),
        "keep_params_nonnegative": optim.chain(sgd, optim.keep_params_nonnegative()),
        "multi_steps": few.gradient_transformation(),
        "multi_steps/skipping": skipping.gradient_transformation(),
        "multi_transform": optim.multi_transform({"a": adam, "b": sgd}, labels),
        "named_chain": optim.named_chain(("one", optim.clip(0.3)), ("two", adam)),
        "normalize_by_update_norm": optim.chain(
            optim.normalize_by_update_norm(0.5), sgd
        ),
        "param_block_norm": optim.chain(optim.scale_by_param_block_norm(), sgd),
        "selective_transform": optim.selective_transform(adam, freeze_mask=mask),
        "set_to_zero": optim.set_to_zero(),
        "stateless": optim.stateless_with_tree_map(lambda g, p: -0.1 * g * p),
        "zero_nans": optim.chain(optim.zero_nans(), sgd),
    }


def bowl(x: Any) -> Any:
    """Rosenbrock's valley, of an array of four."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def functions(optim: Any, jax: Any) -> dict[str, Any]:
    """What is neither an optimizer nor a loss, of fixed arrays; `jax` may be ftrace."""
    jnp, onto = jax.numpy, optim.projections
    n = np.arange(6, dtype=np.float32)
    x, y = np.sin(n), {"a": np.cos(2 * n), "b": [np.sin(n[:3]), np.float32([2, -1])]}
    key, z = jax.random.PRNGKey(3), jax.tree.map(lambda x: x + 0.5, y)
    m = np.sin(np.arange(12, dtype=np.float32)).reshape(4, 3)
    square = m.T @ m
    positive = square + np.eye(3, dtype=np.float32)
    found: dict[str, Any] = {
        name: getattr(onto, f"projection_{name}")(*args)
        for name, args in {
            "non_negative": (y,), "box": (x, -0.1, 0.2), "hypercube": (x, 0.3),
            "linf_ball": (y, 0.4), "simplex": (y, 2.0), "l1_sphere": (y, 2.0),
            "l1_ball": (y, 3.0), "l2_sphere": (y, 2.0), "l2_ball": (y, 1.5),
            "vector": (y, z), "hyperplane": (y, z, 0.3), "halfspace": (y, z, 0.2),
        }.items()
    }  # fmt: skip
    slope = jax.grad(lambda x: (onto.projection_simplex(x, 0.7) ** 3).sum())
    smooth = optim.perturbations.make_perturbed_fun
    normal = optim.perturbations.Normal()
    ranks = smooth(lambda x: jnp.argsort(x).astype(float), 50, 0.5, normal)
    plain = smooth(lambda x: jax.tree.map(jnp.square, x), 20, use_baseline=False)
    gaussian = optim.multi_normal(x, y["a"])
    second, args = optim.second_order, (m[0], m, m[:, 1])

    def loss(p: Any, x: Any, y: Any) -> Any:
        return (jnp.tanh(x @ p - y) ** 2).sum()

    measures = {"mean": lambda g: g["a"].mean(), "ema": optim.ema(0.8),
                "norm": optim.measure_with_ema(optim.tree.norm, 0.9)}  # fmt: skip
    watch = optim.chain(
        optim.snapshot("first", lambda g: g["b"][0]), optim.monitor(measures)
    )
    inject = optim.inject_stateful_hyperparams(optim.sgd)
    stateful = inject(optim.WrappedSchedule(lambda n: 0.1 / (n + 1)), momentum=0.9)
    states: list[Any] = []
    for optimizer in (watch, stateful, optim.optimistic_adam(0.1, 0.05)):
        state = optimizer.init(y)
        for _ in range(3):
            updates, state = optimizer.update(z, state, y)
        states.append((updates, state))
    adam = optim.adam(0.1)
    doubled = optim.tree_map_params(
        adam, lambda a, b: a + b, adam.init(y), z, transform_non_params=lambda n: n + 1
    )
    return found | {
        "simplex/slope": slope(x), "perturbed": ranks(key, x),
        "perturbed/slope": jax.grad(lambda x: (ranks(key, x) * n).sum())(x),
        "perturbed/plain": plain(key, y), "multi_normal": gaussian.log_prob(0.3),
        "multi_normal/sample": gaussian.sample((2,), key),
        "hvp": second.hvp(loss, m[1], *args),
        "hessian_diag": second.hessian_diag(loss, *args),
        "fisher_diag": second.fisher_diag(loss, *args),
        "power_iteration": optim.power_iteration(square)[0],
        "pth_root": optim.matrix_inverse_pth_root(positive, 4)[0],
        "nnls": optim.nnls(jnp.asarray(m), jnp.asarray(n[:4]), 200),
        "safe_norm": optim.safe_norm(jnp.asarray(m), 1.6, 2, 1, True),
        "safe_rms": optim.safe_root_mean_squares(jnp.asarray(m), 0.1),
        "safe_rms/slope": jax.grad(optim.safe_root_mean_squares)(0 * x, 1e-3),
        "scale_gradient": jax.grad(lambda x: optim.scale_gradient(x, 0.3).sum())(x),
        "watched": states[0], "injected": states[1], "optimistic_adam": states[2],
        "tree_map_params": doubled, "increment": optim.safe_increment(np.int8(127)),
    }  # fmt: skip


def flat(jax: Any, value: Any) -> np.ndarray[Any, Any]:
    """All numbers of a tree, as one row."""
    leaves = [np.ravel(np.asarray(x, np.float32)) for x in jax.tree.leaves(value)]
    return np.concatenate(leaves)


def searches(optim: Any) -> dict[str, Any]:
    """Optimizers that need the value, and search along the function."""
    back, zoom = optim.scale_by_backtracking_linesearch, optim.scale_by_zoom_linesearch
    keep = optim.scale_by_zoom_linesearch(15, max_learning_rate=0.5)
    return {
        "polyak_sgd": optim.polyak_sgd(0.01),
        "polyak_sgd/plus": optim.polyak_sgd(0.1, 1.0, 0.5, 0.1, "sps+"),
        "backtracking": optim.chain(optim.sgd(1.0), back(15, store_grad=True)),
        "backtracking/relaxed": optim.chain(
            optim.sgd(0.5), back(5, 0.1, 0.5, rtol=0.1)
        ),
        "zoom": optim.chain(optim.sgd(1.0), zoom(20, initial_guess_strategy="one")),
        "zoom/keep": optim.chain(optim.sgd(1.0), keep),
        "lbfgs": optim.lbfgs(),
        "lbfgs/short": optim.lbfgs(memory_size=2, scale_init_precond=False),
        "lbfgs/fixed": optim.lbfgs(1e-2, linesearch=None),
    }


def search(optim: Any, optimizer: Any, value_and_grad: Any, wrap: Any) -> Any:
    """The points of a search, as rows; `wrap` compiles a step."""

    def step(x: Any, state: Any) -> Any:
        value, grad = value_and_grad(bowl)(x)
        updates, state = optimizer.update(
            grad, state, x, value=value, grad=grad, value_fn=bowl
        )
        return optim.apply_updates(x, updates), state

    x = np.float32([-1.0, 0.8, 0.5, 1.2])
    state, rows, step = optimizer.init(x), [], wrap(step)
    for _ in range(STEPS):
        x, state = step(x, state)
        rows.append(np.asarray(x))
    return np.stack(rows)


def losses(optim: Any) -> dict[str, Any]:
    """Losses of fixed arrays; one logarithm is that of 0."""
    of = optim.losses
    n = np.arange(24, dtype=np.float32)
    x, y = np.sin(n).reshape(4, 6), np.cos(2 * n).reshape(4, 6)
    labels = np.array([1, 0, 5, 2], np.int32)
    chances = (np.abs(y) / np.abs(y).sum(-1, keepdims=True)).astype(np.float32)
    sparse = np.where(chances > 0.1, chances, 0).astype(np.float32)
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(x) / np.abs(x).sum(-1, keepdims=True))
    where, binary = x > -0.9, (y > 0).astype(np.float32)
    time = np.sin(np.arange(60, dtype=np.float32)).reshape(2, 6, 5)
    ends = np.array([[0] * 6, [0] * 4 + [1] * 2], np.float32)
    words = np.array([[1, 1, 3], [2, 4, 0]], np.int32)
    ctc = time, ends, words, np.array([[0, 0, 0], [0, 0, 1]], np.float32)
    by_number = of.softmax_cross_entropy_with_integer_labels
    focal, similar = of.sigmoid_focal_loss, of.cosine_similarity
    signs, some = np.sign(y), np.where(sparse > 0, x, -np.inf)
    fenchel = of.make_fenchel_young_loss(lambda scores: scores.max())
    ranked = of.ranking_softmax_loss
    return {
        "multiclass_sparsemax_loss": of.multiclass_sparsemax_loss(x, labels),
        "make_fenchel_young_loss": fenchel(x, chances),
        "ranking_softmax_loss": ranked(x, binary, where=where, weights=chances),
        "ranking_softmax_loss/none": ranked(x, binary, reduce_fn=None),
        "squared_error": of.squared_error(x, y), "l2_loss": of.l2_loss(x),
        "huber_loss": of.huber_loss(x, y, delta=0.5),
        "log_cosh": of.log_cosh(9 * x, y),
        "cosine_similarity": similar(x, y, axis=0, where=where),
        "cosine_distance": of.cosine_distance(x, y, epsilon=1e-3),
        "sigmoid_binary_cross_entropy": of.sigmoid_binary_cross_entropy(x, chances),
        "sigmoid_focal_loss": focal(x, binary, alpha=0.3),
        "sigmoid_focal_loss/soft": focal(3 * x, chances, gamma=1.5),
        "hinge_loss": of.hinge_loss(x, signs),
        "perceptron_loss": of.perceptron_loss(x, signs),
        "sparsemax_loss": of.sparsemax_loss(2 * x, y > 0),
        "softmax_cross_entropy": of.softmax_cross_entropy(x, chances),
        "softmax_cross_entropy/where": of.softmax_cross_entropy(x, chances, 0, where),
        "safe_softmax_cross_entropy": of.safe_softmax_cross_entropy(some, sparse),
        "integer_labels": by_number(x, labels),
        "integer_labels/where": by_number(x, labels, where=where),
        "integer_labels/axes": by_number(
            x.reshape(4, 2, 3).transpose(1, 0, 2), labels, (0, 2)
        ),
        "poly_loss_cross_entropy": of.poly_loss_cross_entropy(x, chances),
        "multiclass_hinge_loss": of.multiclass_hinge_loss(x, labels),
        "multiclass_perceptron_loss": of.multiclass_perceptron_loss(x, labels),
        "smooth_labels": of.smooth_labels(chances, 0.1),
        "kl_divergence": of.kl_divergence(logs, sparse),
        "kl_divergence_with_log_targets": of.kl_divergence_with_log_targets(
            logs, np.log(chances)
        ),
        "generalized_kl_divergence": of.generalized_kl_divergence(
            logs, 2 * sparse
        ),
        "ctc_loss": of.ctc_loss(*ctc),
        "ctc_loss/alpha": of.ctc_loss_with_forward_probs(*ctc, blank_id=1)[1],
        "ntxent": of.ntxent(x, np.array([0, 1, 0, 1])),
        "triplet_margin_loss": of.triplet_margin_loss(x, y, -y),
        "dice_loss": of.dice_loss(time, np.float32(time > 0.3), alpha=0.3),
        "dice_loss/none": of.dice_loss(
            time, np.float32(time > 0), reduction="none", ignore_background=True
        ),
        "per_example_global_norm_clip": optim.per_example_global_norm_clip([x, y], 1.0)[
            0
        ][1],
        "per_example_layer_norm_clip": optim.per_example_layer_norm_clip(
            [x, y[:, :2]], 1.0, False
        )[0][1],
    }  # fmt: skip


def schedules(optim: Any) -> dict[str, Callable[[int], Any]]:
    """Schedules by name."""
    linear = optim.linear_schedule(0.0, 1.0, 10)
    return {
        "constant": optim.constant_schedule(0.3),
        "linear": linear,
        "linear/late": optim.linear_schedule(2.0, 1.0, 10, 5),
        "linear/none": optim.linear_schedule(2.0, 1.0, 0),
        "polynomial": optim.polynomial_schedule(1.0, 0.1, 2.5, 15, 2),
        "piecewise": optim.piecewise_constant_schedule(1.0, {3: 0.5, 10: 0.1}),
        "exponential": optim.exponential_decay(1.0, 4, 0.8),
        "exponential/steps": optim.exponential_decay(1.0, 4, 0.8, 3, True, 0.5),
        "exponential/growing": optim.exponential_decay(1.0, 4, 1.5, end_value=2.0),
        "cosine": optim.cosine_decay_schedule(0.5, 20),
        "cosine/options": optim.cosine_decay_schedule(0.5, 20, 0.1, 2.0),
        "warmup_cosine": optim.warmup_cosine_decay_schedule(0.0, 1.0, 5, 20, 0.1),
        "joined": optim.join_schedules([linear, lambda n: n * 1.0], [7]),
        "warmup_constant": optim.warmup_constant_schedule(0.1, 1.0, 6),
        "warmup_exponential": optim.warmup_exponential_decay_schedule(
            0.1, 1.0, 4, 3, 0.7, 2, True, 0.2
        ),
        "sgdr": optim.schedules.sgdr_schedule(
            2
            * [{"init_value": 0, "peak_value": 1, "decay_steps": 8, "warmup_steps": 2}]
        ),
        "interpolate": optim.piecewise_interpolate_schedule(
            "cosine", 1.0, {3: 0.5, 10: 4.0, 15: 0.1}
        ),
        "linear_onecycle": optim.linear_onecycle_schedule(20, 1.0),
        "cosine_onecycle": optim.cosine_onecycle_schedule(20, 1.0, 0.25),
    }


def parameters() -> dict[str, Any]:
    """A tree of three arrays."""
    w = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
    return {"w": w, "b": [np.float32([0.5, -2.0]), np.asarray(3.0, np.float32)]}


def gradients(params: dict[str, Any], step: int) -> dict[str, Any]:
    """Those of a bowl that moves."""

    def slope(x: Any, phase: float) -> Any:
        x = np.asarray(x)
        place = np.arange(x.size, dtype=np.float32).reshape(x.shape)
        return np.asarray(0.3 * x + np.sin(place + phase + step), np.float32)

    b = params["b"]
    return {"w": slope(params["w"], 0.0), "b": [slope(b[0], 1.0), slope(b[1], 2.0)]}


def steps(optim: Any, optimizer: Any, update: Any = None) -> np.ndarray[Any, Any]:
    """The parameters after each step, as rows."""
    update = update or optimizer.update
    params = parameters()
    state = optimizer.init(params)
    rows: list[Any] = []
    for step in range(STEPS):
        updates, state = update(gradients(params, step), state, params)
        params = optim.apply_updates(params, updates)
        leaves = [params["w"], *params["b"]]
        rows.append(np.concatenate([np.asarray(x).ravel() for x in leaves]))
    return np.stack(rows)


def values(schedule: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    """A schedule at some numbers of steps."""
    found = [np.asarray(schedule(np.int32(n)), np.float32) for n in COUNTS]
    return np.stack(found)


def main() -> None:
    """Writes the file."""
    import jax
    import optax

    recorded = {f"optimizer/{k}": steps(optax, v) for k, v in optimizers(optax).items()}
    recorded |= {f"schedule/{k}": values(v) for k, v in schedules(optax).items()}
    recorded |= {
        f"search/{k}": search(optax, v, jax.value_and_grad, jax.jit)
        for k, v in searches(optax).items()
    }
    recorded |= {f"loss/{k}": np.asarray(v) for k, v in losses(optax).items()}
    recorded |= {
        f"function/{k}": flat(jax, v) for k, v in functions(optax, jax).items()
    }
    np.savez_compressed(PATH, **recorded)


if __name__ == "__main__":
    main()
