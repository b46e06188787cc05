"""Flat keys draw what stock keys draw, and `randint` is uniform."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import Array
from scipy.stats import chisquare

from remanence.core.prng import make_key, randint
from remanence.core.types import Key

DRAWS: dict[str, Callable[[Key], Array]] = {
    "split": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 123_456_789)),
    "uniform": lambda key: jax.random.uniform(key, (3, 4), minval=-2),
    "one uniform": lambda key: jax.random.uniform(key),
    "randint": lambda key: jax.random.randint(key, (50,), -3, 1_000),
    "normal": lambda key: jax.random.normal(key, (21,)),
    "bits 8": lambda key: jax.random.bits(key, (33,), "uint8"),
    "bits 16": lambda key: jax.random.bits(key, (33,), "uint16"),
    "bits 32": lambda key: jax.random.bits(key, (5, 7), "uint32"),
}


@jax.jit
def drawn(key: Key) -> dict[str, Array]:
    """All draws at once: flat and stock keys differ in type, so each is compiled for itself."""
    return {name: draw(key) for name, draw in DRAWS.items()}


def test_draws_equal_those_of_stock_keys() -> None:
    """Compiled for one key, and mapped over several."""
    seeds = (0, 12_345, 2**31, 2**32 - 1)
    mapped = jax.vmap(drawn)(jax.vmap(make_key)(jnp.array(seeds, jnp.uint32)))
    for lane, seed in enumerate(seeds):
        flat, stock = drawn(make_key(seed)), drawn(jax.random.key(seed))
        for name in DRAWS:
            np.testing.assert_array_equal(flat[name], stock[name], err_msg=name)
            np.testing.assert_array_equal(mapped[name][lane], stock[name], err_msg=name)


@pytest.mark.parametrize("name", ["fold_in", "one uniform", "bits 8"])
def test_draws_that_are_not_compiled_equal_those_of_stock_keys(name: str) -> None:
    np.testing.assert_array_equal(DRAWS[name](make_key(5)), DRAWS[name](jax.random.key(5)))


@jax.jit
def folded(key: Key, data: Array) -> Array:
    return jax.random.key_data(jax.random.fold_in(key, data))


@given(seed=st.integers(0, 2**32 - 1), data=st.integers(0, 2**32 - 1))
def test_any_seed_and_any_count_fold_in_like_stock(seed: int, data: int) -> None:
    np.testing.assert_array_equal(
        folded(make_key(seed), np.uint32(data)), folded(jax.random.key(seed), np.uint32(data))
    )


def test_keys_made_from_traced_seeds_are_the_same_keys() -> None:
    """The driver makes its keys inside a mapped, compiled function."""
    seeds = np.array([0, 1, 2**31, 2**32 - 1], np.uint32)
    made = jax.jit(jax.vmap(lambda seed: jax.random.key_data(make_key(seed))))(seeds)
    np.testing.assert_array_equal(made, [jax.random.key_data(jax.random.key(int(seed))) for seed in seeds])


def test_64_bits_equal_stock() -> None:
    with jax.enable_x64(True):
        for seed in (2**40 + 7, -1):
            flat, stock = make_key(seed), jax.random.key(seed)
            np.testing.assert_array_equal(jax.random.key_data(flat), jax.random.key_data(stock))
            bits = jax.jit(lambda key: jax.random.bits(key, (9,), "uint64"))
            np.testing.assert_array_equal(bits(flat), bits(stock))


def test_hash_gives_the_published_answer() -> None:
    """Threefry-2x32-20 of counter 0 0 under key 0 0, from the known-answer file of Random123 (Salmon et al., 2011)."""
    hashed = jax.random.key_data(jax.random.fold_in(make_key(0), 0))
    assert [f"{word:08x}" for word in np.asarray(hashed)] == ["6b200159", "99ba4efe"]


@pytest.mark.parametrize("count", [2, 4, 7])
def test_pick_is_uniform(count: int) -> None:
    draws = 40_000
    picked = jax.jit(jax.vmap(lambda key: randint(key, count)))(jax.random.split(make_key(count), draws))
    assert chisquare(np.bincount(picked, minlength=count)).pvalue > 1e-3


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 2**31 - 1))
def test_pick_stays_within_bounds(seed: int, count: int) -> None:
    assert 0 <= int(jax.jit(randint)(make_key(seed), count)) < count


def test_largest_draw_is_still_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax.random, "uniform", lambda key: jnp.float32(1) + 0 * key)
    assert int(randint(jnp.float32(0), 4)) == 3
