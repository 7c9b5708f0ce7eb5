"""Trains a transformer whose weights are divided over devices, on a page of text.

    python examples/tensor_parallel.py                  2 · 4 devices of this process
    mpirun -n 4 python examples/tensor_parallel.py      four processes

Each device has some heads of the attention, and some columns of the layer after it and
the rows that belong to these. What is between needs nobody else, and what comes out is
a sum over the devices (https://arxiv.org/abs/1909.08053). All that is said of it are
the specs below; `jit` finds the sums, two for a block and two for its gradient.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from harness import Progress, compare, quiet, say, start

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import optim
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P

TEXT = Path(__file__).parent / "data" / "README.md"
LETTERS, CONTEXT, BATCH = 128, 32, 16
WIDTH, HEADS, HIDDEN, BLOCKS = 64, 8, 256, 2

#: How the weights of a block are divided; the embeddings are on each device.
SPECS = {
    "qkv": P(None, None, "model"),  # (3, width, heads, width of a head)
    "out": P("model"),  # (heads, width of a head, width)
    "up": P(None, "model"),
    "down": P("model"),
}

optimizer = optim.adam(3e-3)


def init_params(key: Any) -> dict[str, Any]:
    normal = ft.nn.initializers.normal(0.1)
    size = WIDTH // HEADS
    shapes = {
        "qkv": (3, WIDTH, HEADS, size),
        "out": (HEADS, size, WIDTH),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    first, second, *keys = ft.random.split(key, 2 + BLOCKS)
    blocks: list[Any] = []
    for block_key in keys:
        rows = zip(shapes.items(), ft.random.split(block_key, len(shapes)), strict=True)
        blocks.append({name: normal(key, shape) for (name, shape), key in rows})
    return {
        "letters": normal(first, (LETTERS, WIDTH)),
        "places": normal(second, (CONTEXT, WIDTH)),
        "blocks": blocks,
    }


def normalize(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / fnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(block: Any, x: Any) -> Any:
    """Of each place to those before it, by each head by itself."""
    q, k, v = fnp.einsum("btw,nwhd->nbhtd", x, block["qkv"])
    scores = fnp.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(q.shape[-1])
    past = np.tri(x.shape[1], dtype=bool)
    weights = ft.nn.softmax(fnp.where(past, scores, -1e9))
    heads = fnp.einsum("bhts,bhsd->bhtd", weights, v)
    return fnp.einsum("bhtd,hdw->btw", heads, block["out"])


def loss_of(params: Any, text: Any) -> Any:
    """Mean cross-entropy of each next letter, of a batch (batch, context + 1)."""
    x = params["letters"][text[:, :-1]] + params["places"]
    for block in params["blocks"]:
        x = x + attention(block, normalize(x))
        x = x + ft.nn.gelu(normalize(x) @ block["up"]) @ block["down"]
    scores = ft.nn.log_softmax(normalize(x) @ params["letters"].T)
    return -fnp.take_along_axis(scores, text[:, 1:, None], -1).mean()


@ft.jit
def train_step(params: Any, state: Any, text: Any) -> Any:
    loss, grads = ft.value_and_grad(loss_of)(params, text)
    updates, state = optimizer.update(grads, state, params)
    return optim.apply_updates(params, updates), state, loss


def train(params: Any, batches: Any, show: Any) -> tuple[Any, Any]:
    """The parameters after all batches, and the loss at each."""
    state, losses = optimizer.init(params), []
    for text in batches:
        params, state, loss = train_step(params, state, text)
        losses.append(float(loss))
        show(loss=loss)
    return params, np.array(losses)


def main() -> int:
    options = start(__doc__, steps=200)
    text = np.frombuffer(TEXT.read_bytes(), np.uint8).astype(np.int32) % LETTERS
    starts = np.random.default_rng(0).integers(
        len(text) - CONTEXT, size=(options.steps, BATCH)
    )
    batches = text[starts[..., None] + np.arange(CONTEXT + 1)]
    params = init_params(ft.random.key(0))

    model = min(4, ft.device_count())
    mesh = ft.make_mesh(
        (ft.device_count() // model, model), ("data", "model"), (AxisType.Auto,) * 2
    )
    specs = {"letters": P(), "places": P(), "blocks": [SPECS] * BLOCKS}
    divided = ft.device_put(
        params, ft.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    )
    by_data = [ft.device_put(x, NamedSharding(mesh, P("data"))) for x in batches]
    if options.explain:
        state = optimizer.init(divided)
        say(ft.explain_sharding(train_step)(divided, state, by_data[0]))

    trained, losses = train(divided, by_data, Progress(options.steps))
    say(f"a device has {trained['blocks'][0]['up'].addressable_shards[0].data.shape} "
        f"of a weight {(WIDTH, HIDDEN)}")  # fmt: skip
    wanted, losses_of_one = train(params, batches, quiet)
    wrong = compare("losses", losses, losses_of_one, 1e-3)
    return wrong + compare("parameters", trained, wanted, 1e-2)


if __name__ == "__main__":
    sys.exit(main())
