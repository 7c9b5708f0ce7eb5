"""Rows of ftrace.numpy."""

from tests.differential.rows import read

ELEMENTWISE = """
abs absolute negative positive square sign conj conjugate real imag {elementwise}: any
sqrt cbrt exp exp2 expm1 log log2 log10 log1p reciprocal {elementwise}: any
sin cos tan sinh cosh tanh sinc i0 fabs rint {elementwise}: any
arcsin arccos arctan arcsinh arccosh arctanh asin acos atan asinh acosh atanh {elementwise}: any
ceil floor trunc fix deg2rad rad2deg degrees radians signbit spacing {elementwise}: any
isnan isinf isfinite isposinf isneginf isreal iscomplex {elementwise}: any
iscomplexobj isrealobj isscalar ndim shape {modes=eager+jit}: any
size {modes=eager+jit}: any axis=[0,-1,(0,),5]
logical_not bitwise_not invert bitwise_invert bitwise_count {elementwise}: any
angle {elementwise}: any deg=flag
nan_to_num {elementwise}: any nan=[0.0,7] posinf=[1.5] neginf=[-3]
round around {elementwise}: any decimals=[0,1,2,-1]
modf frexp {elementwise}: any
add subtract multiply divide true_divide floor_divide remainder mod fmod divmod {elementwise}: any any
power pow float_power {elementwise}: any any
maximum minimum fmax fmin arctan2 atan2 hypot logaddexp logaddexp2 copysign {elementwise}: any any
heaviside nextafter {elementwise}: any any
equal not_equal less less_equal greater greater_equal {elementwise}: any any
logical_and logical_or logical_xor {elementwise}: any any
bitwise_and bitwise_or bitwise_xor gcd lcm {elementwise}: int int
left_shift right_shift bitwise_left_shift bitwise_right_shift {elementwise}: int shift
ldexp {elementwise}: real int
isclose {elementwise}: any any rtol=[1e-3] atol=[0.0,1.0] equal_nan=flag
allclose: any any rtol=[1e-3] atol=[0.0,1.0] equal_nan=flag
array_equal array_equiv: any any
clip {elementwise}: any any? any?
where {elementwise}: bool any? any?
"""

REDUCTIONS = """
sum prod nansum nanprod: any axis=axes keepdims=flag dtype=dtype
max min amax amin: any axis=axes keepdims=flag initial=[1,2.5]
mean nanmean: any axis=axes keepdims=flag dtype=dtype
std var nanstd nanvar: any axis=axes keepdims=flag ddof=[0,1] dtype=dtype
nanmax nanmin: any axis=axes keepdims=flag
all any: any axis=axes keepdims=flag
count_nonzero: any axis=axes keepdims=flag
ptp: any axis=axes keepdims=flag
argmax argmin nanargmax nanargmin: any axis=axis keepdims=flag
median nanmedian: any axis=axes keepdims=flag
quantile nanquantile: any [0.5,0.25,[0.1,0.9],0,1] axis=axes keepdims=flag method=['linear','lower','higher','midpoint','nearest']
percentile nanpercentile: any [50,25.5,[10,90],0] axis=axes keepdims=flag method=['linear','lower','higher','midpoint','nearest']
cumsum cumprod nancumsum nancumprod: any axis=axis dtype=dtype
cumulative_sum cumulative_prod: any axis=axis dtype=dtype include_initial=flag
average: any axis=axes weights=same keepdims=flag
"""

ROWS = read("numpy", ELEMENTWISE) + read("numpy", REDUCTIONS)
