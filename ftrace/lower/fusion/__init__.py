"""Which values are stored, and which kernel computes each.

From the ground up:

    drafts        Kernels while they are put together, and the places where they need
                  values
    merge_policy  Is a value computed by the kernels that need it, or stored, and then
                  by which kernel?
    plan_fusion   Which values are stored, and which kernel computes what
"""
