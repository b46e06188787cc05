"""What is done to whole states, leaf by leaf."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def tree_where(condition: Array, yes: Any, no: Any) -> Any:
    """One of two states."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """Every leaf, with where it stands in the tree."""
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree.leaves_with_path(tree)]


def tree_nbytes(tree: Any) -> int:
    """Bytes of all leaves, or of what they will be."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
