"""Losses, example by example: take their mean.

Classification takes logits of float dtypes; `where` masks classes, `axis` is theirs.
"""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes, lax, nn
from ftrace.errors import ShapeError, one_of
from ftrace.optim.projections import projection_simplex
from ftrace.transforms.vmap import vmap

__all__ = [
    "binary_dice_loss", "convex_kl_divergence", "cosine_distance", "cosine_similarity",
    "ctc_loss", "ctc_loss_with_forward_probs", "dice_loss", "generalized_kl_divergence",
    "hinge_loss", "huber_loss", "kl_divergence", "kl_divergence_with_log_targets",
    "l2_loss", "log_cosh", "make_fenchel_young_loss",
    "multiclass_generalized_dice_loss", "multiclass_hinge_loss",
    "multiclass_perceptron_loss", "multiclass_sparsemax_loss", "ntxent",
    "perceptron_loss", "poly_loss_cross_entropy", "ranking_softmax_loss",
    "safe_softmax_cross_entropy", "sigmoid_binary_cross_entropy", "sigmoid_focal_loss",
    "smooth_labels", "softmax_cross_entropy",
    "softmax_cross_entropy_with_integer_labels", "sparsemax_loss", "squared_error",
    "triplet_margin_loss",
]  # fmt: skip


def _of_kind(name: str, kind: str, *values: Any) -> list[Any]:
    """Arrays of floats, or of integers.

    Raises:
      DtypeError: one is none.
    """
    arrays = [fnp.asarray(x) for x in values]
    for x in arrays:
        dtypes.require_kind(name, kind, x.dtype)
    return arrays


def _errors(name: str, predictions: Any, targets: Any) -> Any:
    (predictions,) = _of_kind(name, "f", predictions)
    if targets is None:
        return predictions
    if fnp.shape(targets) != predictions.shape:
        raise ShapeError(
            f"{name}: predictions and targets must have one shape, got "
            f"{predictions.shape} and {fnp.shape(targets)}"
        )
    return predictions - targets


# Regression.


def squared_error(predictions: Any, targets: Any = None) -> Any:
    """(predictions - targets)², elementwise.

    Args:
      predictions: an array of floats.
      targets: an array of the same shape; None is 0.

    Raises:
      ShapeError: the shapes differ.
      DtypeError: the predictions are not of floats.

    Example:
      >>> from ftrace import optim
      >>> optim.squared_error(fnp.array([1.0, 4.0]), fnp.array([1.0, 1.0]))
      Array([0., 9.], dtype=float32)
    """
    return _errors("squared_error", predictions, targets) ** 2


def l2_loss(predictions: Any, targets: Any = None) -> Any:
    """Half the squared error: (predictions - targets)²/2, elementwise.

    Args:
      predictions: an array of floats.
      targets: an array of the same shape; None is 0.

    Raises:
      ShapeError: the shapes differ.
      DtypeError: the predictions are not of floats.

    Example:
      >>> from ftrace import optim
      >>> optim.l2_loss(fnp.array([1.0, 4.0]), fnp.array([1.0, 1.0]))
      Array([0. , 4.5], dtype=float32)
    """
    return 0.5 * _errors("l2_loss", predictions, targets) ** 2


def huber_loss(predictions: Any, targets: Any = None, *, delta: Any = 1.0) -> Any:
    """Half the squared error up to an error of `delta`, linear beyond (Huber, 1964).

    Args:
      predictions: an array of floats.
      targets: an array that broadcasts with it; None is 0.
      delta: the error where the one becomes the other.

    Returns:
      Elementwise e²/2 where e = |predictions - targets| ≤ delta, else delta·(e -
      delta/2).

    Example:
      >>> from ftrace import optim
      >>> optim.huber_loss(fnp.array([0.5, 10.0]), fnp.zeros(2))
      Array([0.125, 9.5  ], dtype=float32)
    """
    (predictions,) = _of_kind("huber_loss", "f", predictions)
    size = fnp.abs(predictions if targets is None else predictions - targets)
    near = fnp.minimum(size, delta)
    return 0.5 * near**2 + delta * (size - near)


