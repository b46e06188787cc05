"""Experiments: one module per figure or table. Only the command line and the benchmarks import this package."""

from remanence.experiments.registry import REGISTRY, get

__all__ = ["REGISTRY", "get"]
