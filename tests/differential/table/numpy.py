"""Rows of ftrace.numpy."""

from typing import Any

from tests.differential.rows import read

ELEMENTWISE = """
abs absolute negative positive square sign conj conjugate {elementwise}: any
real imag sqrt cbrt exp exp2 expm1 log log2 log10 log1p {elementwise}: any
reciprocal sin cos tan sinh cosh tanh sinc i0 fabs rint {elementwise}: any
arcsin arccos arctan arcsinh arccosh arctanh {elementwise}: any
asin acos atan asinh acosh atanh {elementwise}: any
ceil floor trunc fix deg2rad rad2deg degrees radians {elementwise}: any
signbit spacing isnan isinf isfinite isposinf isneginf {elementwise modes=forward}: any
isreal iscomplex {elementwise modes=forward}: any
iscomplexobj isrealobj isscalar ndim shape {modes=plain}: any
size {modes=plain}: any axis=[0,-1,(0,),5]
logical_not bitwise_not invert bitwise_invert bitwise_count {elementwise modes=mapped}:
    any
angle {elementwise}: any deg=flag
nan_to_num {elementwise}: any nan=[0.0,7] posinf=[1.1] neginf=[-3]
round around {elementwise}: any decimals=[0,1,2,-1]
modf frexp {elementwise}: any
add subtract multiply divide true_divide {elementwise}: any any
floor_divide remainder mod fmod divmod {elementwise}: any any
power pow float_power {elementwise}: any any
maximum minimum fmax fmin arctan2 atan2 hypot {elementwise}: any any
logaddexp logaddexp2 copysign heaviside nextafter {elementwise}: any any
equal not_equal less less_equal greater greater_equal {elementwise modes=forward}: any
    any
logical_and logical_or logical_xor {elementwise modes=forward}: any any
bitwise_and bitwise_or bitwise_xor gcd lcm {elementwise modes=mapped}: int int
left_shift right_shift {elementwise modes=mapped}: int shift
bitwise_left_shift bitwise_right_shift {elementwise modes=mapped}: int shift
ldexp {elementwise}: real int
isclose {elementwise modes=forward}: any any rtol=[1e-3] atol=[0.0,1.0] equal_nan=flag
allclose {modes=forward}: any any rtol=[1e-3] atol=[0.0,1.0] equal_nan=flag
array_equal array_equiv {modes=forward}: any any
clip {elementwise}: any any? any?
where {elementwise}: bool any? any?
"""

REDUCTIONS = """
sum prod nansum nanprod: any axis=axes keepdims=flag dtype=dtype
max min amax amin: any axis=axes keepdims=flag initial=[1,2.3]
mean nanmean: any axis=axes keepdims=flag dtype=dtype
std var nanstd nanvar: any axis=axes keepdims=flag ddof=[0,1] dtype=dtype
nanmax nanmin ptp: any axis=axes keepdims=flag
all any count_nonzero {modes=forward}: any axis=axes keepdims=flag
argmax argmin nanargmax nanargmin {modes=forward}: any axis=axis keepdims=flag
median nanmedian: any axis=axes keepdims=flag
quantile nanquantile: any [0.3,0.25,[0.1,0.9],0,1] axis=axes keepdims=flag
    method=['linear','lower','higher','midpoint','nearest']
percentile nanpercentile: any [50,25.5,[10,90],0] axis=axes keepdims=flag
    method=['linear','lower','higher','midpoint','nearest']
cumsum cumprod nancumsum nancumprod: any axis=axis dtype=dtype
cumulative_sum cumulative_prod: any axis=axis dtype=dtype include_initial=flag
average: any axis=axes weights=same keepdims=flag
trapezoid: any x=same dx=[0.1,2] axis=axis
"""

