"""Library operations become kernels, so that no step of a program is Python's.

From the ground up:

    fft_radices     Lengths of Fourier transforms: into which steps they go, and into
                    which matrices
    fft_kernels     Fourier transforms as kernels, of any length
    lapack_kernels  Factorisations as kernels: LAPACK without Python, and loops for
                    small matrices
    scan_kernels    Running reductions as kernels: each element combined with all before
                    it
    sort_kernels    Sorting as kernels, without Python: NumPy's vector code under an
                    order of our own
    library_table   Which library operations become kernels, or others: two tables
"""
