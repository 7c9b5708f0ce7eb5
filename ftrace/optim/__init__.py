"""Optimizers: pure functions from gradients to updates, with the names of optax.

base         what an optimizer is; chains, masks
optimizers   Adam and its kin, and what they are chains of
scaling      more transformations that scale updates
aliases      more optimizers
wrappers     transformations of transformations: steps that are skipped, parts, clipping
linesearch   steps of a length that is searched for; L-BFGS
schedules, losses, tree   values of the number of steps; losses; arithmetic of trees
"""

# ruff: noqa: F403

from ftrace.optim import (
    linesearch as _linesearch,
    losses as losses,
    optimizers as _optimizers,
    scaling as _scaling,
    schedules as schedules,
    tree as tree,
)
from ftrace.optim.aliases import *
from ftrace.optim.base import *
from ftrace.optim.linesearch import *
from ftrace.optim.losses import *
from ftrace.optim.optimizers import *
from ftrace.optim.scaling import *
from ftrace.optim.schedules import *
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
MultiTransformState = PartitionState  # noqa: F405
