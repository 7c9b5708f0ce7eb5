"""Rows of linear algebra and Fourier transforms.

The vectors of a decomposition have signs, or phases, that no rule fixes: of those only
dtypes and shapes are compared, and `tests/numpy/test_linalg.py` multiplies them out.
A result may be off by the condition of its matrix times the rounding: `rough`.
"""

from typing import Any

from tests.differential.rows import read

NUMPY = """
det inv {rough=16 small=70}: square
slogdet {rough=16 small=70}: square
solve {rough=16 small=70}: square columns
cholesky {rough=16 small=70}: spd upper=flag
eigvalsh svdvals {rough=16 small=70}: spd
eigh eig qr svd {values=no small=70}: spd
eigvals {values=no small=70}: square
cond {rough=64 small=70}: spd p=[None,1,2,'fro']
matrix_rank {small=70}: square
matrix_norm {rough=16}: matrix ord=['fro','nuc',1,2,-1] keepdims=flag
vector_norm: any axis=axes keepdims=flag ord=[2,1,0,3]
norm {rough=16}: any ord=[None,1,2] axis=[None,0,-1,(0,1),5] keepdims=flag
matrix_power {rough=16 small=70}: square [0,1,2,3,-1]
pinv {rough=64 small=70}: square
lstsq {values=no small=70}: square columns
multi_dot: matrix
matmul vecdot tensordot: array array
outer: vector vector
cross: array array axis=[0,-1]
diagonal: array offset=[0,1]
trace: array offset=[0,1] dtype=dtype
matrix_transpose: array
tensorinv {rough=16 small=70}: square ind=[1,2]
tensorsolve {rough=16 small=70}: square columns
"""

NUMPY_FFT = """
fft ifft rfft irfft hfft ihfft {rough=4}: any n=[1,4,0] axis=[0,-1,5]
    norm=['ortho','forward','backward','foo']
fft2 ifft2 rfft2 irfft2 {rough=4}: any s=[(2,3)] norm=['ortho']
fftn ifftn rfftn irfftn {rough=4}: any axes=[(0,),(0,1),(-1,)] norm=['ortho','forward']
fftshift ifftshift: any axes=[None,0,-1,(0,1)]
fftfreq rfftfreq {modes=plain}: [1,4,5,0,-1] d=[1.0,2] dtype=['float32','float16']
"""

SCIPY_FFT = """
dct idct {rough=8}: any type=[2,3] n=[4] axis=[0,-1] norm=['ortho']
dctn idctn {rough=8}: any type=[2] axes=[(0,),(-1,)] norm=['ortho']
"""

LAX_LINALG = """
cholesky {rough=16 small=70}: spd
eigh eig schur qr svd hessenberg tridiagonal {values=no small=70}: spd
lu {rough=16 small=70}: square
lu_pivots_to_permutation: pivots [2,5]
qdwh {rough=64 small=70}: square
cholesky_update {rough=16 small=70}: spd vector
symmetric_product: matrix square alpha=[2.0] beta=[1.0] symmetrize_output=flag
triangular_solve {rough=16 small=70}: square columns left_side=[True]! lower=flag
    transpose_a=flag unit_diagonal=flag
tridiagonal_solve {rough=16}: vector dominant dominant column
householder_product ormqr {values=no small=70}: square
"""

SCIPY_LINALG = """
det inv expm {rough=16 small=70}: square
expm_frechet {rough=16 small=70}: square square
cholesky cho_factor {rough=16 small=70}: spd lower=flag
cho_solve {rough=16 small=70}: spd columns
lu {rough=16 small=70}: square permute_l=flag
lu_factor {rough=16 small=70}: square
lu_solve {rough=16 small=70}: square columns
solve {rough=16 small=70}: spd columns assume_a=['gen','pos','sym']
solve_triangular {rough=16 small=70}: square columns lower=flag trans=[0,1,2,'T']
    unit_diagonal=flag
solve_sylvester {rough=64 small=70}: spd spd square
eigh hessenberg qr schur svd {values=no small=70}: spd
eigh_tridiagonal {rough=16}: vector vector eigvals_only=[True]!
polar {rough=64 small=70}: spd
qr_multiply {values=no small=70}: square square
rsf2csf {small=70}: square square
sqrtm {rough=64 small=70}: spd
block_diag: any any?
circulant companion fiedler fiedler_companion toeplitz hankel: vector
toeplitz hankel: vector vector
leslie: vector vector
convolution_matrix: vector [1,3,0] mode=['full','same','valid']
dft hadamard hilbert invhilbert pascal invpascal helmert {modes=plain}: [1,2,4]
"""

SPARSE_LINALG = """
cg {rough=256 small=70}: spd column tol=[1e-6]! maxiter=[20,0]
bicgstab {rough=256 small=70}: spd column tol=[1e-6]! maxiter=[20,0]
gmres {rough=256 small=70}: spd column tol=[1e-6]! restart=[5,9]
    solve_method=['batched','incremental']
"""

PROGRAMS: dict[str, Any] = {
    "multi_dot": lambda L, x: L.numpy.linalg.multi_dot(
        [x, L.numpy.matrix_transpose(x), x]
    ),
    "cho_solve": lambda L, a, b: L.scipy.linalg.cho_solve(
        L.scipy.linalg.cho_factor(a), b
    ),
    "lu_solve": lambda L, a, b: L.scipy.linalg.lu_solve(L.scipy.linalg.lu_factor(a), b),
    "householder_product": lambda L, a: L.lax.linalg.householder_product(a, a.sum(-1)),
    "ormqr": lambda L, a: L.lax.linalg.ormqr(a, a.sum(-1), a),
    "leslie": lambda L, f, s: L.scipy.linalg.leslie(f, s[1:]),
    "eigh_tridiagonal": lambda L, d, e, **k: L.scipy.linalg.eigh_tridiagonal(
        d, e[1:], **k
    ),
}

ROWS = [
    *read("numpy.linalg", NUMPY, {"multi_dot": PROGRAMS["multi_dot"]}),
    *read("numpy.fft", NUMPY_FFT),
    *read("scipy.fft", SCIPY_FFT),
    *read("lax.linalg", LAX_LINALG, PROGRAMS),
    *read("scipy.linalg", SCIPY_LINALG, PROGRAMS),
    *read("scipy.sparse.linalg", SPARSE_LINALG),
    *read("scipy.integrate", "trapezoid: any x=same dx=[0.1,2] axis=axis"),
    *read("scipy.cluster.vq", "vq {rough=16}: plane plane"),
]
