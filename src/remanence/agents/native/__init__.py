"""A native learner: the deep learner's step on binary observations, done by Numba kernels that XLA calls without Python.

    tiles.py      matrix products, written as LLVM instructions
    kernels.py    the layers, forward and backward, and the optimizers
    memory.py     scratch memory
    support.py    which agents it serves
    handlers.py   what XLA calls: finds its arguments in memory and calls the kernels
    calls.py      the same calls as JAX functions
    learner.py    the learner that makes these calls

Weights and optimizer state change in place, and no gradient of a large layer is ever stored. A binary input selects rows of the
first layer: they are gathered, not multiplied. Sums are in a fixed order, so the same seeds give the same bits.
"""
