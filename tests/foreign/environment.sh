#!/bin/sh
# An environment with the libraries that are tried, without jax:
#     tests/foreign/environment.sh FOLDER
set -eu
folder=$1
python3 -m venv "$folder"
pip="$folder/bin/pip"
"$pip" install --quiet -e "$(dirname "$0")/../.." scipy absl-py toolz opt_einsum pytest \
    hypothesis typing-extensions wadler-lindig msgpack treescope rich tabulate jmp \
    multipledispatch tqdm decorator fastprogress cloudpickle dm-tree networkx mpmath \
    six gast packaging
# What they say they need holds jax, so nothing of it is installed.
"$pip" install --quiet --no-deps optax chex einops jraph jaxtyping equinox dm-haiku \
    numpyro flax distrax jaxopt blackjax lineax optimistix diffrax tfp-nightly \
    2>/dev/null || true
"$folder/bin/python" -c 'import importlib.util as u; assert not u.find_spec("jax")'
