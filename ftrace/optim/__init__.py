"""Optimizers: pure functions from gradients to updates, with the names of optax.

The modules, from the ground up:

    second_order      Second derivatives of losses `loss(params, inputs, targets)`
    tree              Arithmetic of trees of arrays: `optim.tree.add(x, y)`
    base              What an optimizer is; chains and masks
    linear_algebra    Eigenvalues, roots of matrices and least squares, by iterations
    perturbations     Functions smoothed by noise, so that they have derivatives
    projections       Projections of trees onto convex sets
    tree_utils        The functions of `tree` by their longer names
    losses            Losses, example by example
    optimizers        Adam, SGD and their kin, and the transformations they are chains
                      of
    schedules         Values of the number of steps; hyperparameters in the state
    linesearch        Steps of a length that is searched for; L-BFGS
    scaling           More transformations that scale updates
    wrappers          Transformations of transformations: skipped steps, parts;
                      clipping; what is measured
    aliases           More optimizers
"""

# ruff: noqa: F403

from importlib import import_module
from typing import Any

from ftrace.ground.missing_names import tell_missing as _tell_missing
from ftrace.optim import (
    linesearch as _linesearch,
    losses as losses,
    optimizers as _optimizers,
    projections as projections,
    scaling as _scaling,
    schedules as schedules,
    tree as tree,
    wrappers as _wrappers,
)
from ftrace.optim.aliases import *
from ftrace.optim.base import *
from ftrace.optim.base import EmptyState as EmptyState
from ftrace.optim.linesearch import *
from ftrace.optim.losses import *
from ftrace.optim.optimizers import *
from ftrace.optim.scaling import *
from ftrace.optim.schedules import *
from ftrace.optim.tree import (
    bias_correction as bias_correction,
    update_infinity_moment as update_infinity_moment,
    update_moment as update_moment,
    update_moment_per_elem_norm as update_moment_per_elem_norm,
)
from ftrace.optim.wrappers import *

# States by their names in optax.
ScaleByAdamState = ScaleByBeliefState = ScaleByNovogradState = _optimizers.MomentState
ScaleByRmsState = ScaleByRStdDevState = _optimizers.MomentState
ScaleByScheduleState, TraceState = _optimizers.CountState, _optimizers.TraceState
ScaleByRssState, ScaleByLionState = _optimizers.RssState, _optimizers.LionState
ScaleByAmsgradState, ScaleByAdanState = _scaling.AmsgradState, _scaling.AdanState
ScaleByAdaDeltaState, EmaState = _scaling.AdaDeltaState, _scaling.EmaState
ScaleByRpropState, ApplyEvery = _scaling.RpropState, _scaling.ApplyEveryState
ScaleBySM3State, FactoredState = _scaling.SM3State, _scaling.FactoredState
ScaleByLBFGSState = _linesearch.ScaleByLBFGSState
ScaleByZoomLinesearchState = _linesearch.LinesearchState
ScaleByBacktrackingLinesearchState = _linesearch.LinesearchState
ZoomLinesearchInfo = _linesearch.ZoomLinesearchInfo
tree_map_params = tree.map_params
MultiTransformState = PartitionState  # noqa: F405

# States that are none, or have other names here.
AdaptiveGradClipState = AddDecayedWeightsState = ClipByGlobalNormState = EmptyState
ClipState = NonNegativeParamsState = ScaleByTrustRatioState = ScaleState = EmptyState
AddNoiseState, ZeroNansState = _wrappers.AddNoiseState, _wrappers.ZeroNansState
ConditionallyMaskState = _wrappers.ConditionallyMaskState
ConditionallyTransformState = _wrappers.ConditionallyTransformState

#: Modules that few ask for, and names in them.
_LATER = {
    "matrix_inverse_pth_root": "linear_algebra", "multi_normal": "perturbations",
    "nnls": "linear_algebra", "power_iteration": "linear_algebra",
    **dict.fromkeys(("perturbations", "second_order", "tree_utils")),
}  # fmt: skip


#: What is in optax, and not here.
_OF_OPTAX = ("assignment", "contrib", "experimental", "microbatch", "microbatching")


def __getattr__(name: str) -> Any:
    if name == "transforms":  # all its names are here
        return import_module(__name__)
    if name not in _LATER:
        known = "it is in optax, which runs after ftrace.compat.install_as_jax()"
        more = f": not there yet; {known}" if name in _OF_OPTAX else ""
        text = f"module {__name__!r} has no attribute {name!r}{more}"
        raise AttributeError(text, name=name)
    module = import_module(f"{__name__}.{_LATER[name] or name}")
    return getattr(module, name) if _LATER[name] else module


#: Modules that are optax's, too.
_MODULES = ("losses", "projections", "schedules", "tree")
_tell_missing(__name__, (*_LATER, *_MODULES))
