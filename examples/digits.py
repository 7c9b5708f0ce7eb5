"""Trains a small convolutional network on scanned digits, on any device.

    python examples/digits.py --device cpu

The data are 1,797 images of 8 by 8 pixels (see data/README.md). A loss of one image is
mapped over the batch with `vmap`, differentiated with `value_and_grad`, and one step of
Adam is compiled with `jit` into one program.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

import ftrace as ft
import ftrace.numpy as fnp

HERE = Path(__file__).parent
CLASSES = 10
BATCH = 64
REQUIRED_ACCURACY = 0.97

Params = dict[str, Any]


def load_digits(seed: int) -> tuple[Any, Any, Any, Any]:
    """Training images and labels, then 360 held-out ones; pixels in 0 … 1."""
    with np.load(HERE / "data" / "digits.npz") as data:
        images = data["images"].astype(np.float32)[:, None] / 16
        labels = data["labels"].astype(np.int32)
    order = np.random.default_rng(seed).permutation(len(images))
    images, labels = images[order], labels[order]
    return images[:-360], labels[:-360], images[-360:], labels[-360:]


def init_params(key: Any) -> Params:
    """He-initialised weights of two convolutions and two dense layers."""
    he = ft.nn.initializers.he_normal(in_axis=1, out_axis=0)
    dense = ft.nn.initializers.he_normal()
    keys = ft.random.split(key, 4)
    return {
        "conv1": {"w": he(keys[0], (16, 1, 3, 3)), "b": fnp.zeros((16, 1, 1))},
        "conv2": {"w": he(keys[1], (32, 16, 3, 3)), "b": fnp.zeros((32, 1, 1))},
        "dense1": {"w": dense(keys[2], (512, 64)), "b": fnp.zeros(64)},
        "dense2": {"w": dense(keys[3], (64, CLASSES)), "b": fnp.zeros(CLASSES)},
    }


def convolve(layer: Params, image: Any) -> Any:
    """A 3×3 convolution of one image (channels, height, width), same size."""
    out = ft.lax.conv_general_dilated(image[None], layer["w"], (1, 1), "SAME")[0]
    return ft.nn.relu(out + layer["b"])


def max_pool(x: Any) -> Any:
    """The greatest of each 2×2 square."""
    channels, height, width = x.shape
    return x.reshape(channels, height // 2, 2, width // 2, 2).max(axis=(2, 4))


def logits_of(params: Params, image: Any) -> Any:
    """The ten scores of one image."""
    x = convolve(params["conv1"], image)
    x = max_pool(convolve(params["conv2"], x))
    x = x.reshape(-1)
    x = ft.nn.relu(x @ params["dense1"]["w"] + params["dense1"]["b"])
    return x @ params["dense2"]["w"] + params["dense2"]["b"]


def loss_of(params: Params, images: Any, labels: Any) -> Any:
    """Mean cross-entropy of a batch."""
    logits = ft.vmap(logits_of, in_axes=(None, 0))(params, images)
    wanted = ft.nn.one_hot(labels, CLASSES)
    return -fnp.mean(fnp.sum(ft.nn.log_softmax(logits) * wanted, axis=-1))


@ft.jit
def predict(params: Params, images: Any) -> Any:
    logits = ft.vmap(logits_of, in_axes=(None, 0))(params, images)
    return fnp.argmax(logits, axis=-1)


def make_step(optimizer: Any) -> Any:
    """One step of training, compiled."""

    @ft.jit
    def step(params: Params, state: Any, images: Any, labels: Any) -> Any:
        loss, grads = ft.value_and_grad(loss_of)(params, images, labels)
        updates, state = optimizer.update(grads, state, params)
        return ft.optim.apply_updates(params, updates), state, loss

    return step


def accuracy(params: Params, images: Any, labels: Any) -> float:
    return float(np.mean(np.asarray(predict(params, images)) == labels))


def save_pictures(
    folder: Path, losses: list[float], images: Any, labels: Any, predicted: Any
) -> list[Path]:
    """The loss curve and a sheet of predictions, as PNG files."""
    try:
        import matplotlib
    except ImportError:
        print("no pictures: pip install 'ftrace[demo]' for matplotlib", file=sys.stderr)
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.semilogy(losses, linewidth=0.8)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.set_title("Training on scanned digits")
    curve = folder / "loss.png"
    figure.savefig(curve, dpi=120, bbox_inches="tight")
    figure, grid = plt.subplots(4, 10, figsize=(10, 5))
    for axes, image, label, found in zip(
        grid.flat, images[:, 0], labels, predicted, strict=False
    ):
        axes.imshow(image, cmap="gray_r")
        axes.set_title(f"{found}", color="black" if found == label else "red")
        axes.axis("off")
    figure.suptitle("Predictions on held-out images; mistakes are red")
    sheet = folder / "predictions.png"
    figure.savefig(sheet, dpi=120, bbox_inches="tight")
    plt.close("all")
    return [curve, sheet]


def train(epochs: int, seed: int, console: Console) -> tuple[Params, list[float], Any]:
    """Trains with a progress bar; returns parameters, losses and timings."""
    images, labels, test_images, test_labels = load_digits(seed)
    optimizer = ft.optim.adam(2e-3)
    step = make_step(optimizer)
    params = init_params(ft.random.PRNGKey(seed))
    state = optimizer.init(params)
    rng = np.random.default_rng(seed)
    per_epoch = len(images) // BATCH
    losses: list[float] = []

    start = time.perf_counter()
    stages = step.lower(params, state, images[:BATCH], labels[:BATCH])
    compile_seconds = time.perf_counter() - start
    seconds = 0.0
    columns = (
        TextColumn("[bold]epoch {task.fields[epoch]:>2}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("test accuracy {task.fields[accuracy]:.1%}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(
            "train", total=epochs * per_epoch, epoch=1, loss=float("nan"), accuracy=0.0
        )
        for epoch in range(1, epochs + 1):
            order = rng.permutation(len(images))
            for i in range(per_epoch):
                chosen = order[i * BATCH : (i + 1) * BATCH]
                begin = time.perf_counter()
                params, state, loss = step(
                    params, state, images[chosen], labels[chosen]
                )
                losses.append(float(loss))
                seconds += time.perf_counter() - begin
                progress.update(task, advance=1, epoch=epoch, loss=losses[-1])
            reached = accuracy(params, test_images, test_labels)
            progress.update(task, accuracy=reached)
            if not console.is_terminal:
                console.print(
                    f"epoch {epoch:>2}  loss {np.mean(losses[-per_epoch:]):.4f}  "
                    f"test accuracy {reached:.1%}"
                )
    steps = epochs * per_epoch
    return params, losses, (stages, compile_seconds, seconds / steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--device", choices=("cpu", "opencl", "interpreter"), default="cpu"
    )
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args()
    console = Console()
    with ft.default_device(options.device):
        console.print(f"training on [bold]{options.device}[/bold]")
        params, losses, timing = train(options.epochs, options.seed, console)
        _, _, test_images, test_labels = load_digits(options.seed)
        predicted = np.asarray(predict(params, test_images))
    reached = float(np.mean(predicted == test_labels))
    stages, compile_seconds, step_seconds = timing
    table = Table(title="One training step", show_header=False)
    table.add_row("device", options.device)
    table.add_row("kernels", str(len(stages.kernels)))
    table.add_row("trace and compile", f"{compile_seconds:.2f} s")
    table.add_row("time per step", f"{step_seconds * 1e3:.2f} ms")
    table.add_row("images per second", f"{BATCH / step_seconds:,.0f}")
    table.add_row("test accuracy", f"{reached:.2%} of {len(test_labels)} images")
    console.print(table)
    for path in save_pictures(options.out, losses, test_images, test_labels, predicted):
        console.print(f"saved {path}")
    if reached < REQUIRED_ACCURACY:
        console.print(f"[red]below the required {REQUIRED_ACCURACY:.0%}[/red]")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
