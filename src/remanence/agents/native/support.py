"""Which deep learners can be native, and what the kernels need to know of a network. Nothing is compiled here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from remanence.agents.networks import Conv, Dense, Flatten, Network, Relu

if TYPE_CHECKING:
    from remanence.agents.dqn import DeepLearner

LANES = 16  # leading dimensions of the kernels' buffers are multiples of it
OPTIMIZERS = ("sgd", "adam", "rmsprop of dqn")
LOSSES = ("squared", "huber")
USUAL = {"gradient_steps": 1, "n_step": 1, "double": False, "max_grad_norm": None, "tau": 1.0}
"""options of training that the kernels know at these values only"""


class NetworkShape(NamedTuple):
    """What the kernels need to know of a network."""

    sizes: tuple[int, ...]
    """bits of an input, then the units of every layer"""
    image: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    """height, width and channels of an input, side and number of the filters, if layer 0 is a convolution"""

    @property
    def layers(self) -> int:
        return len(self.sizes) - 1

    def scratch(self, batch: int, learns: bool) -> int:
        """Bytes of scratch memory: what all buffers would take if none were used twice."""
        inputs, units, wide = self.sizes[0], self.sizes[1:], [_padded(n) for n in self.sizes[1:]]
        height, width, channels, side, filters = self.image
        floats = batch * (inputs + 2 + sum(wide))
        floats += sum(
            before * pad for before, after, pad in zip(units, units[1:], wide[1:], strict=False) if after != pad
        )
        floats += filters * (side * side * channels + (height + side) * (width + side) + width) + 2 * inputs
        if learns:
            floats *= 2
            floats += batch * (inputs + 4 + sum(wide)) + 2 * inputs + 8 * max(wide)
            floats += 4 * _padded(batch) * sum(wide) + filters * (side * side * channels + 1)
        return 4 * floats + 64 * 16 * (self.layers + 4)


def network_shape(network: Network) -> NetworkShape | None:
    """The shape of a network that the kernels know, else None.

    They know dense layers with a ReLU between them, after at most one convolution with stride 1, and at least one hidden layer.
    """
    layers = [layer for layer in network.layers if not isinstance(layer, Flatten)]
    sizes, image = [math.prod(network.input)], (0, 0, 0, 0, 0)
    conv = layers[0] if layers else None
    if isinstance(conv, Conv):
        layers.pop(0)
        if conv.stride != 1 or len(network.input) != 3 or not (layers and isinstance(layers.pop(0), Relu)):
            return None
        sizes.append(math.prod(conv.shape(network.input)))
        image = (*network.input, conv.kernel, conv.filters)
    while layers:
        dense = layers.pop(0)
        if not isinstance(dense, Dense) or (layers and not isinstance(layers.pop(0), Relu)):
            return None
        sizes.append(dense.units)
    ends_dense = bool(network.layers) and isinstance(network.layers[-1], Dense)
    return NetworkShape(tuple(sizes), image) if ends_dense and len(sizes) > 2 else None  # type: ignore[arg-type]


def why_not_native(learner: DeepLearner) -> str | None:
    """Why a learner cannot be native, in a sentence; None if it can."""
    training, parts, obs = learner.training, learner.parts, np.asarray(learner.example_obs)
    optimizers = [training.optimizer, *([learner.consolidation.optimizer] if parts.has_permanent else [])]
    if obs.dtype != bool or not obs.ndim:
        return "its observations are not arrays of bits"
    if not parts.networks:
        return "its networks share layers"
    shapes = {network_shape(network) for network in parts.networks}
    if len(shapes) > 1:
        return "its two networks differ"
    if None in shapes:
        return (
            "its network is not a stack of dense layers with ReLU, with at most one convolution of stride 1 before them"
        )
    if any(optimizer not in OPTIMIZERS for optimizer in optimizers):
        return f"its optimizer is none of {', '.join(OPTIMIZERS)}"
    if training.loss not in LOSSES:
        return f"its loss is none of {', '.join(LOSSES)}"
    if training.penalty is not None or training.renewal is not None:
        return "it has a penalty or a renewal of weights"
    unknown = [name for name, usual in USUAL.items() if getattr(training, name) != usual]
    if unknown:
        return f"its kernels do not know {', '.join(unknown)}"
    if training.repeat_first and training.frames > 1:
        return "it repeats the first frame of an episode"
    if parts.has_permanent and not learner.use_cache:
        return "it does not cache V^P"
    return None


def _padded(n: int) -> int:
    return -(-n // LANES) * LANES
