"""A policy to keep: what an agent has learned, to act with, to look into, and to save. No file can run code."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from remanence import __version__
from remanence.agents.configs import CONFIGS, AgentConfig, BuiltAgent
from remanence.core.errors import UserError, disk_errors
from remanence.core.prng import make_key
from remanence.core.tree_utils import named_leaves
from remanence.core.types import TaskObs
from remanence.gym.spaces import Spaces

FORMAT = 1
ABOUT = "about"  # the array that holds everything but weights, as JSON
WEIGHTS = ("permanent", "transient")  # the fields of an agent's state that decide what it believes


@dataclass(frozen=True, eq=False)
class Policy:
    """An agent as it was at the end of a life. It learns no more."""

    name: str
    built: BuiltAgent
    spaces: Spaces
    tasks: int
    state: Any
    """of the agent; of agents in parts, the weights alone"""
    config: Any = None
    """None for an agent of the user's own: it can act, but only its maker can save it"""
    about: dict[str, Any] = field(default_factory=dict)
    """where it comes from"""

    def act(
        self, obs: Any, greedy: bool = True, task: int | None = None, rng: np.random.Generator | None = None
    ) -> int:
        """An action for one observation of the environment.

        Args:
            greedy: a best action, the first of several; else as the agent behaved in its life, with `rng` for its luck.
            task: which task is live, for an agent that has a head for each.
        """
        seen, many = self.spaces.encode_many(obs)
        if many:
            raise UserError(f"act takes one observation, of shape {self.spaces.env_shape}; got {np.shape(obs)}")
        if greedy:
            action = self.values(obs, task)["value"].argmax()
        else:
            rng = np.random.default_rng() if rng is None else rng
            shown = (
                TaskObs(jnp.asarray(seen[0]), jnp.int32(self._head(task))) if self.built.agent.task_aware else seen[0]
            )
            key = make_key(int(rng.integers(2**32)))
            action = _compiled(self.built.agent.act)(self.state, self.built.hypers, shown, key)
        return int(action) + self.spaces.first_action

    def values(self, obs: Any, task: int | None = None) -> dict[str, np.ndarray]:
        """What the agent believes each action is worth, by part: "value", and for PT agents "permanent" and "transient".

        Each [actions] for one observation, [n, actions] for many.
        """
        seen, many = self.spaces.encode_many(obs)
        believed = _many(self.built.agent.inspect)(self.state, seen)
        parts = {part: np.asarray(values) for part, values in believed.items()}
        return {part: self._of_task(values if many else values[0], task) for part, values in parts.items()}

    def save(self, path: str | Path) -> Path:
        """Writes the policy to a file, for `remanence.load_policy`."""
        path = Path(path)
        if self.config is None:
            raise UserError(f"'{self.name}' is an agent of your own: keep its state (policy.state) in your own way")
        about = {
            "format": FORMAT,
            "remanence": __version__,
            "name": self.name,
            "recipe": {"kind": type(self.config).__name__, **dataclasses.asdict(self.config)},
            "spaces": dataclasses.asdict(self.spaces),
            "tasks": self.tasks,
            **self.about,
        }
        arrays = {f"weights{name}": np.asarray(leaf) for name, leaf in named_leaves(self.state)}
        partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with partial.open("wb") as file:
                    np.savez(file, allow_pickle=False, **{ABOUT: np.array(json.dumps(about)), **arrays})
                os.replace(partial, path)
            finally:
                partial.unlink(missing_ok=True)
        return path

    def _of_task(self, values: np.ndarray, task: int | None) -> np.ndarray:
        if not self.built.agent.task_aware:
            return values
        return values.reshape(*values.shape[:-1], self.tasks, -1)[..., self._head(task), :]

    def _head(self, task: int | None) -> int:
        if task is None or not 0 <= task < self.tasks:
            raise UserError(f"'{self.name}' has a head for each task: say task=, from 0 to {self.tasks - 1}")
        return task


def load_policy(path: str | Path) -> Policy:
    """A policy as `Policy.save` wrote it."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no policy at '{path}'")
    try:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        about = json.loads(str(arrays.pop(ABOUT)))
        if about.pop("format") != FORMAT:
            raise UserError(f"'{path}' was saved by another version of remanence ({about['remanence']})")
        told = about.pop("recipe")
        config: AgentConfig = _rebuilt(CONFIGS[told.pop("kind")], told)
        spaces: Spaces = _rebuilt(Spaces, about.pop("spaces"))
        name, tasks = about.pop("name"), about.pop("tasks")
        built = config.build(spaces, tasks)
        form = jax.eval_shape(lambda: weights_of(built.agent.init(jax.random.key(0), built.hypers)))
        leaves = [arrays[f"weights{where}"] for where, _ in named_leaves(form)]
        fits = all(
            (leaf.shape, leaf.dtype) == (wanted.shape, wanted.dtype)
            for leaf, (_, wanted) in zip(leaves, named_leaves(form), strict=True)
        )
        if not fits or len(leaves) != len(arrays):
            raise ValueError("weights")
    except UserError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OSError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise UserError(f"'{path}' is no policy saved by remanence, or it is damaged") from error
    state = jax.tree.unflatten(jax.tree.structure(form), leaves)
    return Policy(name, built, spaces, tasks, state, config, about)


def weights_of(state: Any) -> Any:
    """What of an agent's state decides what it believes: not the memories it learns from."""
    fields = getattr(state, "_fields", ())
    if not set(WEIGHTS) <= set(fields):
        return state
    return state._replace(**{name: () for name in fields if name not in WEIGHTS})


_compiled = lru_cache(maxsize=64)(jax.jit)  # once for each agent


@lru_cache(maxsize=64)
def _many(inspect: Callable[[Any, Any], dict]) -> Callable[[Any, Any], dict]:
    """`inspect` for many observations at once, compiled once for each agent."""
    return jax.jit(jax.vmap(inspect, in_axes=(None, 0)))


def _rebuilt(kind: type, values: dict[str, Any]) -> Any:
    """A dataclass from JSON, where tuples have become lists."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
