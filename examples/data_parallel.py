"""Trains the digits' network with each batch divided over all devices.

    python examples/data_parallel.py                    8 devices of this process
    mpirun -n 2 python examples/data_parallel.py        two processes

Nothing of the network is changed: it is that of `digits.py`. The images of a batch lie
along the axis "batch" of a mesh, each device has all parameters, and `jit` finds that
the gradients, sums over the batch, are what the devices tell each other.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from digits import init_params, load_digits, loss_of, predict
from harness import Progress, compare, quiet, say, start

import ftrace as ft
from ftrace import optim
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P

BATCH = 64
STEPS = 220
REQUIRED_ACCURACY = 0.95

optimizer = optim.adam(2e-3)


@ft.jit
def train_step(params: Any, state: Any, images: Any, labels: Any) -> Any:
    """Adam on the mean loss of a batch."""
    loss, grads = ft.value_and_grad(loss_of)(params, images, labels)
    updates, state = optimizer.update(grads, state, params)
    return optim.apply_updates(params, updates), state, loss


def train(params: Any, batches: Any, show: Any) -> tuple[Any, Any]:
    """The parameters after all batches, and the loss at each."""
    state, losses = optimizer.init(params), []
    for images, labels in batches:
        params, state, loss = train_step(params, state, images, labels)
        losses.append(float(loss))
        show(loss=loss)
    return params, np.array(losses)


def main() -> int:
    options = start(__doc__, STEPS)
    images, labels, test_images, test_labels = load_digits(seed=0)
    params = init_params(ft.random.key(0))
    order = np.random.default_rng(0).permutation(len(images))
    chosen = np.resize(order, (options.steps, BATCH))
    batches = [(images[rows], labels[rows]) for rows in chosen]

    mesh = ft.make_mesh((ft.device_count(),), ("batch",), (AxisType.Auto,))
    by_batch, everywhere = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    replicated = ft.device_put(params, everywhere)
    divided = [ft.device_put(batch, by_batch) for batch in batches]
    if options.explain:
        state = optimizer.init(replicated)
        say(ft.explain_sharding(train_step)(replicated, state, *divided[0]))

    trained, losses = train(replicated, divided, Progress(options.steps))
    wanted, losses_of_one = train(params, batches, quiet)
    wrong = compare("losses", losses, losses_of_one, 1e-3)
    wrong += compare("parameters", trained, wanted, 1e-2)
    accuracy = np.mean(np.asarray(predict(trained, test_images)) == test_labels)
    say(f"accuracy {accuracy:.1%} of {len(test_labels)} images that it has not seen")
    if options.steps >= STEPS and accuracy < REQUIRED_ACCURACY:
        say(f"below the required {REQUIRED_ACCURACY:.0%}")
        wrong += 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
