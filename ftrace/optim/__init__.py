"""Optimizers: pure functions from gradients to updates, with the names of optax."""

from ftrace.optim.base import (
    EmptyState,
    GradientTransformation,
    MaskedNode,
    MaskedState,
    Schedule,
    apply_updates,
    chain,
    identity,
    masked,
)
from ftrace.optim.optimizers import (
    adagrad,
    adam,
    adamw,
    lion,
    momentum,
    rmsprop,
    sgd,
)
from ftrace.optim.scaling import (
    add_decayed_weights,
    clip,
    clip_by_global_norm,
    global_norm,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_rms,
    scale_by_rss,
    scale_by_schedule,
    scale_by_stddev,
    trace,
)
from ftrace.optim.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_cosine_decay_schedule,
)

__all__ = [
    "EmptyState", "GradientTransformation", "MaskedNode", "MaskedState", "Schedule",
    "apply_updates", "chain", "identity", "masked",
    "adagrad", "adam", "adamw", "lion", "momentum", "rmsprop", "sgd",
    "add_decayed_weights", "clip", "clip_by_global_norm", "global_norm", "scale",
    "scale_by_adam", "scale_by_learning_rate", "scale_by_lion", "scale_by_rms",
    "scale_by_rss", "scale_by_schedule", "scale_by_stddev", "trace",
    "constant_schedule", "cosine_decay_schedule", "exponential_decay",
    "join_schedules", "linear_schedule", "piecewise_constant_schedule",
    "polynomial_schedule", "warmup_cosine_decay_schedule",
]  # fmt: skip
