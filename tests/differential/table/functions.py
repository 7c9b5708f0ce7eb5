"""Rows of nn, random, the special functions, distributions, signals and segments."""

import re
from functools import partial
from importlib import import_module
from typing import Any

from tests.differential.rows import lines, names, read

NN = """
celu elu {elementwise rough=2}: any alpha=real
gelu {elementwise rough=4}: any approximate=flag
relu relu6 selu silu swish sigmoid tanh softplus soft_sign mish {elementwise rough=2}:
    any
hard_sigmoid hard_silu hard_swish hard_tanh log_sigmoid {elementwise rough=2}: any
identity sparse_plus sparse_sigmoid {elementwise}: any
leaky_relu {elementwise}: any negative_slope=real
log1mexp {elementwise rough=4}: positive
squareplus {elementwise rough=2}: any b=positive
glu: any axis=[0,-1,5]
softmax log_softmax: any axis=axes where=mask
logsumexp logmeanexp: any axis=axes where=mask keepdims=flag
logsumexp: any b=floats return_sign=flag
standardize {rough=16}: any axis=axes where=mask
one_hot: index [0,3,5,-1] dtype=dtype axis=[0,-1]
dot_product_attention {rough=8}: attended attended attended is_causal=flag scale=[0.3]
"""

SPECIAL = """
erf erfc expit ndtr log_ndtr i0 i0e i1 i1e {elementwise rough=4}: any
log_ndtr gammasgn entr {elementwise rough=4}: real
digamma gamma gammaln loggamma factorial {elementwise rough=8}: positive
erfinv {elementwise rough=8}: unit
ndtri logit {elementwise rough=8}: fraction
beta betaln poch {elementwise rough=32}: positive positive
boxcox boxcox1p kl_div rel_entr {elementwise rough=16}: positive positive
xlogy xlog1py {elementwise rough=4}: any positive
multigammaln {rough=16}: positive [1,2]
polygamma {elementwise rough=32}: [0,1,2] positive
zeta {elementwise rough=32}: positive positive?
softmax log_softmax: any axis=axes
logsumexp: any axis=axes b=floats keepdims=flag return_sign=flag
bernoulli {modes=plain rough=16}: [0,1,2,5,12,-1]
bessel_jn {rough=32}: real v=[0,1,3]! n_iter=[30]
betainc {elementwise rough=32}: positive positive fraction
comb {elementwise rough=32}: positive positive repetition=flag
dawsn erfcx expi sici fresnel {elementwise rough=16}: real
owens_t {elementwise rough=16}: real real
exp1 spence {elementwise rough=16}: positive
expn {elementwise rough=16}: [1,2,5] positive
gammainc gammaincc {elementwise rough=32}: positive positive
hyp1f1 {elementwise rough=32}: positive positive real
hyp2f1 {elementwise rough=64}: positive positive positive unit
wofz {elementwise rough=16}: any
"""

#: Distributions, and what their methods take: `ppf` and `isf` a part of one in the
#: place of the first.
DISTRIBUTIONS = """
norm {elementwise rough=16}: any loc=real scale=positive
cauchy expon gumbel_l gumbel_r laplace logistic uniform {elementwise rough=16}: real
    loc=real scale=positive
chi2 gamma pareto t {elementwise rough=64}: real positive loc=real scale=positive
beta truncnorm {elementwise rough=64}: real positive positive loc=real scale=positive
gennorm vonmises {elementwise rough=64}: real positive
wrapcauchy {elementwise rough=16}: real fraction
bernoulli geom {elementwise rough=16}: real fraction
poisson {elementwise rough=64}: real positive loc=[0,1]
binom {elementwise rough=64}: count count fraction loc=[0,1]
nbinom {elementwise rough=64}: count positive fraction loc=[0,1]
betabinom {elementwise rough=64}: count count positive positive loc=[0,1]
"""

STATS = """
dirichlet.pdf dirichlet.logpdf {rough=16}: shares shares
multinomial.pmf multinomial.logpmf {rough=16}: whole int shares
multivariate_normal.pdf multivariate_normal.logpdf {rough=64 small=70}: shares real spd
mode: any axis=axis keepdims=flag
rankdata: any axis=axis
    method=['average','min','max','dense','ordinal','foo']
sem {rough=16}: any axis=axis ddof=[0,1] keepdims=flag
"""

