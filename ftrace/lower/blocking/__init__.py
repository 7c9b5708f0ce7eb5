"""Large values between small ones, a block at a time; reductions in parts.

From the ground up:

    find_regions      Parts of a graph around values that are much larger than all that
                      goes in and out
    split_reductions  Long reductions in steps, of which threads share the first:
                      split-K
    tile_regions      What is much larger than all around it is computed slice
                      by slice
"""
