"""Loops whose steps need the one before, and running reductions.

recurrence      registers are phi nodes, lanes a vector
lane_memory     what differs from lane to lane; loads and stores
running         running reductions
"""
