"""`shard_map` where older programs import it from."""

from ftrace.transforms.mapped import shard_map as shard_map

__all__ = ["shard_map"]
