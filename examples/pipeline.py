"""Trains a deep network whose layers lie one after the other on devices.

    python examples/pipeline.py                         8 stages in this process
    mpirun -n 4 python examples/pipeline.py             four stages

A batch is cut into microbatches, which follow each other through the stages: while the
second stage has the first one, the first has the second one
(https://arxiv.org/abs/1811.06965). A tick of this clock is a step of a `scan`: each
device applies its layers to what it has, and hands it on by `ppermute`.

    tick     0    1    2    3    4
    stage 0  a    b    c    .    .
    stage 1  .    a    b    c    .
    stage 2  .    .    a    b    c

Nothing is said of the way back: the gradient of a scan runs from its end to its start,
and that of `ppermute` hands cotangents to the stage before.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from digits import CLASSES, load_digits
from harness import Progress, compare, quiet, say, start, whole

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, optim
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P

PIXELS, HIDDEN, LAYERS = 64, 128, 8
MICROBATCHES, IMAGES = 8, 32  # of so many images each

#: Stages have layers; what comes after the last one is on each device.
SPECS = {"up": P("stage"), "down": P("stage"), "last": P()}

optimizer = optim.adam(1e-3)


def init_params(key: Any) -> dict[str, Any]:
    he = ft.nn.initializers.he_normal(batch_axis=0)
    up, down, last = ft.random.split(key, 3)
    return {
        "up": he(up, (LAYERS, PIXELS, HIDDEN)),
        "down": he(down, (LAYERS, HIDDEN, PIXELS)),
        "last": ft.nn.initializers.he_normal()(last, (PIXELS, CLASSES)),
    }


def layers(params: Any, x: Any) -> Any:
    """All layers that there are here, of images (images, pixels)."""

    def layer(x: Any, weights: Any) -> Any:
        up, down = weights
        return x + ft.nn.relu(x @ up) @ down / LAYERS, None

    return lax.scan(layer, x, (params["up"], params["down"]))[0]


def cross_entropy(params: Any, x: Any, labels: Any) -> Any:
    scores = ft.nn.log_softmax(x @ params["last"])
    return -(scores * ft.nn.one_hot(labels, CLASSES)).sum(-1).mean()


def pipelined(params: Any, images: Any, labels: Any) -> Any:
    """The loss of microbatches (microbatches, images, pixels), on each stage."""
    stage, stages = lax.axis_index("stage"), lax.axis_size("stage")
    onward = [(i, i + 1) for i in range(stages - 1)]

    def tick(x: Any, time: Any) -> Any:
        new = images[fnp.minimum(time, MICROBATCHES - 1)]
        y = layers(params, fnp.where(stage == 0, new, x))
        return lax.ppermute(y, "stage", onward), y

    nothing = lax.pcast(fnp.zeros_like(images[0]), "stage", to="varying")
    _, ys = lax.scan(tick, nothing, fnp.arange(MICROBATCHES + stages - 1))
    # What the last stage has made from the tick on at which the first one arrives.
    loss = cross_entropy(params, ys[stages - 1 :], labels)
    return lax.psum(fnp.where(stage == stages - 1, loss, 0), "stage")


def plain(params: Any, images: Any, labels: Any) -> Any:
    """The loss of the same network without stages, of all images at once."""
    x = layers(params, images.reshape(-1, PIXELS))
    return cross_entropy(params, x, labels.reshape(-1))


def train(loss_of: Any, params: Any, batches: Any, show: Any) -> tuple[Any, Any]:
    """The parameters after all batches, and the loss at each."""

    @ft.jit
    def train_step(params: Any, state: Any, images: Any, labels: Any) -> Any:
        loss, grads = ft.value_and_grad(loss_of)(params, images, labels)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state, loss

    state, losses = optimizer.init(params), []
    for images, labels in batches:
        params, state, loss = train_step(params, state, images, labels)
        losses.append(float(loss))
        show(loss=loss)
    return params, np.array(losses)


def main() -> int:
    options = start(__doc__, steps=60)
    images, labels, test_images, test_labels = load_digits(seed=0)
    order = np.random.default_rng(0).permutation(len(images))
    chosen = np.resize(order, (options.steps, MICROBATCHES, IMAGES))
    images, test_images = (x.reshape(-1, PIXELS) for x in (images, test_images))
    batches = [(images[rows], labels[rows]) for rows in chosen]
    params = init_params(ft.random.key(0))

    mesh = ft.make_mesh((ft.device_count(),), ("stage",), (AxisType.Auto,))
    shardings = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}
    staged = ft.device_put(params, shardings)
    loss_of = ft.shard_map(
        pipelined, mesh=mesh, in_specs=(SPECS, P(), P()), out_specs=P()
    )
    trained, losses = train(loss_of, staged, batches, Progress(options.steps))
    wanted, losses_of_one = train(plain, params, batches, quiet)

    known = ft.tree.map(whole, trained)
    scores = layers(known, test_images) @ known["last"]
    accuracy = np.mean(np.argmax(scores, -1) == test_labels)
    say(f"accuracy {accuracy:.1%} of {len(test_labels)} images that it has not seen")
    have = trained["up"].addressable_shards[0].data.shape[0]
    say(f"a stage has {have} of {LAYERS} layers")
    wrong = compare("losses", losses, losses_of_one, 1e-3)
    return wrong + compare("parameters", trained, wanted, 1e-2)


if __name__ == "__main__":
    sys.exit(main())
