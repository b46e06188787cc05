"""Which deep learners can be native, and what the kernels need to know of a network. Nothing is compiled here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from remanence.agents.networks import Conv, Dense, Flatten, Layer, Relu, Tanh

if TYPE_CHECKING:
    from remanence.agents.composition import ValueComposition
    from remanence.agents.dqn import DeepLearner

LINEAR, RELU, TANH = 0, 1, 2
ACTIVATIONS = {Relu: RELU, Tanh: TANH}
LANES = 16  # leading dimensions of the kernels' buffers are multiples of it
OPTIMIZERS = ("sgd", "adam", "rmsprop of dqn")
LOSSES = ("squared", "huber")
USUAL = {"gradient_steps": 1, "n_step": 1, "double": False, "max_grad_norm": None, "tau": 1.0}
"""options of training that the kernels know at these values only"""


class LayerShape(NamedTuple):
    """What the kernels need to know of a layer, in the order of the columns of their tables."""

    inputs: int
    """rows of its weights; of layer 0, the bits of an input"""
    units: int
    """columns of its weights"""
    outputs: int
    """numbers that it gives: of a convolution, in all places together"""
    activation: int
    height: int = 0
    width: int = 0
    channels: int = 0
    side: int = 0
    filters: int = 0
    """of a convolution: height, width and channels of its input, side and number of its filters; 0 for dense layers"""

    @property
    def places(self) -> int:
        """Of the filters of a convolution; 1 for dense layers."""
        return self.outputs // self.units


class NetworkShape(NamedTuple):
    """What the kernels need to know of a network."""

    layers: tuple[LayerShape, ...]
    shared: int = 0
    """leading layers that the permanent and the transient part share"""

    @property
    def outputs(self) -> int:
        return self.layers[-1].outputs

    def scratch(self, batch: int, learns: bool) -> int:
        """Bytes of scratch memory: what all buffers would take if none were used twice."""
        first, inputs = self.layers[0], self.layers[0].inputs
        values = sum(batch * _padded(layer.outputs) for layer in self.layers)
        floats = batch * (inputs + 2) + values
        for layer in self.layers[1:]:
            floats += batch * layer.places * _padded(layer.inputs) + layer.inputs * _padded(layer.units)
        canvas = (first.height + first.side) * (first.width + first.side) * first.filters
        weights = first.side * first.side * first.channels * first.filters
        floats += canvas + 2 * weights + 2 * inputs + (first.width + 2) * first.filters
        if learns:
            floats = 2 * floats + 2 * values + 6 * batch  # both parts, for both states
            floats += batch * (inputs + 2) + 2 * inputs
            for layer in self.layers:
                rows, wide, tall = _padded(batch * layer.places), _padded(layer.units), _padded(layer.inputs)
                floats += _padded(batch) * _padded(layer.outputs) + 4 * wide
                floats += rows * (wide + 3 * tall) + wide * tall if layer is not first else 0
        return 4 * floats + 64 * 32 * (len(self.layers) + 4)


def network_shape(layers: Sequence[Layer], input: Sequence[int], shared: int = 0) -> NetworkShape | None:
    """The shape of a network that the kernels know, else None.

    They know convolutions with stride 1 and dense layers with ReLU or tanh between them, ReLU after the first one, and at least one
    hidden layer. Convolutions after the first one have multiples of `LANES` channels and filters.
    """
    found: list[LayerShape] = []
    rest, shape = [layer for layer in layers if not isinstance(layer, Flatten)], tuple(input)
    while rest:
        layer, inputs = rest.pop(0), math.prod(shape)
        activation = ACTIVATIONS.get(type(rest.pop(0))) if rest else LINEAR
        if activation is None or (not found and activation != RELU):
            return None
        if isinstance(layer, Conv):
            if layer.stride != 1 or len(shape) != 3 or (found and (shape[2] % LANES or layer.filters % LANES)):
                return None
            rows = layer.kernel * layer.kernel * shape[2] if found else inputs
            image = (*shape, layer.kernel, layer.filters)
            shape = layer.shape(shape)
            found.append(LayerShape(rows, layer.filters, math.prod(shape), activation, *image))
        elif isinstance(layer, Dense):
            shape = (layer.units,)
            found.append(LayerShape(inputs, layer.units, layer.units, activation))
        else:
            return None
    ends_dense = len(found) > 1 and not found[-1].filters and found[-1].activation == LINEAR
    return NetworkShape(tuple(found), shared) if ends_dense else None


def shape_of_parts(parts: ValueComposition) -> NetworkShape | None:
    """The shape of both networks, or of a trunk with one of its heads on it; None if the kernels do not know it."""
    if parts.trunk_and_head is None:
        shapes = {network_shape(network.layers, network.input) for network in parts.networks}
        return shapes.pop() if len(shapes) == 1 else None
    trunk, head = parts.trunk_and_head
    shared = sum(isinstance(layer, Conv | Dense) for layer in trunk.layers)
    return network_shape((*trunk.layers, *head.layers), trunk.input, shared) if shared and head.layers else None


def why_not_native(learner: DeepLearner) -> str | None:
    """Why a learner cannot be native, in a sentence; None if it can."""
    training, parts, obs = learner.training, learner.parts, np.asarray(learner.example_obs)
    optimizers = [training.optimizer, *([learner.consolidation.optimizer] if parts.has_permanent else [])]
    if obs.dtype != bool or not obs.ndim:
        return "its observations are not arrays of bits"
    if not (parts.networks or parts.trunk_and_head):
        return "its networks share layers"
    if len({network_shape(network.layers, network.input) for network in parts.networks}) > 1:
        return "its two networks differ"
    if shape_of_parts(parts) is None:
        return "its network is not a stack of convolutions of stride 1 and dense layers with ReLU or tanh"
    if any(optimizer not in OPTIMIZERS for optimizer in optimizers):
        return f"its optimizer is none of {', '.join(OPTIMIZERS)}"
    if training.loss not in LOSSES:
        return f"its loss is none of {', '.join(LOSSES)}"
    if training.penalty is not None or training.renewal is not None:
        return "it has a penalty or a renewal of weights"
    unknown = [name for name, usual in USUAL.items() if getattr(training, name) != usual]
    if unknown:
        return f"its kernels do not know {', '.join(unknown)}"
    if parts.has_permanent and not parts.trunk_and_head and not learner.use_cache:
        return "it does not cache V^P"
    return None


def _padded(n: int) -> int:
    return -(-n // LANES) * LANES
