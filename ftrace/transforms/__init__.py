"""Transforms of functions: `jit`, `grad`, `vmap`, and rules of users.

From the ground up:

    structs            Types of arrays that need not exist, as users write and read them
    meshes             Meshes: devices along axes with names; and specs that name these
                       axes
    shardings          How arrays lie on devices: shardings, of a mesh and a spec, or of
                       one device
    partition/         jit of sharded arrays: a program over a mesh becomes one for each
                       device, or each process
    device_placement   Where arrays are: devices, and moving arrays between them
    placed_results     Where the results of a program are, that runs on arrays that were
                       given a sharding
    contexts           Settings as contexts, by JAX's names:
                       `with ft.debug_nans(True): …`
    environment        Where a program runs: processes, their devices, and the arrays on
                       them
    jit/               From a call to a compiled program: signatures, programs, and when
                       to compile
    zero_gradients     Why gradients are zero: where the ways from an argument to the
                       results end
    tangents           Tangents and cotangents that users give, held against the values
                       they belong to
    vmap               vmap: a function of single examples becomes a function of batches
    custom/            Rules of users: derivatives, and calls back into Python
    tree_structure     Trees as text: what JSON can say of a pytree, whose leaves have
                       names
    array_files        One file of arrays by name: `.safetensors` and `.npz`, mapped
                       when they are read
    shard_files        A tree of arrays as a folder, to which each process writes the
                       parts that it has
    save_load          Trees of arrays on disk and back: in one file, or a folder for
                       many processes
    checkpoints        The states of a program on disk, step by step, written while it
                       goes on
    viz/               What becomes of a function: `explain` says it, and `viz` makes a
                       page of it
    trace_body         From users' functions to the operands and argument of a control-
                       flow operation
    mapped             Functions mapped over the devices of a mesh: `pmap` and
                       `shard_map`
    grad               grad, jvp, vjp and the like: JAX's names, arguments and meanings
    passes             Forward and backward pass of a function, as two functions
    jacobian           Jacobians and Hessians: vmap of a derivative over the standard
                       basis
"""
