"""Loops whose steps need the one before, and running reductions.

recurrence      registers are phi nodes, lanes a vector; variation: what differs
from lane to lane; lane_memory: loads and stores
running         running reductions; running_columns: along axes that do not lie
side by side; running_lines: what both emit
"""
