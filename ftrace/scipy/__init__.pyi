# Made by docs/generate.py of the functions; do not edit.

from ftrace.scipy import cluster as cluster, fft as fft, integrate as integrate, interpolate as interpolate, linalg as linalg, ndimage as ndimage, optimize as optimize, signal as signal, sparse as sparse, spatial as spatial, special as special, stats as stats