def log_cosh(predictions: Any, targets: Any = None) -> Any:
    """log(cosh(predictions - targets)), without overflow, elementwise.

    Args:
      predictions: an array of floats.
      targets: an array that broadcasts with it; None is 0.

    Example:
      >>> from ftrace import optim
      >>> optim.log_cosh(fnp.array([0.0, 1000.0]))
      Array([  0.    , 999.3068], dtype=float32)
    """
    (predictions,) = _of_kind("log_cosh", "f", predictions)
    error = predictions if targets is None else predictions - targets
    return fnp.logaddexp(error, -error) - math.log(2)


def cosine_similarity(
    predictions: Any, targets: Any, *, epsilon: Any = 0.0, axis: Any = -1,
    where: Any = None,
) -> Any:  # fmt: skip
    """The cosine of the angle between vectors: ⟨p, t⟩ / (|p|·|t|).

    Args:
      predictions, targets: floats, of one shape.
      epsilon: the least that a squared norm is taken for.
      axis: of the components.
      where: a mask of the components that count.

    Returns:
      Without that axis.

    Example:
      >>> from ftrace import optim
      >>> optim.cosine_similarity(fnp.array([1.0, 0.0]), fnp.array([1.0, 1.0]))
      Array(0.70710677, dtype=float32)
    """
    units: list[Any] = []
    for x in _of_kind("cosine_similarity", "f", predictions, targets):
        square = fnp.sum(fnp.square(x), axis=axis, where=where, keepdims=True)
        units.append(x / fnp.sqrt(fnp.clip(square, epsilon)))
    return fnp.sum(units[0] * units[1], axis=axis, where=where)


def cosine_distance(
    predictions: Any, targets: Any, *, epsilon: Any = 0.0, axis: Any = -1,
    where: Any = None,
) -> Any:  # fmt: skip
    """1 - `cosine_similarity`.

    Args:
      predictions, targets, epsilon, axis, where: as those of `cosine_similarity`.

    Example:
      >>> ft.optim.cosine_distance(fnp.array([2.0, -1.0]), fnp.array([1.0, 0.0]))
      Array(0.10557282, dtype=float32)
    """
    return 1.0 - cosine_similarity(
        predictions, targets, epsilon=epsilon, axis=axis, where=where
    )


# Two classes.


def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Any:
    """The cross entropy of independent classes: -y·log σ(x) - (1 - y)·log(1 - σ(x)).

    Args:
      logits: an array of floats x, before the sigmoid.
      labels: y in [0, 1], of a shape that broadcasts with it.

    Returns:
      Elementwise; sum or average it.

    Example:
      >>> from ftrace import optim
      >>> logits, labels = fnp.array([0.0, 100.0]), fnp.array([1.0, 0.0])
      >>> optim.sigmoid_binary_cross_entropy(logits, labels)
      Array([  0.6931472, 100.       ], dtype=float32)
    """
    (logits,) = _of_kind("sigmoid_binary_cross_entropy", "f", logits)
    labels = fnp.asarray(labels).astype(logits.dtype)
    return -labels * nn.log_sigmoid(logits) - (1 - labels) * nn.log_sigmoid(-logits)


def sigmoid_focal_loss(
    logits: Any, labels: Any, *, alpha: Any = None, gamma: Any = 2.0
) -> Any:
    """Cross entropy, less where predictions are sure (Lin et al., 2017).

    Args:
      logits: of independent classes.
      labels: in [0, 1].
      alpha: the weight of positive labels, against 1 - alpha; None is none.
      gamma: the power of the probability of error that it is weighed with.

    Returns:
      Elementwise.

    Example:
      >>> ft.optim.sigmoid_focal_loss(fnp.array([2.0, -1.0]), fnp.array([1.0, 0.0]))
      Array([0.00180356, 0.02265805], dtype=float32)
    """
    loss = sigmoid_binary_cross_entropy(logits, labels)
    labels = fnp.asarray(labels).astype(loss.dtype)
    yes = labels >= 0.5
    soft = fnp.where(yes, labels, 1 - labels)
    x = fnp.where(yes, -logits, logits)
    # log(p(1 - y) + (1 - p)y), of which the second term is none for labels 0 and 1.
    other = -x + fnp.log1p(-soft) - fnp.log(soft)
    weight = fnp.exp(gamma * (nn.log_sigmoid(x) + fnp.log(soft) + nn.softplus(other)))
    if alpha is None:
        return loss * weight
    return (alpha * labels + (1 - alpha) * (1 - labels)) * loss * weight


