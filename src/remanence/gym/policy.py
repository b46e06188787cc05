"""Trained policies: act, inspect values, save and load. Loading a file never runs code from it."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from remanence import __version__
from remanence.agents.base import Agent, AgentConfig, hypers_of
from remanence.agents.configs import KINDS
from remanence.core import backend
from remanence.core.archives import DAMAGED, TooLargeError, read_arrays
from remanence.core.describe import KIND, from_json, to_json
from remanence.core.errors import UserError, disk_errors, printable
from remanence.core.files import replacing
from remanence.core.frames import join_frames
from remanence.core.prng import make_key
from remanence.core.tree_utils import named_leaves
from remanence.core.types import TaskObs
from remanence.gym.spaces import Spaces

FORMAT = 2
MAX_TASKS = 1_000_000
ABOUT = "about"  # the array that holds everything except weights, as JSON


@dataclass(frozen=True, eq=False, repr=False)
class Policy:
    """A trained agent, without learning."""

    name: str
    config: AgentConfig
    spaces: Spaces
    tasks: int
    state: Any
    """the part of the agent's state that it needs to act (`Agent.policy_state`)"""
    about: dict[str, Any] = field(default_factory=dict)
    """its origin: the seed, …"""

    def __repr__(self) -> str:
        """One line: the agent, its seed, what it sees, its actions, and how many weights it has."""
        stopped = f", stopped after {self.about['stopped_after']}" if "stopped_after" in self.about else ""
        seed = f" (seed {self.about['seed']}{stopped})" if "seed" in self.about else ""
        weights = sum(np.size(leaf) for leaf in jax.tree.leaves(self.state))
        spaces, heads = self.spaces, f", {self.tasks} tasks" if self.tasks > 1 else ""
        many = f"observations of {len(spaces.parts)} parts" if spaces.parts else f"observations {spaces.env_shape}"
        seen = f"{spaces.states} states" if spaces.states else many
        return printable(f"<Policy {self.name}{seed}: {seen}, {spaces.actions} actions{heads}, {weights:,} weights>")

    @cached_property
    def agent(self) -> Agent:
        return self.config.build(self.spaces.env_spec(self.tasks))

    def act(
        self, obs: Any, greedy: bool = True, task: int | None = None, rng: np.random.Generator | None = None
    ) -> int:
        """An action for one observation of the environment.

        Args:
            obs: an observation; for an agent that stacks frames, its last `frames` observations, oldest first.
            greedy: whether to return the first greedy action; else an action of the behaviour policy, drawn with `rng`.
            task: the current task, for an agent that has a head for each.
        """
        seen, many = self._encoded(obs)
        if many:
            raise UserError(f"act takes one observation, of shape {self._input_shape}; got {np.shape(obs)}")
        if greedy:
            return int(self.values(obs, task)["value"].argmax()) + self.spaces.first_action
        if self._frames > 1:
            raise UserError("an agent that stacks frames can only act greedily here: omit greedy=False")
        rng = np.random.default_rng() if rng is None else rng
        shown = TaskObs(jnp.asarray(seen[0]), jnp.int32(self._head(task))) if self.agent.task_aware else seen[0]
        key = make_key(int(rng.integers(2**32)))
        action = _compiled(self.agent.act)(self.state, hypers_of(self.config), shown, key)
        return int(action) + self.spaces.first_action

    def values(self, obs: Any, task: int | None = None) -> dict[str, np.ndarray]:
        """The value of each action, by part: "value", and for PT agents "permanent" and "transient".

        Each has shape [actions] for one observation, [n, actions] for several.
        """
        seen, many = self._encoded(obs)
        parts = {part: np.asarray(values) for part, values in _many(self.agent.inspect)(self.state, seen).items()}
        return {part: self._of_task(values if many else values[0], task) for part, values in parts.items()}

    def save(self, path: str | Path) -> Path:
        """Writes the policy to a file, for `remanence.load_policy`."""
        path = Path(path)
        config = _described(self.config)
        about = {
            "format": FORMAT,
            "remanence": __version__,
            "name": self.name,
            "config": config or _own_config(self.config),
            "needs_agent": config is None,
            "spaces": to_json(self.spaces),
            "tasks": self.tasks,
            **self.about,
        }
        arrays = {f"weights{name}": np.asarray(leaf) for name, leaf in named_leaves(self.state)}
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as partial, partial.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **{ABOUT: np.array(json.dumps(about)), **arrays})
        return path

    @property
    def _frames(self) -> int:
        return getattr(self.config, "frames", 1)

    @property
    def _input_shape(self) -> tuple[int, ...]:
        """The shape of what `act` takes."""
        return self.spaces.env_shape if self._frames == 1 else (self._frames, *self.spaces.env_shape)

    def _encoded(self, obs: Any) -> tuple[np.ndarray, bool]:
        """[n, *input] one input or several, and whether there are several."""
        if self._frames == 1:
            return self.spaces.encode_many(obs)
        wanted = self._input_shape
        if self.spaces.parts:
            frames = obs if isinstance(obs, list) else [obs]
            if len(frames) != self._frames:
                raise UserError(
                    f"this agent stacks {self._frames} frames: give a list of the last {self._frames} observations"
                )
            return np.asarray(join_frames(jnp.asarray(self.spaces.encode_many(frames)[0])[None])), False
        array = np.asarray(obs)
        if array.shape != wanted and (array.shape[1:] != wanted or array.ndim != len(wanted) + 1):
            raise UserError(
                f"this agent stacks {self._frames} frames: give the last {self._frames} observations, oldest first, as an array of "
                f"shape {wanted}; got {array.shape}"
            )
        stacks = array[None] if array.shape == wanted else array
        encoded = np.stack([self.spaces.encode_many(stack)[0] for stack in stacks])
        return np.asarray(join_frames(jnp.asarray(encoded))), array.shape != wanted

    def _of_task(self, values: np.ndarray, task: int | None) -> np.ndarray:
        if not self.agent.task_aware:
            return values
        return values.reshape(*values.shape[:-1], self.tasks, -1)[..., self._head(task), :]

    def _head(self, task: int | None) -> int:
        if task is None or not 0 <= task < self.tasks:
            raise UserError(f"'{self.name}' has a head for each task: give task=, from 0 to {self.tasks - 1}")
        return task