CREATION = """
array asarray: nested dtype=dtype
array asarray copy: nested
astype: any dtype
view: array dtype
atleast_1d atleast_2d atleast_3d: any any?
zeros ones empty {modes=plain}: shape dtype=dtype
full {modes=forward}: shape any dtype=dtype
zeros_like ones_like empty_like: any dtype=dtype shape=shape
full_like: any any dtype=dtype
arange {modes=plain}: [5,0,-2,2.5,True,1j] [7,3,10.5]? [1,2,-1,0.5,0]? dtype=dtype
linspace: any any num=[0,1,5,-1] endpoint=flag dtype=dtype
linspace: any any num=[3] retstep=flag axis=[0,-1]
logspace: unit unit num=[0,1,5] endpoint=flag base=[10.0,2] dtype=dtype
geomspace {rough=4}: positive positive num=[0,1,5] endpoint=flag
eye {modes=plain}: [0,3,4,-1,2.0] [2,5,None]? k=[0,1,-2] dtype=dtype
tri {modes=plain}: [0,3,4,-1] [2,5,None]? k=[0,1,-2] dtype=dtype
identity {modes=plain}: [0,3,True,-1] dtype=dtype
indices {modes=plain}: [(2,3),(0,),(4,),()] dtype=dtype sparse=flag
hanning hamming blackman bartlett {modes=plain}: [0,1,2,5,-1]
kaiser {modes=plain}: [0,1,5,-1] [8.6,3,0]
diag_indices {modes=plain}: [3,0,-1] [1,2,3]?
diag_indices_from {modes=plain}: array
tril_indices triu_indices {modes=plain}: [3,4,0] k=[0,1,-1] m=[2,5]
tril_indices_from triu_indices_from {modes=plain}: matrix k=[0,1,-1]
meshgrid: vector vector sparse=flag indexing=['xy','ij','ji']
ix_: vector vector
frombuffer fromfunction from_dlpack vectorize: any
broadcast_shapes {modes=eager}: [(2,3),(1,),()] [(3,),(2,1),(4,)]
can_cast {modes=eager}: ['int8','float32','bool','complex64'] ['float16','int64','bool']
promote_types {modes=eager}: ['int8','float32','bool','uint32','complex64',int]
    ['float16','int64','bfloat16',float,complex]
result_type {modes=eager}: any any?
issubdtype isdtype {modes=eager}: ['int8','float32','bool','complex64']
    ['integral','real floating','bool']
"""

MOVEMENT = """
reshape: array [(-1,),(3,-1),(2,3),6,(),(0,-1),(-1,-1)] order=['C','F']
ravel: any order=['C','F','A']
transpose permute_dims: array [None,(1,0),(0,),(-1,0),(2,0,1),(0,0)]
matrix_transpose flipud fliplr: any
swapaxes moveaxis: array [0,-1,5] [1,-2,0]
rollaxis: array [0,1,-1] [0,2]?
expand_dims: any [0,-1,(0,2),5,(0,0)]
squeeze: any axis=axes
broadcast_to: any [(3,),(2,3),(4,2,3),(),(0,),(1,)]
broadcast_arrays: any any
flip: any axis=axes
rot90: any k=[0,1,-1,6] axes=[(0,1),(1,0),(0,0)]
roll: any [0,1,-2,7,(1,2)] axis=[None,0,-1,(0,1),5]
repeat: any [0,1,3,[1,2],[1,2,0]] axis=[None,0,-1,5]
tile: any [2,(2,),(1,2),(2,1,2),0,()]
resize: any [(3,),(2,5),(),(0,)]
concatenate concat: nested axis=axis
stack: nested axis=[0,-1,5]
hstack vstack dstack column_stack block: nested
pair_concatenated pair_stacked pair_hstacked pair_vstacked pair_blocks: any any
append: any any axis=axis
split array_split: array [1,2,3,[1,2],[],0] axis=[0,-1,5]
hsplit vsplit dsplit unstack: array [1,3,[1]]
unstack: array axis=[0,-1,5]
pad: any [0,1,(1,2),((1,0),),-1]
    ['constant','edge','reflect','wrap','symmetric','mean','empty','linear_ramp']?
insert: any [0,1,-1,[0,1],9] any axis=[None,0,-1]
delete: any [0,1,-1,[0,1],9] axis=[None,0,-1]
diag diagflat tril triu: any k=[0,1,-2]
diagonal trace: any offset=[0,1,-2] axis1=[0,1,5] axis2=[1,0,-1]
fill_diagonal: array any inplace=[False]!
tensordot: array array axes=[0,1,2,(0,0),((0,),(0,))]
trim_zeros: vector [ 'f','b','fb']?
unwrap: any axis=[0,-1]
vander {rough=4}: vector [0,1,3]? increasing=flag
kron: any any
outer inner dot vdot: any any
matmul vecdot: any any
matvec: matrix vector
vecmat: vector matrix
cross: array array axis=[-1,0]
einsum: ['ij,ij->i','...i,...i','ij,ij','i,i->i','ij,kj','ii','i,j->','...,...'] any any
einsum_path {modes=eager}: ['ij,ij->i','i,i->i'] array array
convolve correlate: vector vector mode=['full','same','valid','none']
"""