def hinge_loss(predictor_outputs: Any, targets: Any) -> Any:
    """max(0, 1 - output·target), elementwise.

    Args:
      predictor_outputs: an array of floats.
      targets: -1 or 1, of a shape that broadcasts with it.

    Example:
      >>> from ftrace import optim
      >>> optim.hinge_loss(fnp.array([2.0, 0.25]), fnp.array([1.0, 1.0]))
      Array([0.  , 0.75], dtype=float32)
    """
    return fnp.maximum(0, 1 - predictor_outputs * targets)


def perceptron_loss(predictor_outputs: Any, targets: Any) -> Any:
    """max(0, -output · target), for targets -1 and 1.

    Args:
      predictor_outputs: an array of floats.
      targets: -1 or 1, of a shape that broadcasts with it.

    Returns:
      Elementwise.

    Example:
      >>> ft.optim.perceptron_loss(fnp.array([2.0, -1.0]), fnp.array([1.0, 0.0]))
      Array([0., 0.], dtype=float32)
    """
    return fnp.maximum(0, -fnp.asarray(predictor_outputs) * targets)


def sparsemax_loss(logits: Any, labels: Any) -> Any:
    """Sparsemax's loss of two classes (Martins, Astudillo, 2016).

    Args:
      logits: an array of floats.
      labels: 0 or 1, of the same shape.

    Returns:
      Elementwise.

    Example:
      >>> ft.optim.sparsemax_loss(fnp.array([2.0, -1.0]), fnp.array([1, 0]))
      Array([0., 0.], dtype=float32)
    """
    return nn.sparse_plus(fnp.where(labels, -fnp.asarray(logits), logits))


# Several classes.


def _expand_mask(where: Any, ndim: int, axis: Any) -> Any:
    if where is None or where.ndim == ndim:
        return where
    return fnp.expand_dims(where, axis)


def softmax_cross_entropy(
    logits: Any, labels: Any, axis: Any = -1, where: Any = None
) -> Any:
    """The cross entropy of one choice: -Σ labels·log_softmax(logits).

    Args:
      logits: an array of floats, with an axis of classes.
      labels: probabilities of the classes, of the same shape.
      axis: that of the classes, or several.
      where: a mask of the classes that count.

    Returns:
      Without that axis; average it.

    Example:
      >>> from ftrace import optim
      >>> optim.softmax_cross_entropy(fnp.array([[0.0, 0.0]]), fnp.array([[1.0, 0.0]]))
      Array([0.6931472], dtype=float32)
    """
    (logits,) = _of_kind("softmax_cross_entropy", "f", logits)
    where = _expand_mask(where, logits.ndim, axis)
    chances = nn.log_softmax(logits, axis, where)
    return -fnp.sum(labels * chances, axis=axis, where=where)


def safe_softmax_cross_entropy(logits: Any, labels: Any) -> Any:
    """As `softmax_cross_entropy`; logits of -inf are right where labels are 0.

    Args:
      logits: floats, with the classes along the last axis.
      labels: probabilities of the classes, of the same shape.

    Returns:
      Without the last axis.

    Example:
      >>> logits, labels = fnp.array([2.0, -1.0]), fnp.array([1.0, 0.0])
      >>> ft.optim.safe_softmax_cross_entropy(logits, labels)
      Array(0.04858733, dtype=float32)
    """
    (logits,) = _of_kind("safe_softmax_cross_entropy", "f", logits)
    chances = nn.log_softmax(logits, -1)
    return -fnp.sum(fnp.where(labels != 0, labels * chances, 0), axis=-1)


