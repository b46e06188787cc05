"""Experiments: one module per figure or table. Only the command line and the benchmarks import this package."""

from remanence.experiments.from_data import experiment_of
from remanence.experiments.registry import REGISTRY, get

__all__ = ["REGISTRY", "experiment_of", "get"]
