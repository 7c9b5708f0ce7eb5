"""What others have written, run on ftrace: JAX's own tests, and libraries with theirs.

__main__       the commands
run            pytest over a checkout: counts, causes, what is left out
examples       examples of libraries' galleries, beside JAX; the table of them
cells          one of them in a process: its cells, its data, what a step takes
left_out       which tests are not about what ftrace serves, and why
jax_private    what JAX's tests and its test_util take from its private modules
environment.sh makes an environment with the libraries and without jax
README.md      how, and the last counts
"""