def softmax_cross_entropy_with_integer_labels(
    logits: Any, labels: Any, axis: Any = -1, where: Any = None
) -> Any:
    """The cross entropy of one choice; labels are the numbers of classes.

    Args:
      logits: with an axis of classes.
      labels: integers, without it.
      axis: that of the classes, or several, which count as one in row-major order.
      where: which classes count.

    Returns:
      logsumexp(logits) - logits[label], of the shape of the labels; average it.

    Example:
      >>> from ftrace import optim
      >>> logits = fnp.array([[2.0, 0.0], [0.0, 0.0]])
      >>> optim.softmax_cross_entropy_with_integer_labels(logits, fnp.array([0, 1]))
      Array([0.12692809, 0.6931472 ], dtype=float32)
    """
    name = "softmax_cross_entropy_with_integer_labels"
    (logits,), (labels,) = _of_kind(name, "f", logits), _of_kind(name, "iu", labels)
    where = _expand_mask(where, logits.ndim, axis)
    if isinstance(axis, tuple):
        axes = [a % logits.ndim for a in axis]
        rest = [a for a in range(logits.ndim) if a not in axes]

        def join(x: Any) -> Any:
            x = fnp.transpose(x, (*rest, *axes))
            return fnp.reshape(x, (*x.shape[: len(rest)], -1))

        logits, axis = join(logits), -1
        where = None if where is None else join(where)
    at = fnp.expand_dims(labels, axis)
    chosen = fnp.squeeze(fnp.take_along_axis(logits, at, axis), axis)
    loss = nn.logsumexp(logits, axis=axis, where=where) - chosen
    return loss if where is None else fnp.where(fnp.any(where, axis), loss, 0.0)


def poly_loss_cross_entropy(
    logits: Any, labels: Any, *, epsilon: Any = 2.0, axis: Any = -1, where: Any = None
) -> Any:
    """Cross entropy plus `epsilon` times the chance of error (Leng et al., 2022).

    Args:
      logits: an array of floats, with an axis of classes.
      labels: probabilities of the classes, of the same shape.
      epsilon: the factor; 0 is plain cross entropy.
      axis: that of the classes.
      where: a mask of the classes that count.

    Returns:
      Without that axis.

    Example:
      >>> logits, labels = fnp.array([2.0, -1.0]), fnp.array([1.0, 0.0])
      >>> ft.optim.poly_loss_cross_entropy(logits, labels)
      Array(0.14343907, dtype=float32)
    """
    logits, labels = _of_kind("poly_loss_cross_entropy", "f", logits, labels)
    miss = labels * (1 - nn.softmax(logits, axis=axis, where=where))
    loss = softmax_cross_entropy(logits, labels, axis, where)
    return loss + epsilon * fnp.sum(miss, axis=axis, where=where)


def multiclass_hinge_loss(scores: Any, labels: Any) -> Any:
    """How much another class's score, plus 1, exceeds that of the label.

    Args:
      scores: (…, classes).
      labels: (…), the numbers of classes.

    Returns:
      (…).

    Example:
      >>> ft.optim.multiclass_hinge_loss(fnp.array([2.0, -1.0, 1.5]), fnp.array(0))
      Array(0.5, dtype=float32)
    """
    chosen = nn.one_hot(labels, scores.shape[-1])
    return fnp.max(scores + 1 - chosen, axis=-1) - fnp.sum(scores * chosen, axis=-1)


def multiclass_perceptron_loss(scores: Any, labels: Any) -> Any:
    """How much the greatest score exceeds that of the label.

    Args:
      scores: (…, classes).
      labels: (…), the numbers of classes.

    Returns:
      (…).

    Example:
      >>> ft.optim.multiclass_perceptron_loss(fnp.array([2.0, -1.0, 1.5]), fnp.array(0))
      Array(0., dtype=float32)
    """
    chosen = nn.one_hot(labels, scores.shape[-1])
    return fnp.max(scores, axis=-1) - fnp.sum(scores * chosen, axis=-1)


def multiclass_sparsemax_loss(scores: Any, labels: Any) -> Any:
    """Sparsemax's loss (Martins, Astudillo, 2016); labels are numbers of classes.

    Args:
      scores: (…, classes).
      labels: (…).

    Returns:
      (…).
    """

    def loss(scores: Any, label: Any) -> Any:
        chances = projection_simplex(scores)
        above = fnp.where(chances > 0, scores - scores[label], 0)
        return fnp.dot(chances, above) + 0.5 * (1 - fnp.dot(chances, chances))

    return vmap(loss)(fnp.asarray(scores), labels)


