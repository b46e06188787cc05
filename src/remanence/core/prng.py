"""Random keys that are cheap inside a compiled loop.

On a CPU, `jax.random` compiles its generator, Threefry-2x32 with 20 rounds, as a loop that XLA cannot fuse with other
operations. Unrolled, the same hash fuses with the kernel around it: the bits are the same, and a step of a tabular world
runs about three times faster. `make_key` returns such keys; all functions of `jax.random` accept them.

Random numbers do not depend on how lanes are grouped: step t of a life always uses `fold_in(key, t)`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.random import define_prng_impl

from remanence.core.types import Key

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


@jax.jit  # traced and lowered once per shape, not at every use; XLA inlines it
def _threefry2x32(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Hashes two words under a key of two words (Salmon et al., 2011), 20 rounds, unrolled."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = high + schedule[0], low + schedule[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << turn) | (y >> (32 - turn)))
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y


def _hash_counter(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    counter = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return _threefry2x32(key, jnp.zeros(shape, jnp.uint32), counter)


def _seed(seed: Array) -> Array:
    low = seed.astype(jnp.uint32)
    high = (seed >> 32).astype(jnp.uint32) if seed.dtype.itemsize == 8 else jnp.zeros_like(low)
    return jnp.stack([high, low])


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(_hash_counter(key, shape), axis=-1)


def _fold_in(key: Array, data: Any) -> Array:
    return jnp.stack(_threefry2x32(key, jnp.uint32(0), jnp.uint32(data)))


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    high, low = _hash_counter(key, shape)
    if width == 64:
        return (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)
    return (high ^ low).astype(f"uint{width}")


_FLAT_THREEFRY = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="flat_threefry",
    tag="flat",
)


def make_key(seed: int | Array) -> Key:
    """A key for `seed`. It gives the same bits as `jax.random.key(seed)`."""
    return jax.random.key(seed, impl=_FLAT_THREEFRY)


def seed_of(key: Key) -> Array:
    """The seed that `make_key` made this key for, modulo 2³²."""
    return jax.random.key_data(key)[..., -1]


def unwrap_keys(tree: Any) -> Any:
    """Replaces keys by their raw uint32 words, for files."""
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree)


def wrap_keys(tree: Any, like: Any) -> Any:
    """The inverse of `unwrap_keys`. `like` is a tree with keys where keys must be."""
    return jax.tree.map(
        lambda one, leaf: jax.random.wrap_key_data(leaf, impl=_FLAT_THREEFRY) if _is_key(one) else leaf, like, tree
    )


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def randint(key: Key, count: int | Array) -> Array:
    """Uniform on 0 … count-1. Takes one hash; `jax.random.randint` takes four."""
    return jnp.minimum((jax.random.uniform(key) * count).astype(jnp.int32), count - 1)
