"""Large values between small ones, a block at a time; reductions and scatters in parts.

From the ground up:

    find_regions        Parts of a graph around values that are much larger than all
                        that goes in and out
    privatize_scatters  Scatters of many updates to few places: private copies, added up
    split_reductions    Long reductions in steps, of which threads share the first:
                        split-K
    tile_regions        What is much larger than all around it is computed slice
                        by slice
"""