def make_fenchel_young_loss(max_fun: Callable[..., Any]) -> Callable[..., Any]:
    """`loss(scores, targets) = max_fun(scores) - ⟨targets, scores⟩`, for each row.

    Source: M. Blondel et al., "Learning with Fenchel-Young losses", 2020.

    Args:
      max_fun: a function of one row of scores, such as `nn.logsumexp`.

    Returns:
      A function of (…, classes) scores and targets to (…).

    Example:
      >>> loss = ft.optim.make_fenchel_young_loss(fnp.max)
      >>> loss(fnp.array([2.0, -1.0]), fnp.array([0.0, 1.0]))
      Array(3., dtype=float32)
    """
    most = fnp.vectorize(max_fun, signature="(n)->()")

    def loss(scores: Any, targets: Any, *args: Any, **kwargs: Any) -> Any:
        return most(scores, *args, **kwargs) - fnp.sum(targets * scores, -1)

    return loss


def ranking_softmax_loss(
    logits: Any, labels: Any, *, where: Any = None, weights: Any = None,
    reduce_fn: Any = fnp.mean,
) -> Any:  # fmt: skip
    """The cross entropy of items in lists, whose labels say how relevant they are.

    Args:
      logits, labels: (..., items).
      where: which items count.
      weights: of the items.
      reduce_fn: over lists; None keeps the losses.

    Source: Z. Cao et al., "Learning to rank: from pairwise to listwise", 2007.

    Example:
      >>> ft.optim.ranking_softmax_loss(fnp.array([2.0, -1.0]), fnp.array([1.0, 0.0]))
      Array(0.04858733, dtype=float32)
    """
    (logits,) = _of_kind("ranking_softmax_loss", "f", logits)
    labels = fnp.asarray(labels).astype(logits.dtype)
    if where is not None:
        labels = fnp.where(where, labels, 0)
        logits = fnp.where(where, logits, -fnp.inf)
    labels = labels if weights is None else labels * weights
    terms = labels * nn.log_softmax(logits)
    loss = -fnp.sum(terms, -1, where=where)
    some = None if where is None else fnp.any(where, -1)
    if reduce_fn is None:
        return loss if some is None else fnp.where(some, loss, 0)
    found = reduce_fn(loss, where=some)
    if reduce_fn is not fnp.mean or some is None:
        return found
    return fnp.where(fnp.any(some), found, 0)


def smooth_labels(labels: Any, alpha: Any, *, axis: Any = -1, where: Any = None) -> Any:
    """Labels mixed with the uniform distribution: (1 - alpha)·labels + alpha/classes.

    Args:
      labels: probabilities, with an axis of classes.
      alpha: the part of the uniform distribution.
      axis: that of the classes.
      where: a mask of the classes that count.

    Example:
      >>> from ftrace import optim
      >>> optim.smooth_labels(fnp.array([0.0, 1.0]), 0.1)
      Array([0.05, 0.95], dtype=float32)
    """
    (labels,) = _of_kind("smooth_labels", "f", labels)
    count = (
        fnp.size(labels, axis) if where is None else fnp.sum(where, axis, keepdims=True)
    )
    return (1 - alpha) * labels + alpha / count


# Distributions.


def kl_divergence(
    log_predictions: Any, targets: Any, axis: Any = -1, where: Any = None
) -> Any:
    """Σ t·(log t - log p), of targets t that are probabilities.

    Args:
      log_predictions: log p, with an axis of classes.
      targets: t, of the same shape; where it is 0 the term is 0.
      axis: that of the classes.
      where: a mask of the classes that count.

    Returns:
      Without that axis.

    Example:
      >>> from ftrace import optim
      >>> optim.kl_divergence(fnp.log(fnp.array([0.5, 0.5])), fnp.array([1.0, 0.0]))
      Array(0.6931472, dtype=float32)
    """
    log_predictions, targets = _of_kind("kl_divergence", "f", log_predictions, targets)
    some = targets != 0
    logs = fnp.where(some, fnp.log(fnp.where(some, targets, 1)), 0)
    return fnp.sum(targets * (logs - log_predictions), axis=axis, where=where)


