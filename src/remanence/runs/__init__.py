"""Runs plans: jobs, executors, checkpoints, sweeps."""