SIGNAL = """
convolve correlate {rough=4}: vector vector mode=['full','same','valid','foo']
convolve2d correlate2d {rough=4}: plane plane mode=['full','same','valid']
fftconvolve {rough=16}: vector vector mode=['full','same','valid']
detrend {rough=16}: signal axis=[-1,0] type=['linear','constant','foo'] bp=[0,(2,)]
stft {rough=16 small=70}: signal nperseg=[4,3] noverlap=[2] window=['hann','boxcar']
    boundary=['even','zeros',None] return_onesided=flag
welch {rough=16 small=70}: signal nperseg=[4,3] scaling=['density','spectrum','foo']
    average=['mean','median'] detrend=['constant',False,'linear']
csd {rough=16 small=70}: signal signal nperseg=[4,3]
istft {rough=16 small=70 modes=plain}: plane nperseg=[4] input_onesided=flag
"""

NDIMAGE = """
map_coordinates {rough=4}: vector any [0,1,2]
    mode=['constant','nearest','wrap','mirror','reflect','foo']
"""

OPS = """
segment_sum segment_prod segment_max segment_min: array index num_segments=[3,0,1]
    mode=['clip','fill']
"""

#: The generator's bits are JAX's; the values that are made of them agree to rounding.
RANDOM = """
key PRNGKey {switched modes=plain}: [0,42,-1,2**40,1.5]
key_data key_impl clone wrap_key_data {switched modes=plain}: [0,42]
split {switched modes=plain}: [0,42] [0,2,(2,3),-1]?
fold_in {switched modes=mapped}: [0,42] place
bits {switched modes=plain}: [0,42] shape? dtype=['uint8','uint16','uint32','int32']
uniform {switched}: [0,42] shape=shape dtype=float_dtype minval=real maxval=positive
normal gumbel laplace logistic cauchy exponential maxwell {switched rough=16
    modes=plain}:
    [0,42] shape=shape dtype=dtype
rademacher {switched modes=plain}: [0,42] shape=shape dtype=dtype
bernoulli {switched}: [0,42] p=fraction shape=shape
randint {switched modes=mapped}: [0,42] shape! int count
    dtype=['int8','int32','uint8','float32']
categorical {switched modes=mapped}: [0,42] any axis=[0,-1]
choice {switched modes=mapped}: [0,42] any shape? replace=flag axis=[0,-1]
permutation {switched modes=mapped}: [0,42] any axis=[0,-1] independent=flag
double_sided_maxwell {switched rough=16}: [0,42] real positive shape?
geometric {switched modes=plain}: [0,42] fraction shape=[(3,)]
lognormal rayleigh pareto wald {switched rough=32}: [0,42] positive
    shape=[(3,),(2,3),None]
truncated_normal {switched rough=32}: [0,42] unit positive shape=[(3,),(2,3),None]
triangular {switched rough=32}: [0,42] unit unit positive shape=[(3,),None]
weibull_min {switched rough=32}: [0,42] positive positive shape=[(3,),()]
gamma loggamma chisquare t {switched rough=64 modes=mapped}: [0,42] positive
    shape=[(3,),(2,3),None,4] dtype=float_dtype
generalized_normal {switched rough=64 modes=plain}: [0,42] [0.5,1,2.5]
    shape=[(3,),(),4] dtype=float_dtype
beta f {switched rough=64 modes=mapped}: [0,42] positive positive
    shape=[(3,),(2,3),None] dtype=float_dtype
poisson {switched modes=mapped}: [0,42] positive shape=[(3,),(2,3),None]
    dtype=['int32','int8','float32']
binomial {switched modes=mapped}: [0,42] count fraction shape=[(3,),None]
dirichlet {switched rough=64 modes=mapped}: [0,42] shares shape=[(2,),(),None]
multinomial {switched modes=plain}: [0,42] [3,0,8.0] shares shape=[(2,3),None]
multivariate_normal {switched rough=64 modes=mapped small=70}: [0,42] shares spd
    shape=[(2,),None] method=['cholesky','eigh','svd','foo']
ball {switched rough=64 modes=plain}: [0,42] [1,2,3] p=[1,2,3.5] shape=[(3,),()]
orthogonal {switched rough=64 modes=plain}: [0,42] [1,3,0,-1] shape=[(2,),()]
    dtype=float_dtype m=[2,4]
"""