def load_policy(path: str | Path, agent: AgentConfig | type | None = None) -> Policy:
    """Reads a policy that `Policy.save` wrote.

    Args: agent: your own class of configurations, whose fields the file holds; or the configuration itself, if it has functions in
        it, which no file holds.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no policy at '{path}'")
    try:
        arrays = read_arrays(path, backend.memory() // 4)
        about = json.loads(str(arrays.pop(ABOUT)))
        if about.pop("format") != FORMAT:
            raise UserError(f"'{path}' was saved by another version of remanence ({about['remanence']})")
        described, needs_agent = about.pop("config"), about.pop("needs_agent")
        if not isinstance(needs_agent, bool):
            raise ValueError("needs_agent")
        if agent is None and needs_agent:
            raise UserError(
                f"'{path}' is the policy of an agent that no file can hold ({described[KIND]} is a class of your own, or has "
                "functions in it): give its configuration: results.policy(…, agent=…) or load_policy(path, agent=…)"
            )
        config = _own(agent, described, path) if isinstance(agent, type) else agent or _config(described)
        spaces = _spaces(about.pop("spaces"))
        name, tasks = about.pop("name"), about.pop("tasks")
        if not isinstance(name, str):
            raise ValueError("name")
        if not isinstance(tasks, int) or not 1 <= tasks <= MAX_TASKS:
            raise ValueError("tasks")
        built = config.build(spaces.env_spec(tasks))
        shapes = jax.eval_shape(lambda: built.policy_state(built.init(jax.random.key(0), hypers_of(config))))
        leaves = [_full_precision(arrays[f"weights{where}"]) for where, _ in named_leaves(shapes)]
        fits = all(
            (leaf.shape, leaf.dtype) == (wanted.shape, wanted.dtype)
            for leaf, (_, wanted) in zip(leaves, named_leaves(shapes), strict=True)
        )
        if not fits or len(leaves) != len(arrays):
            raise ValueError("weights")
        if not all(np.isfinite(leaf).all() for leaf in leaves if leaf.dtype.kind == "f"):
            raise UserError(
                f"'{path}' holds weights that are NaN or infinite: its agent diverged, or the file is damaged"
            )
    except UserError:
        raise
    except TooLargeError as error:
        raise UserError(f"'{path}' is too large: {error}") from error
    except DAMAGED as error:
        raise UserError(f"'{path}' is not a policy of this agent saved by remanence, or it is damaged") from error
    state = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
    return Policy(name, config, spaces, tasks, state, about)


def _full_precision(weights: np.ndarray) -> np.ndarray:
    """Weights as agents have them: those of archived policies are stored in half precision."""
    return weights.astype(np.float32) if weights.dtype == np.float16 else weights


def needs_code(config: AgentConfig) -> bool:
    """Whether no file can hold a configuration."""
    return _described(config) is None


def _described(config: AgentConfig) -> dict[str, Any] | None:
    """A configuration as JSON; None if it cannot be read back: it is of a user's own class, or has functions in it."""
    if KINDS.get(type(config).__name__) is not type(config):
        return None
    try:
        described = to_json(config)
        return described if from_json(described, KINDS) == config else None
    except (UserError, ValueError, TypeError):
        return None