def kl_divergence_with_log_targets(
    log_predictions: Any, log_targets: Any, axis: Any = -1, where: Any = None
) -> Any:
    """As `kl_divergence`, of logarithms of targets.

    Args:
      log_predictions: log p, with an axis of classes.
      log_targets: log t, of the same shape.
      axis: that of the classes.
      where: a mask of the classes that count.

    Returns:
      Without that axis.

    Example:
      >>> q, p = fnp.array([0.25, 0.75]), fnp.array([0.5, 0.5])
      >>> ft.optim.kl_divergence_with_log_targets(fnp.log(q), fnp.log(p))
      Array(0.14384104, dtype=float32)
    """
    name = "kl_divergence_with_log_targets"
    predicted, wanted = _of_kind(name, "f", log_predictions, log_targets)
    return fnp.sum(fnp.exp(wanted) * (wanted - predicted), axis=axis, where=where)


def generalized_kl_divergence(
    log_predictions: Any, targets: Any, axis: Any = -1, where: Any = None
) -> Any:
    """As `kl_divergence` of measures: convex in both, 0 where they are the same.

    Args:
      log_predictions: log p, with an axis of classes.
      targets: t, of the same shape.
      axis: that of the classes.
      where: a mask of the classes that count.

    Returns:
      Σ t·(log t - log p) - t + p, without that axis.

    Example:
      >>> q, p = fnp.array([0.25, 0.75]), fnp.array([0.5, 0.5])
      >>> ft.optim.generalized_kl_divergence(fnp.log(q), p)
      Array(0.14384104, dtype=float32)
    """
    rest = fnp.sum(fnp.exp(log_predictions) - targets, axis=axis, where=where)
    return kl_divergence(log_predictions, targets, axis, where) + rest


convex_kl_divergence = generalized_kl_divergence


# Sequences.


