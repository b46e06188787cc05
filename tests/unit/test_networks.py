"""Layers against plain loops, shapes, parameter counts, and tables of images."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from remanence.agents import networks
from remanence.agents.composition import index_rows, separate_networks, shared_trunk, single
from remanence.agents.networks import (
    Conv,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    Network,
    OneHot,
    Relu,
    Scale,
    Shape,
    Tanh,
    mlp,
    precomputed_inputs,
    sequence,
    stacked,
)
from remanence.core.errors import UserError

KEY = jax.random.key(0)


def drawn(net: Network) -> Any:
    """Weights that fit, drawn by NumPy: jax would compile a program for every shape."""
    rng = np.random.default_rng(7)
    shapes = jax.eval_shape(net.init, KEY)
    return jax.tree.map(lambda leaf: jnp.asarray(0.3 * rng.normal(size=leaf.shape), leaf.dtype), shapes)


@pytest.mark.parametrize(
    ("kernel", "filters", "stride"),
    [(1, 6, 1), (2, 6, 1), (3, 6, 1), (2, 1, 1), (3, 1, 1), (3, 6, 2), (3, 1, 2), (2, 6, 2), (4, 2, 2), (6, 2, 2)],
)
def test_convolution_by_loops(kernel: int, filters: int, stride: int) -> None:
    """All ways of computing it: with three times as many channels as filters, with fewer, and with strides that fit the kernel.
    A row of the image is left out by a stride of 2."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(2, 7, 6, 3)).astype(np.float32)
    layer = Conv(filters, kernel, stride=stride)
    weights = rng.normal(size=(kernel * kernel * 3, filters)).astype(np.float32)
    bias = rng.normal(size=filters).astype(np.float32)
    assert jax.eval_shape(lambda key: layer.init_weights(key, (7, 6, 3)), KEY)[0].shape == weights.shape
    found = np.asarray(layer.apply((jnp.asarray(weights), jnp.asarray(bias)), jnp.asarray(images)))
    by_place = weights.reshape(kernel, kernel, 3, filters)
    rows, columns = (7 - kernel) // stride + 1, (6 - kernel) // stride + 1
    assert found.shape == (2, *layer.shape((7, 6, 3))) == (2, rows, columns, filters)
    for b, i, j in np.ndindex(found.shape[:3]):
        patch = images[b, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
        np.testing.assert_allclose(found[b, i, j], np.einsum("xyc,xycf->f", patch, by_place) + bias, atol=1e-5)


@pytest.mark.parametrize(("kernel", "filters", "stride"), [(2, 2, 1), (3, 2, 1), (3, 2, 2), (4, 2, 2), (2, 2, 2)])
def test_gradients_of_a_convolution_are_those_of_jax(kernel: int, filters: int, stride: int) -> None:
    """Of weights, bias and image, where they are not those that JAX derives from the forward pass."""
    rng = np.random.default_rng(0)
    layer = Conv(filters, kernel, stride=stride)
    weights = jnp.asarray(rng.normal(size=(kernel * kernel * 5, filters)), jnp.float32)
    bias = jnp.asarray(rng.normal(size=filters), jnp.float32)
    images = jnp.asarray(rng.normal(size=(2, 7, 6, 5)), jnp.float32)

    def of_jax(weights: Any, x: Any) -> Any:
        by_place, order = weights[0].reshape(kernel, kernel, 5, filters), ("NHWC", "HWIO", "NHWC")
        return (
            jax.lax.conv_general_dilated(x, by_place, (stride, stride), "VALID", dimension_numbers=order) + weights[1]
        )

    def gradients(convolution: Any) -> list[Any]:
        loss = lambda weights, x: jnp.sum(jnp.sin(convolution(weights, x)))  # noqa: E731
        return jax.tree.leaves(jax.jit(jax.grad(loss, (0, 1)))((weights, bias), images))

    for ours, theirs in zip(gradients(layer.apply), gradients(of_jax), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_pooling_by_loops() -> None:
    """An odd row and column are left out."""
    images = np.random.default_rng(1).normal(size=(2, 5, 7, 3)).astype(np.float32)
    found = np.asarray(MaxPool(2).apply((), jnp.asarray(images)))
    assert found.shape == (2, 2, 3, 3)
    for b, i, j in np.ndindex(found.shape[:3]):
        np.testing.assert_array_equal(found[b, i, j], images[b, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max(axis=(0, 1)))


def test_starting_weights() -> None:
    """N(0, 0.01²) with bias 0; Xavier-uniform; PyTorch's uniform."""
    weights, bias = Dense(200).init_weights(KEY, (300,))
    assert float(weights.std()) == pytest.approx(0.01, rel=0.02)
    assert not bias.any()
    weights, bias = Conv(50, 2).init_weights(KEY, (9, 9, 40))
    bound = np.sqrt(6 / (4 * 40 + 4 * 50))
    assert 0.98 * bound < float(jnp.abs(weights).max()) <= bound
    assert float(weights.var()) == pytest.approx(bound**2 / 3, rel=0.05)
    assert not bias.any()
    for weights, bias in (
        Dense(90, "uniform").init_weights(KEY, (400,)),
        Conv(90, 2, "uniform").init_weights(KEY, (9, 9, 100)),
    ):
        for leaf in (weights, bias):
            assert 0.9 / 20 < float(jnp.abs(leaf).max()) <= 1 / 20


def test_networks_of_the_paper_have_the_sizes_they_should() -> None:
    """Image grid: 48→47→23→22, 22·22·8 = 3872 features; JBW at half width; parameter counts by hand."""
    trunk = sequence([Conv(8), Relu(), MaxPool(2), Conv(8), Relu(), Flatten()], (48, 48, 3))
    assert [shape for _, shape, _ in trunk.summary][::2] == [(47, 47, 8), (23, 23, 8), (22, 22, 8)]
    assert trunk.output == (3872,)
    assert trunk.size == (12 * 8 + 8) + (32 * 8 + 8)
    jelly = mlp((1452,), (256, 128, 64), 4)
    assert jelly.size == 1452 * 256 + 256 + 256 * 128 + 128 + 128 * 64 + 64 + 64 * 4 + 4
    weights = jax.eval_shape(jelly.init, KEY)
    assert sum(leaf.size for leaf in jax.tree.leaves(weights)) == jelly.size
    assert jax.eval_shape(jelly.apply, weights, jnp.zeros((7, 1452), bool)).shape == (7, 4)


def test_a_table_of_images_gives_the_same_numbers_and_gradients() -> None:
    """Images that are mostly alike, as pictures of a grid are: windows computed once, against the network on every image."""
    rng = np.random.default_rng(2)
    table = np.kron(rng.integers(0, 2, size=(6, 4, 4, 3)), np.ones((1, 4, 4, 1)))
    layers = [Conv(5), Relu(), MaxPool(2), Conv(4), Tanh(), Flatten()]
    head = sequence([Dense(8), Tanh(), Dense(2)], (6 * 6 * 4,))
    whole, by_row = stacked(sequence(layers, (16, 16, 3)), head), stacked(precomputed_inputs(layers, table), head)
    weights = drawn(whole)
    numbers = jnp.array([0, 5, 5, 2, 1])
    images = jnp.asarray(table, jnp.float32)[numbers]
    looked_up, applied = jax.jit(index_rows(single(by_row)).transient), jax.jit(whole.apply)
    np.testing.assert_allclose(looked_up(weights, numbers), applied(weights, images), atol=1e-4)
    one, other = (
        jax.jit(jax.grad(lambda w, f=f, x=x: (f(w, x) ** 2).sum()))(weights)
        for f, x in ((looked_up, numbers), (applied, images))
    )
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * float(jnp.abs(b).max()))
    flat = precomputed_inputs([Flatten(), Dense(3)], table)
    own = drawn(flat)
    plain = sequence([Flatten(), Dense(3)], (16, 16, 3))
    np.testing.assert_allclose(flat.apply(own, numbers), plain.apply(own, jnp.asarray(table)), atol=1e-6)


@pytest.mark.parametrize(
    "layer", [Dense(3, "uniform"), Conv(4, 3, stride=2), MaxPool(3), Flatten(), Relu(), Tanh(), OneHot(5), Scale(255.0)]
)
def test_a_layer_is_data(layer: Any) -> None:
    """It is compared by value, has a hash, prints as it is written, and its fields go through JSON."""
    written = json.dumps([type(layer).__name__, dataclasses.asdict(layer)])
    name, fields = json.loads(written)
    again = getattr(networks, name)(**fields)
    assert again == layer == eval(repr(layer), dict(vars(networks)))
    assert hash(again) == hash(layer)
    assert {layer: 1}[again] == 1
    assert Dense(3) != Dense(4)


def test_inputs_that_are_numbers_or_large() -> None:
    one_hot = sequence([OneHot(4)], ())
    np.testing.assert_array_equal(one_hot.apply([()], jnp.array([2, 0], jnp.uint8)), np.eye(4)[[2, 0]])
    np.testing.assert_array_equal(sequence([Scale(4.0)], (2,)).apply([()], jnp.array([[1, 8]])), [[0.25, 2.0]])


@dataclass(frozen=True)
class Gain:
    """A layer of a user: one trained factor per input, by the members of `Layer` alone."""

    first: float = 1.0
    window: tuple[int, int] | None = (1, 1)
    label: str = "gain"

    def shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def init_weights(self, key: Any, input_shape: Shape) -> Array:
        del key
        return jnp.full(input_shape[-1:], self.first)

    def apply(self, weights: Array, x: Array) -> Array:
        return weights * x


@dataclass(frozen=True)
class Square(Layer):
    """A layer that inherits what it does not say."""

    def shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def apply(self, weights: tuple, x: Array) -> Array:
        del weights
        return x**2


def test_a_layer_of_a_user() -> None:
    net = sequence([Gain(3.0), Square(), Dense(1)], (2,))
    assert net.summary == (("gain", (2,), 2), ("square", (2,), 0), ("dense 1", (1,), 3))
    weights = net.init(KEY)
    weights[2] = (jnp.ones((2, 1)), jnp.zeros(1))
    np.testing.assert_array_equal(net.apply(weights, jnp.array([[1.0, 2.0]])), [[3.0**2 + 6.0**2]])
    np.testing.assert_array_equal(jax.grad(lambda w: net.apply(w, jnp.ones((1, 2)))[0, 0])(weights)[0], [6.0, 6.0])
    table = np.arange(2 * 3 * 3 * 1.0).reshape(2, 3, 3, 1)
    layers = [Gain(2.0), Square(), Flatten()]
    plain, by_row = sequence(layers, (3, 3, 1)), precomputed_inputs(layers, table)
    weights = plain.init(KEY)
    np.testing.assert_array_equal(by_row.apply(weights, jnp.arange(2)), plain.apply(weights, jnp.asarray(table)))


def test_activations_are_the_outputs_of_every_layer() -> None:
    lower, upper = [Conv(3), Relu(), Flatten()], [Dense(5, "uniform"), Tanh(), Dense(2, "uniform")]
    table = np.random.default_rng(0).normal(size=(4, 3, 3, 1))
    trunk, head = sequence(lower, (3, 3, 1)), sequence(upper, (12,))
    net = stacked(trunk, head)
    weights, obs = drawn(net), jnp.asarray(table, jnp.float32)
    found = net.activations(weights, obs)
    assert [value.shape[1:] for value in found] == [shape for _, shape, _ in net.summary]
    np.testing.assert_array_equal(found[-1], net.apply(weights, obs))
    np.testing.assert_array_equal(found[2], trunk.apply(weights[0], obs))
    np.testing.assert_array_equal(found[4], jnp.tanh(found[3]))
    by_row = stacked(precomputed_inputs(lower, table), head).activations(weights, jnp.arange(4))
    for one, other in zip(found, by_row, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_parts() -> None:
    """V^P on a trunk lets no gradient through to it; redrawing the head keeps the trunk."""
    trunk, head = sequence([Dense(4), Tanh()], (3,)), sequence([Dense(2)], (4,))
    parts = shared_trunk(trunk, head)
    permanent, transient = parts.init(KEY)
    obs = jnp.ones((5, 3))
    gradient = jax.grad(lambda weights: parts.permanent(permanent, weights, obs).sum())(transient)
    assert all(not leaf.any() for leaf in jax.tree.leaves(gradient))
    again = parts.reinit(jax.random.key(1), transient)
    np.testing.assert_array_equal(again.trunk[0][0], transient.trunk[0][0])
    assert (again.head[0][0] != transient.head[0][0]).all()
    apart = separate_networks(stacked(trunk, head), stacked(trunk, head))
    permanent, transient = apart.init(KEY)
    assert (jax.tree.leaves(permanent)[0] != jax.tree.leaves(transient)[0]).all()
    assert not np.asarray(single(stacked(trunk, head)).permanent((), transient, obs)).any()


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: sequence([Conv(4), Conv(4), Conv(4)], (3, 3, 1)), "2×2 convolution needs an image"),
        (lambda: sequence([Dense(4)], (3, 3, 1)), "Flatten"),
        (lambda: sequence([MaxPool(4)], (3, 3, 1)), "pooling over 4×4"),
        (lambda: Dense(0), "at least one unit"),
        (lambda: Dense(3, "tiny"), "unknown init"),
        (lambda: Conv(3, 0), "at least 1"),
        (lambda: Conv(3, init="tiny"), "unknown init"),
        (lambda: MaxPool(0), "at least 1×1"),
        (lambda: Scale(0.0), "must be positive"),
        (lambda: OneHot(0), "at least one state"),
        (lambda: sequence([OneHot(3)], (3,)), "state index"),
        (lambda: stacked(mlp((3,), (), 4), mlp((5,), (), 1)), "does not fit"),
        (lambda: separate_networks(mlp((3,), (), 4), mlp((3,), (), 5)), "need the same input and output shapes"),
        (lambda: single(sequence([Conv(2)], (3, 3, 1))), "is a vector"),
        (
            lambda: mlp((3,), (2,), 1).apply(mlp((3,), (2,), 1).init(KEY), jnp.zeros((2, 4))),
            r"shape \(3,\); got \(4,\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        build()