def _own_config(config: AgentConfig) -> dict[str, Any]:
    """A configuration of a user's own class: its fields if they are plain data, else only its name."""
    kind = type(config)
    try:
        described = to_json(config)
        if from_json(described, {**KINDS, kind.__name__: kind}) == config:
            return described
    except (UserError, ValueError, TypeError, AttributeError):
        pass
    return {KIND: kind.__name__}


def _own(kind: type, described: dict[str, Any], path: Path) -> AgentConfig:
    """The configuration of the user's own class."""
    if described[KIND] != kind.__name__:
        raise UserError(f"'{path}' is the policy of a {described[KIND]}, not of a {kind.__name__}")
    if len(described) == 1 and dataclasses.fields(kind):
        raise UserError(
            f"'{path}' does not hold the fields of {kind.__name__}, which has functions in it: give the configuration itself, "
            f"load_policy(path, agent={kind.__name__}(…))"
        )
    return from_json(described, {**KINDS, kind.__name__: kind})


def _config(described: dict[str, Any]) -> AgentConfig:
    if described[KIND] not in KINDS:
        raise ValueError("config")
    return from_json(described, KINDS)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _spaces(described: dict[str, Any]) -> Spaces:
    """Spaces from JSON; raises if a field is missing or has another type than it should."""
    described = dict(described)
    parts = tuple((key, _spaces(part)) for key, part in described.pop("parts", []))
    if any(not isinstance(key, str | int) for key, _ in parts):
        raise ValueError("parts")
    if missing := {field.name for field in dataclasses.fields(Spaces)} - {*described, "parts"}:
        raise ValueError(f"without {missing}")
    spaces = Spaces(**{name: _tuple(value) for name, value in described.items()}, parts=parts)
    hints = {name: hint for name, hint in typing.get_type_hints(Spaces).items() if name != "parts"}
    for name, hint in hints.items():
        value = getattr(spaces, name)
        is_tuple = typing.get_origin(hint) is tuple
        parts, kind = (value, int) if is_tuple else ((value,), hint)
        if (is_tuple and not isinstance(value, tuple)) or any(type(part) is not kind for part in parts):
            raise ValueError(name)
    return spaces


_compiled = lru_cache(maxsize=64)(jax.jit)  # once per agent


@lru_cache(maxsize=64)
def _many(inspect: Callable[[Any, Any], dict]) -> Callable[[Any, Any], dict]:
    """`inspect` for several observations, compiled once per agent."""
    return jax.jit(jax.vmap(inspect, in_axes=(None, 0)))