INDEXING = """
getitem: array
    [0,-1,...,None,slice(1,None),slice(None,None,-2),(0,...),(...,None,0),True]
at_set at_add at_mul at_max: array [0,-1,...,slice(1,None),(0,...),slice(None,None,2)]
    any
at_get at_power: array [0,slice(1,None)] mode=['clip','fill','drop','wrap']
take: any index axis=[None,0,-1,5] mode=['clip','fill','wrap']
take_along_axis: array picks axis=[0,-1,None]
indexed: array index
indexed_set: array index any
put: array index any mode=['clip','wrap'] inplace=[False]!
put_along_axis: array picks any axis=[0,-1]! inplace=[False]!
place: array mask any inplace=[False]!
compress: mask any axis=[None,0]
extract: mask any
choose: index [0]  mode=['clip','wrap','raise']
select piecewise: mask any any
nonzero flatnonzero argwhere {modes=forward}: any size=[0,3]
unravel_index {modes=forward}: index [(2,3),(4,),6]
ravel_multi_index {modes=forward}: index [(3,4),(2,2)] mode=['clip','wrap','raise']
searchsorted {modes=forward}: sorted any side=['left','right','up']
digitize {modes=forward}: any sorted right=flag
interp: any sorted sorted left=[0.1] right=[7] period=[3.3]
sort argsort: any axis=[None,0,-1,5] descending=flag
sort_complex: any
lexsort {modes=forward}: array axis=[0,-1]
partition {values=no}: any [0,1,-1,9] axis=[0,-1]
argpartition {values=no modes=forward}: any [0,1,-1,9] axis=[0,-1]
unique: any return_index=flag return_inverse=flag return_counts=flag size=[2]
unique_all unique_counts unique_inverse unique_values: any
union1d intersect1d setdiff1d setxor1d: any any
isin {modes=forward}: any any invert=flag
diff: any n=[0,1,2,-1] axis=[0,-1,5]
ediff1d: any to_end=[1,[1,2]] to_begin=[0.1]
gradient: any axis=[None,0,-1]
packbits unpackbits {modes=forward}: bits axis=[None,0,-1] bitorder=['big','little']
"""

STATISTICS = """
bincount {modes=forward}: index weights=same minlength=[0,5] length=[3]
histogram histogram_bin_edges: any bins=[3,1,[0,1,2]] range=[(0,2)] weights=same
histogram: any density=flag
histogram2d: sorted sorted bins=[2,3]
histogramdd: floats bins=[2,3]
cov: any y=same rowvar=flag bias=flag ddof=[0,1] dtype=dtype
corrcoef: any y=same rowvar=flag
apply_along_axis apply_over_axes: array [0,-1,5]
polyadd polysub polymul: vector vector
polydiv {rough=8}: vector vector
polyder: vector m=[0,1,2,-1]
polyint: vector m=[0,1,2] k=[1,[1,2]]
polyval: vector any
poly {rough=64}: vector
roots {values=no}: vector strip_zeros=[True,False]
polyfit {rough=64 small=70}: vector vector [1,2,0,-1] w=vector
"""


