"""Random numbers with explicit keys, bit for bit those of JAX's threefry keys.

    key = ftrace.random.key(0)
    first, second = ftrace.random.split(key)
    x = ftrace.random.normal(first, (3, 4))

`split` and `fold_in` make new keys; `PRNGKey` makes one that is a uint32 array.

The modules, from the ground up:

    draw             How a sampler runs: recorded in a trace, evaluated or compiled
                     elsewhere
    keys             Keys and random bits: threefry, and Philox for keys of four words
    distributions    Functions of random bits, or of a uniform or normal sample
    choice           Draws from finite sets: by logits or probabilities; rows, orders
    rejection        Samples by rejection, as JAX draws them: gamma, Poisson, binomial
"""

# ruff: noqa: F403

from ftrace.random import keys as _keys
from ftrace.random.choice import *
from ftrace.random.distributions import *
from ftrace.random.keys import *
from ftrace.random.rejection import *
from ftrace.trace.eager.dispatch import publish as _publish

_elsewhere = {
    *_keys.__all__, "binomial", "choice", "double_sided_maxwell", "multinomial",
    "weibull_min",
}  # fmt: skip
_drawn = dict.fromkeys({*globals()} - _elsewhere, ("out_sharding",))
# What is folded in is another number at each call.
_publish(__name__, idle=_drawn)
