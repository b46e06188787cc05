"""Plans become runs: jobs, executors, checkpoints, sweeps."""