def _pair(name: str) -> Any:
    def program(library: Any, x: Any, y: Any) -> Any:
        function = getattr(library.numpy, name)
        return function([[x, y], [y, x]] if name == "block" else [x, y])

    return program


def _at(name: str) -> Any:
    def program(library: Any, x: Any, index: Any, *values: Any, **modes: Any) -> Any:
        return getattr(library.numpy.asarray(x).at[index], name)(*values, **modes)

    return program


PROGRAMS: dict[str, Any] = {
    "pair_concatenated": _pair("concatenate"),
    "pair_stacked": _pair("stack"),
    "pair_hstacked": _pair("hstack"),
    "pair_vstacked": _pair("vstack"),
    "pair_blocks": _pair("block"),
    "at_set": _at("set"),
    "at_add": _at("add"),
    "at_mul": _at("multiply"),
    "at_max": _at("max"),
    "at_get": _at("get"),
    "at_power": lambda L, x, i, **modes: L.numpy.asarray(x).at[i].power(2, **modes),
    "getitem": lambda L, x, i: x[i],
    "indexed": lambda L, x, i: L.numpy.asarray(x)[i],
    "indexed_set": lambda L, x, i, y: L.numpy.asarray(x).at[i].set(y),
    "unstack": lambda L, x, *_, **k: L.numpy.unstack(x, **k),
    "hsplit": lambda L, x, n: L.numpy.hsplit(x, n),
    "frombuffer": lambda L, x: L.numpy.frombuffer(b"12345678", "int16") + x,
    "fromfunction": lambda L, x: L.numpy.fromfunction(lambda i, j: i + j * x, (2, 3)),
    "from_dlpack": lambda L, x: L.numpy.from_dlpack(L.numpy.asarray(x)),
    "vectorize": lambda L, x: L.numpy.vectorize(lambda y: L.numpy.sin(y))(x),
    "meshgrid": lambda L, x, y, **k: L.numpy.meshgrid(x, y, **k),
    "choose": lambda L, i, n, **k: L.numpy.choose(i, [i, i * 2, n], **k),
    "select": lambda L, m, x, y: L.numpy.select([m, ~m], [x, y]),
    "piecewise": lambda L, m, x, y: L.numpy.piecewise(
        x, [m], [lambda v: v * 2, lambda v: v + 1]
    ),
    "ravel_multi_index": lambda L, i, dims, **k: L.numpy.ravel_multi_index(
        (i, i), dims, **k
    ),
    "apply_along_axis": lambda L, x, axis: L.numpy.apply_along_axis(
        lambda row: row.sum(), axis, x
    ),
    "apply_over_axes": lambda L, x, axis: L.numpy.apply_over_axes(
        L.numpy.sum, x, [axis]
    ),
    "einsum_path": lambda L, text, x, y: str(L.numpy.einsum_path(text, x, y)[0]),
    "lexsort": lambda L, x, **k: L.numpy.lexsort((x, -x), **k),
    "issubdtype": lambda L, dtype, kind: [
        bool(L.numpy.issubdtype(dtype, getattr(L.numpy, name)))
        for name in ("integer", "floating", "inexact", "complexfloating", "number")
    ],
    "tensordot": lambda L, x, y, **k: L.numpy.tensordot(x, y, **k),
}

ROWS = [
    row
    for text in (ELEMENTWISE, REDUCTIONS, CREATION, MOVEMENT, INDEXING, STATISTICS)
    for row in read("numpy", text, PROGRAMS)
]
