"""Trains a deep network of which no device has all parameters.

    python examples/fsdp.py                             8 devices of this process
    mpirun -n 4 python examples/fsdp.py                 four processes

Parameters and the state of the optimizer are divided along the same axis of the mesh as
the images are. A layer's weights are gathered where a `scan` comes to the layer, in the
gradient once more, and the sums of its gradients are scattered to who has the parts
(https://arxiv.org/abs/1910.02054): a device never has more than one whole layer.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from digits import CLASSES, load_digits
from harness import Progress, compare, quiet, say, start

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, optim
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P

BATCH, PIXELS, WIDTH, HIDDEN, LAYERS = 256, 64, 64, 128, 8

#: Of each parameter the axis that is divided; that of the layers is not.
SPECS = {
    "first": P("data"),  # (pixels, width)
    "up": P(None, "data"),  # (layers, width, hidden)
    "down": P(None, "data"),  # (layers, hidden, width)
    "last": P("data"),  # (width, classes)
}

optimizer = optim.adamw(1e-3)


def init_params(key: Any) -> dict[str, Any]:
    shapes = {
        "first": (PIXELS, WIDTH),
        "up": (LAYERS, WIDTH, HIDDEN),
        "down": (LAYERS, HIDDEN, WIDTH),
        "last": (WIDTH, CLASSES),
    }
    he = ft.nn.initializers.he_normal(batch_axis=0)
    dense = ft.nn.initializers.he_normal()
    rows = zip(shapes.items(), ft.random.split(key, len(shapes)), strict=True)
    return {
        name: (he if len(shape) == 3 else dense)(key, shape)
        for (name, shape), key in rows
    }


def scores_of(params: Any, images: Any) -> Any:
    """Of each class, of a batch (batch, pixels)."""

    def layer(x: Any, weights: Any) -> Any:
        up, down = weights
        more = ft.nn.relu(x @ up) @ down
        return x + more / LAYERS, None

    x, _ = lax.scan(layer, images @ params["first"], (params["up"], params["down"]))
    return x @ params["last"]


def loss_of(params: Any, images: Any, labels: Any) -> Any:
    scores = ft.nn.log_softmax(scores_of(params, images))
    return -fnp.sum(scores * ft.nn.one_hot(labels, CLASSES)) / len(labels)


@ft.jit
def train_step(params: Any, state: Any, images: Any, labels: Any) -> Any:
    loss, grads = ft.value_and_grad(loss_of)(params, images, labels)
    updates, state = optimizer.update(grads, state, params)
    return optim.apply_updates(params, updates), state, loss


def train(params: Any, batches: Any, show: Any) -> tuple[Any, Any, Any]:
    """Parameters and state after all batches, and the loss at each."""
    state, losses = optimizer.init(params), []
    for images, labels in batches:
        params, state, loss = train_step(params, state, images, labels)
        losses.append(float(loss))
        show(loss=loss)
    return params, state, np.array(losses)


def bytes_here(tree: Any) -> int:
    """What one device has of the arrays of a tree."""
    return sum(x.addressable_shards[0].data.nbytes for x in ft.tree.leaves(tree))


def main() -> int:
    options = start(__doc__, steps=150)
    images, labels, test_images, test_labels = load_digits(seed=0)
    images, test_images = (x.reshape(-1, PIXELS) for x in (images, test_images))
    order = np.random.default_rng(0).permutation(len(images))
    chosen = np.resize(order, (options.steps, BATCH))
    batches = [(images[rows], labels[rows]) for rows in chosen]
    params = init_params(ft.random.key(0))

    mesh = ft.make_mesh((ft.device_count(),), ("data",), (AxisType.Auto,))
    shardings = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}
    divided = ft.device_put(params, shardings)
    by_data = ft.device_put(batches, NamedSharding(mesh, P("data")))
    if options.explain:
        state = optimizer.init(divided)
        say(ft.explain_sharding(train_step)(divided, state, *by_data[0]))

    trained, state, losses = train(divided, by_data, Progress(options.steps))
    scores = ft.jit(scores_of)(trained, test_images)
    accuracy = np.mean(np.argmax(scores, -1) == test_labels)
    say(f"accuracy {accuracy:.1%} of {len(test_labels)} images that it has not seen")

    wanted, state_of_one, losses_of_one = train(params, batches, quiet)
    have, all_of_it = bytes_here((trained, state)), bytes_here((wanted, state_of_one))
    say(f"a device has {have:,} of {all_of_it:,} bytes of parameters and state")
    wrong = compare("losses", losses, losses_of_one, 1e-3)
    wrong += compare("state of the optimizer", state, state_of_one, 1e-2)
    return wrong + compare("parameters", trained, wanted, 1e-2)


if __name__ == "__main__":
    sys.exit(main())