INITIALIZERS = """
zeros ones {modes=plain}: shape dtype=dtype
constant {modes=plain}: [1,2.5] shape dtype=float_dtype
normal uniform truncated_normal {rough=16 modes=plain}: [0.5,1] shape dtype=float_dtype
glorot_normal glorot_uniform he_normal he_uniform {rough=16 modes=plain}:
    [(2,3),(3,),(2,3,4),[5,1]] dtype=float_dtype
kaiming_normal kaiming_uniform lecun_normal {rough=16 modes=plain}:
    [(2,3),(3,),(2,3,4),[5,1]] dtype=float_dtype
lecun_uniform xavier_normal xavier_uniform {rough=16 modes=plain}:
    [(2,3),(3,),(2,3,4),[5,1]] dtype=float_dtype
variance_scaling {rough=16 modes=plain}: [1.0,2] ['fan_in','fan_out','fan_avg','foo']
    ['normal','uniform','truncated_normal','foo'] [(2,3),(3,),(2,3,4)]
"""


def _distributions() -> str:
    """The rows of the distributions' methods."""
    rows = ["poisson.entropy {elementwise rough=64}: positive"]
    for line in lines(DISTRIBUTIONS):
        names_, properties, of = re.split("(?={)|: ", line)
        for name in names_.split():
            for method in import_module(f"ftrace.scipy.stats.{name}").__all__:
                inverse = method in ("ppf", "isf")
                taken = of.replace(of.split()[0], "fraction", 1) if inverse else of
                if method != "entropy":
                    rows.append(f"{name}.{method} {properties}: {taken}")
    return "\n".join(rows)


def _dirichlet(name: str, L: Any, x: Any, alpha: Any) -> Any:
    """A density of Dirichlet's, where the shares add up to one."""
    shares = L.numpy.asarray(x)
    density = getattr(L.find("scipy.stats.dirichlet"), name)
    return density(shares / shares.sum(-1, keepdims=True), alpha)


def _drawn(name: str, L: Any, seed: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of `random` with a key of a seed."""
    result = getattr(L.random, name)(L.random.PRNGKey(seed), *args, **kwargs)
    return L.random.key_data(result) if name == "clone" else result


_MADE = ("zeros", "ones")


def _initial(name: str, L: Any, *args: Any, dtype: Any = "float32") -> Any:
    """What an initializer, made with the first of the arguments, makes of a shape."""
    key, *first, shape = L.random.PRNGKey(3), *args
    made = getattr(L.nn.initializers, name)
    return (made if name in _MADE else made(*first))(key, shape, dtype)


def _minimum(L: Any, x: Any) -> Any:
    start = L.numpy.clip(x, -9, 9).reshape(-1)[:4]
    minimize = L.find("scipy.optimize").minimize
    return minimize(lambda v: ((v - 1) ** 2).sum(), start, method="BFGS").x


RANDOM_PROGRAMS: dict[str, Any] = {
    **{name: partial(_drawn, name) for name in names(RANDOM)},
    "key": lambda L, seed: L.random.key_data(L.random.key(seed)),
    "PRNGKey": lambda L, seed: L.random.PRNGKey(seed),
    "key_impl": lambda L, seed: str(L.random.key_impl(L.random.key(seed))),
    "key_data": lambda L, seed: L.random.key_data(L.random.key(seed)),
    "wrap_key_data": lambda L, seed: L.random.key_data(
        L.random.wrap_key_data(L.random.PRNGKey(seed))
    ),
}

ROWS = [
    *read("nn", NN),
    *read("scipy.special", SPECIAL),
    *read("scipy.stats", STATS, {
        f"dirichlet.{f}": partial(_dirichlet, f) for f in ("pdf", "logpdf")
    }),
    *read("scipy.stats", _distributions()),
    *read("scipy.signal", SIGNAL),
    *read("scipy.ndimage", NDIMAGE, {
        "map_coordinates": lambda L, x, at, order, **k: (
            L.scipy.ndimage.map_coordinates(x, [at], order, **k)
        ),
    }),
    *read("scipy.optimize", "minimize {switched modes=plain}: positive", {
        "minimize": _minimum,
    }),
    *read("ops", OPS),
    *read("random", RANDOM, RANDOM_PROGRAMS),
    *read("nn.initializers", INITIALIZERS, {
        name: partial(_initial, name) for name in names(INITIALIZERS)
    }),
]  # fmt: skip