def ctc_loss_with_forward_probs(
    logits: Any, logit_paddings: Any, labels: Any, label_paddings: Any, *,
    blank_id: int = 0, log_epsilon: float = -1e5,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Connectionist temporal classification (Graves et al., 2006).

    Args:
      logits: (batch, time, classes).
      logit_paddings: (batch, time), 1 where a sequence has ended.
      labels: (batch, length).
      label_paddings: (batch, length), 1 behind the end.
      blank_id: the class of no label.
      log_epsilon: the logarithm that stands for a probability of 0.

    Returns:
      (the losses; for each time the logarithms of the probabilities of having emitted
      n labels with a blank after them; and of having emitted n just now).

    Raises:
      ShapeError: the shapes do not fit.
    """
    (logits,) = _of_kind("ctc_loss", "f", logits)
    labels = fnp.asarray(labels)
    shapes = logits.shape[:2], labels.shape
    if logits.ndim != 3 or shapes != (
        fnp.shape(logit_paddings),
        fnp.shape(label_paddings),
    ):
        raise ShapeError(
            "ctc_loss takes logits (batch, time, classes) and labels (batch, length), "
            f"with paddings of (batch, time) and (batch, length); got {logits.shape}, "
            f"{labels.shape}, {fnp.shape(logit_paddings)}, {fnp.shape(label_paddings)}"
        )
    batch, length = labels.shape
    chances = nn.log_softmax(logits)
    blank = chances[:, :, blank_id, None].transpose(1, 0, 2)
    emit = fnp.take_along_axis(chances, labels[:, None, :], axis=2).transpose(1, 0, 2)
    same = (labels[:, :-1] == labels[:, 1:]).astype(chances.dtype)
    same = fnp.pad(same, ((0, 0), (0, 1)))  # a label again needs a blank between

    def join(blanks: Any, more: Any) -> Any:
        return fnp.concatenate(
            [blanks[:, :1], fnp.logaddexp(blanks[:, 1:], more)], axis=-1
        )

    def step(before: Any, x: Any) -> Any:
        blanks, emitted = before
        of_label, of_blank, pad = x
        ready = join(blanks, emitted + log_epsilon * same)
        now = fnp.logaddexp(ready[:, :-1] + of_label, emitted + of_label)
        later = emitted + of_blank + log_epsilon * (1 - same)
        rest = join(ready + of_blank, later)
        pad = pad[:, None]
        after = pad * blanks + (1 - pad) * rest, pad * emitted + (1 - pad) * now
        return after, after

    start = fnp.full((batch, length + 1), log_epsilon, chances.dtype).at[:, 0].set(0)
    none = fnp.full((batch, length), log_epsilon, chances.dtype)
    ended = fnp.asarray(logit_paddings).astype(chances.dtype).T
    _, (blanks, emitted) = lax.scan(step, (start, none), (emit, blank, ended))
    last = join(blanks[-1], emitted[-1])
    lengths = length - fnp.sum(label_paddings, axis=1).astype("int32")
    loss = -fnp.take_along_axis(last, lengths[:, None], axis=1)[:, 0]
    return loss, blanks.at[-1].set(last), emitted


def ctc_loss(
    logits: Any, logit_paddings: Any, labels: Any, label_paddings: Any, *,
    blank_id: int = 0, log_epsilon: float = -1e5,
) -> Any:  # fmt: skip
    """The losses of `ctc_loss_with_forward_probs`.

    Args:
      logits, logit_paddings, labels, label_paddings, blank_id, log_epsilon: as there.

    Returns:
      (batch,).

    Example:
      >>> logits, labels = fnp.zeros((1, 4, 3)), fnp.array([[1, 2]])
      >>> ft.optim.ctc_loss(logits, fnp.zeros((1, 4)), labels, fnp.zeros((1, 2)))
      Array([1.686399], dtype=float32)
    """
    return ctc_loss_with_forward_probs(
        logits, logit_paddings, labels, label_paddings,
        blank_id=blank_id, log_epsilon=log_epsilon,
    )[0]  # fmt: skip


# Embeddings and pictures.


def ntxent(embeddings: Any, labels: Any, temperature: Any = 0.07) -> Any:
    """Cross entropy of the pairs of one label among all pairs (Chen et al., 2020).

    Args:
      embeddings: (batch, features).
      labels: (batch,).
      temperature: what similarities are divided by.

    Raises:
      ShapeError: there are not as many labels as embeddings.

    Example:
      >>> x = fnp.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
      >>> ft.optim.ntxent(x, fnp.array([0, 0, 1, 1]), temperature=1.0)
      Array(0.60341614, dtype=float32)
    """
    (x,) = _of_kind("ntxent", "f", embeddings)
    labels = fnp.asarray(labels)
    if labels.shape[0] != x.shape[0]:
        raise ShapeError(
            f"ntxent: as many labels as embeddings are needed, got {labels.shape[0]} "
            f"and {x.shape[0]}"
        )
    epsilon = fnp.finfo(x.dtype).eps
    near = cosine_similarity(x[None], x[:, None], epsilon=epsilon) / temperature
    other = labels[:, None] != labels[None]
    pair = ~other & ~fnp.eye(x.shape[0], dtype=bool)
    top = fnp.max(fnp.where(other | pair, near, -fnp.inf), axis=1, keepdims=True)
    near = near - lax.stop_gradient(top)
    sizes = fnp.exp(near)
    total = fnp.sum(fnp.where(other, sizes, 0), axis=1, keepdims=True) + sizes
    logs = fnp.where(pair, near - fnp.log(fnp.where(pair, total, 1)), 0)
    return -fnp.sum(logs) / fnp.sum(pair)


def triplet_margin_loss(
    anchors: Any, positives: Any, negatives: Any, axis: Any = -1, norm_degree: Any = 2,
    margin: Any = 1.0, eps: Any = 1e-6,
) -> Any:  # fmt: skip
    """How much farther negatives are than positives, less a margin (Schroff, 2015).

    Args:
      anchors, positives, negatives: (…, features, …), of one shape.
      axis: of the features.
      norm_degree: of the norm that is the distance.
      margin: how much farther negatives are to be.
      eps: added to the sum before the root.

    Returns:
      max(|a - p| - |a - n| + margin, 0), without that axis.

    Example:
      >>> a, b, c = fnp.array([0.0, 0.0]), fnp.array([1.0, 0.0]), fnp.array([0.0, 1.5])
      >>> ft.optim.triplet_margin_loss(a, b, c)
      Array(0.5000001, dtype=float32)
    """
    a, p, n = _of_kind("triplet_margin_loss", "f", anchors, positives, negatives)

    def distance(x: Any) -> Any:
        return (fnp.sum((a - x) ** norm_degree, axis) + eps) ** (1 / norm_degree)

    return fnp.maximum(distance(p) - distance(n) + margin, 0)


def dice_loss(
    predictions: Any, targets: Any, *, class_weights: Any = None, smooth: Any = 1.0,
    alpha: Any = 0.5, beta: Any = 0.5, apply_softmax: bool = True,
    reduction: str = "mean", ignore_background: bool = False, axis: Any = None,
) -> Any:  # fmt: skip
    """1 - the overlap of predicted and true regions (Milletari et al., 2016).

    Args:
      predictions: logits (batch, ..., classes), or probabilities.
      targets: of the same shape, or without an axis of one class.
      class_weights: of each class.
      smooth: added above and below.
      alpha, beta: weights of false positives and negatives (Salehi et al., 2017).
      apply_softmax: predictions are logits.
      reduction: over classes: "mean", "sum" or "none".
      ignore_background: leave out class 0.
      axis: of the region; all but the first and the last by default.

    Example:
      >>> ft.optim.dice_loss(fnp.array([[2.0, -1.0]]), fnp.array([[1.0, 0.0]]))
      Array([0.01758125], dtype=float32)
    """
    one_of("dice_loss: reduction", reduction, ("mean", "sum", "none"))
    predictions, targets = fnp.asarray(predictions), fnp.asarray(targets)
    if predictions.ndim == targets.ndim - 1:
        predictions = predictions[..., None]
    if targets.ndim == predictions.ndim - 1:
        targets = targets[..., None]
    if apply_softmax:
        one = predictions.shape[-1] == 1
        predictions = nn.sigmoid(predictions) if one else nn.softmax(predictions)
    axis = tuple(range(1, predictions.ndim - 1)) if axis is None else axis
    both = fnp.sum(predictions * targets, axis=axis)
    extra, lost = (fnp.sum(x, axis=axis) - both for x in (predictions, targets))
    loss = 1 - (both + smooth) / (both + alpha * extra + beta * lost + smooth)
    loss = loss if class_weights is None else loss * class_weights
    if ignore_background and predictions.shape[-1] > 1:
        loss = loss[..., 1:]
    if reduction == "none":
        return loss
    return (fnp.mean if reduction == "mean" else fnp.sum)(loss, axis=-1)


def binary_dice_loss(
    predictions: Any, targets: Any, *, smooth: Any = 1.0, apply_sigmoid: bool = True
) -> Any:
    """`dice_loss` of one class, with or without an axis for it.

    Args:
      predictions: logits, or probabilities.
      targets: of the same shape.
      smooth: added above and below.
      apply_sigmoid: predictions are logits.

    Example:
      >>> ft.optim.binary_dice_loss(fnp.array([2.0, -1.0]), fnp.array([1.0, 0.0]))
      Array([0.03071606, 0.11853164], dtype=float32)
    """
    if predictions.ndim == targets.ndim and predictions.shape[-1] != 1:
        predictions, targets = predictions[..., None], targets[..., None]
    return dice_loss(predictions, targets, smooth=smooth, apply_softmax=apply_sigmoid)


def multiclass_generalized_dice_loss(
    predictions: Any, targets: Any, *, smooth: Any = 1.0, apply_softmax: bool = True,
    ignore_background: bool = False,
) -> Any:  # fmt: skip
    """`dice_loss` with weights by the inverse square of how frequent a class is.

    Args:
      predictions: logits (batch, ..., classes), or probabilities.
      targets: of the same shape.
      smooth: added above and below.
      apply_softmax: predictions are logits.
      ignore_background: leave out class 0.

    Example:
      >>> logits, labels = fnp.array([[2.0, -1.0]]), fnp.array([[1.0, 0.0]])
      >>> ft.optim.multiclass_generalized_dice_loss(logits, labels)
      Array(0.02316374, dtype=float32)
    """
    targets = fnp.asarray(targets)
    weights = 1 / (fnp.sum(targets, axis=tuple(range(targets.ndim - 1))) ** 2 + 1e-7)
    weights = weights / fnp.sum(weights) * weights.shape[0]
    loss = dice_loss(
        predictions, targets, class_weights=weights, smooth=smooth,
        apply_softmax=apply_softmax, reduction="none",
        ignore_background=ignore_background,
    )  # fmt: skip
    return fnp.mean(loss)
