"""The models of `models.py` as torch writes them, eagerly; given the module."""

from __future__ import annotations

from typing import Any

from benchmarks.libraries import leaves, map_tree

Params = dict[str, Any]


def cross_entropy(torch: Any, logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits, labels.long())


def mlp_loss(torch: Any) -> Any:
    def loss(params: list[Params], x: Any, labels: Any) -> Any:
        for layer in params[:-1]:
            x = torch.relu(torch.addmm(layer["b"], x, layer["w"]))
        return cross_entropy(
            torch, torch.addmm(params[-1]["b"], x, params[-1]["w"]), labels
        )

    return loss


def cnn_loss(torch: Any) -> Any:
    functional = torch.nn.functional

    def convolved(layer: Params, x: Any) -> Any:
        x = functional.conv2d(x, layer["w"], layer["b"].reshape(-1), padding=1)
        return functional.max_pool2d(torch.relu(x), 2)

    def loss(params: Params, images: Any, labels: Any) -> Any:
        x = convolved(params["conv2"], convolved(params["conv1"], images)).flatten(1)
        first, second = params["dense1"], params["dense2"]
        x = torch.relu(torch.addmm(first["b"], x, first["w"]))
        return cross_entropy(torch, torch.addmm(second["b"], x, second["w"]), labels)

    return loss


def block_loss(torch: Any, heads: int) -> Any:
    functional = torch.nn.functional

    def normalised(layer: Params, x: Any) -> Any:
        return functional.layer_norm(x, x.shape[-1:], layer["scale"], layer["shift"])

    def attention(params: Params, x: Any) -> Any:
        batch, length, width = x.shape
        qkv = (x @ params["qkv"]).reshape(batch, length, 3, heads, width // heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, width) @ params["out"]

    def loss(params: Params, x: Any, target: Any) -> Any:
        x = x + attention(params, normalised(params["norm1"], x))
        hidden = normalised(params["norm2"], x) @ params["up"]["w"] + params["up"]["b"]
        hidden = functional.gelu(hidden, approximate="tanh")
        x = x + hidden @ params["down"]["w"] + params["down"]["b"]
        return (x - target).square().mean()

    return loss


def value_and_grad(torch: Any, loss: Any) -> Any:
    """A loss of a tree of parameters -> its value and the gradients as a list."""

    def both(params: Any, *batch: Any) -> Any:
        with torch.enable_grad():
            params = map_tree(lambda p: p.detach().requires_grad_(), params)
            value = loss(params, *batch)
            return value.detach(), torch.autograd.grad(value, list(leaves(params)))

    return both


def sgd_step(torch: Any, loss: Any, rate: float = 0.01) -> Any:
    differentiate = value_and_grad(torch, loss)

    def step(params: Any, *batch: Any) -> Any:
        value, grads = differentiate(params, *batch)
        moved = torch._foreach_add(list(leaves(params)), grads, alpha=-rate)
        return moved, value

    return step


def adam_step(torch: Any, loss: Any, rate: float = 1e-3) -> Any:
    differentiate = value_and_grad(torch, loss)

    def step(params: Any, means: Any, squares: Any, *batch: Any) -> Any:
        value, grads = differentiate(params, *batch)
        m = torch._foreach_mul(list(leaves(means)), 0.9)
        torch._foreach_add_(m, grads, alpha=0.1)
        s = torch._foreach_mul(list(leaves(squares)), 0.999)
        torch._foreach_addcmul_(s, grads, grads, 0.001)
        root = torch._foreach_sqrt(torch._foreach_div(s, 0.001))
        torch._foreach_add_(root, 1e-8)
        p = torch._foreach_addcdiv(list(leaves(params)), m, root, -rate / 0.1)
        return p, m, s, value

    return step
