"""The loops of a kernel: how each runs, what registers hold, how memory is read.

tiling          vectors, copies and units of each loop; tiles: what was chosen;
vector_costs: what it costs; facts: what is known before it runs
nest            axes, reduces and stores; ranges, accumulators, polling: in them
values          expressions in registers; elements, access: what they read and store
columns         reduces row by row; turned, backwards: operands that lie another way
abreast         several vectors at once; short_axes, short_reduces: written out
pieces          ranges in which the answers to questions of position are known
staging         parts that share a block in the cache; keeping: what a reduce read
ahead           memory asked for early; prefetching: by parts
streaming       stores past the caches
held_tables     small tables in registers
rendered        the code of a kernel, and what threads have to know of it
"""
