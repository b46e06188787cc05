"""Operations on pytrees."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def tree_where(condition: Array, yes: Any, no: Any) -> Any:
    """`jnp.where` for each leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """All leaves with their paths."""
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree.leaves_with_path(tree)]


def tree_nbytes(tree: Any) -> int:
    """Bytes of all leaves (arrays or shape structs)."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
