"""Records what optax does, for `tests/surface/test_optim.py`.

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
    }


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
    import optax

    recorded = {f"optimizer/{k}": steps(optax, v) for k, v in optimizers(optax).items()}
    recorded |= {f"schedule/{k}": values(v) for k, v in schedules(optax).items()}
    np.savez_compressed(PATH, **recorded)


if __name__ == "__main__":
    main()
