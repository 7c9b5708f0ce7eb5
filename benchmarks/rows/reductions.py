"""Sums, maxima, and the normalisations made of them."""

from __future__ import annotations

from typing import Any

from benchmarks.inputs import integers, normal
from benchmarks.row import Family

FAMILY = Family("reduction")


@FAMILY.row("sum 16M", lambda: (normal(16 << 20) + 1,), bytes=True)
def sum_all(lib: Any) -> Any:
    return lib.np.sum


@sum_all.peer("torch", "numpy")
def _(module: Any) -> Any:
    return module.sum


@FAMILY.row("sum axis 0, 4096²", lambda: (normal(4096, 4096),), bytes=True)
def sum_rows(lib: Any) -> Any:
    return lambda x: lib.np.sum(x, axis=0)


@sum_rows.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda x: x.sum(0)


@FAMILY.row("mean + var axis 0, 4096×1024", lambda: (normal(4096, 1024),), bytes=True)
def moments(lib: Any) -> Any:
    return lambda x: (lib.np.mean(x, axis=0), lib.np.var(x, axis=0))


@moments.peer("numpy")
def _(_: Any) -> Any:
    return lambda x: (x.mean(0), x.var(0))


@moments.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.var_mean(x, 0, correction=0)[::-1]


@FAMILY.row("max + argmax axis 1, 4096×1024", lambda: (normal(4096, 1024),), bytes=True)
def greatest(lib: Any) -> Any:
    return lambda x: (lib.np.max(x, axis=1), lib.np.argmax(x, axis=1))


@greatest.peer("numpy")
def _(_: Any) -> Any:
    return lambda x: (x.max(1), x.argmax(1))


@greatest.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: tuple(torch.max(x, 1))


@FAMILY.row("softmax 2048²", lambda: (normal(2048, 2048),), bytes=True)
def softmax(lib: Any) -> Any:
    return lib.nn.softmax


@softmax.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.softmax(x, -1)


@softmax.peer("numpy")
def _(np: Any) -> Any:
    def normalised(x: Any) -> Any:
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    return normalised


def normalised_rows() -> tuple[Any, ...]:
    return normal(2048, 2048), normal(2048, seed=1), normal(2048, seed=2)


@FAMILY.row("layer norm 2048²", normalised_rows, bytes=True)
def layer_norm(lib: Any) -> Any:
    np = lib.np

    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        mean = np.mean(x, axis=-1, keepdims=True)
        variance = np.var(x, axis=-1, keepdims=True)
        return (x - mean) * lib.lax.rsqrt(variance + 1e-5) * scale + shift

    return normalised


@layer_norm.peer("torch")
def _(torch: Any) -> Any:
    return lambda x, scale, shift: torch.nn.functional.layer_norm(
        x, (2048,), scale, shift
    )


@layer_norm.peer("numpy")
def _(np: Any) -> Any:
    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + shift

    return normalised


def many_classes() -> tuple[Any, ...]:
    return normal(256, 10_000), integers(256, high=10_000, seed=1)


@FAMILY.row("cross-entropy + gradient 256×10,000", many_classes, bytes=True)
def cross_entropy(lib: Any) -> Any:
    def loss(logits: Any, labels: Any) -> Any:
        wanted = lib.nn.one_hot(labels, logits.shape[-1])
        return -lib.np.mean(lib.np.sum(lib.nn.log_softmax(logits) * wanted, axis=-1))

    return lib.value_and_grad(loss)


@cross_entropy.peer("torch")
def _(torch: Any) -> Any:
    def value_and_grad(logits: Any, labels: Any) -> Any:
        with torch.enable_grad():
            logits = logits.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(logits, labels.long())
            return loss, torch.autograd.grad(loss, logits)[0]

    return value_and_grad


def rms_inputs() -> tuple[Any, ...]:
    return normal(4096, 1024), normal(1024, seed=1), normal(4096, 1024, seed=2)


def rms_norm(x: Any, scale: Any, rsqrt: Any) -> Any:
    return x * rsqrt((x * x).mean(-1)[:, None] + 1e-6) * scale


@FAMILY.row("RMS norm, both gradients 4096×1024", rms_inputs, bytes=True)
def rms_gradients(lib: Any) -> Any:
    def loss(x: Any, scale: Any, target: Any) -> Any:
        return lib.np.sum(rms_norm(x, scale, lib.lax.rsqrt) * target)

    return lib.grad(loss, argnums=(0, 1))


@rms_gradients.peer("torch")
def _(torch: Any) -> Any:
    def gradients(x: Any, scale: Any, target: Any) -> Any:
        with torch.enable_grad():
            x, scale = x.detach().requires_grad_(), scale.detach().requires_grad_()
            loss = (rms_norm(x, scale, torch.rsqrt) * target).sum()
            return torch.autograd.grad(loss, (x, scale))

    return gradients


@FAMILY.row(
    "pairwise distances → logsumexp 1024×1024×16",
    lambda: (normal(1024, 16), normal(1024, 16, seed=1)),
)
def pairwise(lib: Any) -> Any:
    np = lib.np

    def energies(x: Any, y: Any) -> Any:
        squares = np.sum((x[:, None] - y[None]) ** 2, axis=-1)
        return lib.nn.logsumexp(-squares, axis=1)

    return energies


@pairwise.peer("torch")
def _(torch: Any) -> Any:
    return lambda x, y: torch.logsumexp(-torch.cdist(x, y).square(), 1)


@FAMILY.row("n-body forces 1024", lambda: (normal(1024, 3), normal(1024, seed=1)))
def n_body(lib: Any) -> Any:
    np = lib.np

    def forces(places: Any, masses: Any) -> Any:
        between = places[None] - places[:, None]
        squares = np.sum(between**2, axis=-1) + 1e-2
        weight = masses[None] * lib.lax.rsqrt(squares) / squares
        return np.sum(between * weight[..., None], axis=1)

    return forces


@n_body.peer("torch")
def _(torch: Any) -> Any:
    def forces(places: Any, masses: Any) -> Any:
        between = places[None] - places[:, None]
        squares = between.square().sum(-1) + 1e-2
        weight = masses[None] * torch.rsqrt(squares) / squares
        return (between * weight[..., None]).sum(1)

    return forces
