"""Benchmarks: how fast the engine is, next to the usual way of doing the same and next to what the machine can do."""
