"""Checks an environment before training: each violation of Gymnasium's API is reported in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from remanence.core.backend import one_thread, xla_threads
from remanence.core.errors import UserError, calling
from remanence.gym.changes import Witness
from remanence.gym.contract import checked_reward
from remanence.gym.factories import EnvFactory
from remanence.gym.restoring import how_restored
from remanence.gym.spaces import Spaces, read_spaces
from remanence.streams import Schedule

STEPS = 20  # of a check


class Checked(NamedTuple):
    """Environments that ran for a few steps."""

    spaces: Spaces
    """which all of them have"""
    ids: list[str]
    parts: int
    """how many environments one call of a factory makes"""
    use_jax: bool


def check_envs(env_factories: Sequence[EnvFactory], schedule: Schedule) -> Checked:
    """Runs all environments of a life for a few steps."""
    found: list[tuple[str, Spaces]] = []
    ids, sizes, use_jax = [], [], False
    for number, factory in enumerate(env_factories):
        name = schedule.names[number] if schedule.environments else "the environment"
        parts = calling(f"making {name}", factory.make)
        try:
            found += [(name, _check_env(env, name, schedule)) for env in parts]
            ids.append(getattr(parts[0].spec, "id", None) or type(parts[0].unwrapped).__name__)
            sizes.append(len(parts))
            use_jax |= uses_jax(parts[0])
        finally:
            for env in parts:
                if hasattr(env, "close"):
                    calling(f"closing {name}", env.close)
    (first, spaces), *others = found
    for name, other in others:
        if other != spaces:
            raise UserError(
                f"environments that take turns need the same spaces: {first} has {_summary(spaces)}, "
                f"{name} has {_summary(other)}: "
                "give adapter=, a function that wraps each environment so that all have the same spaces, for example with "
                "gymnasium.wrappers.TransformObservation and TransformAction"
            )
    if len(set(sizes)) > 1:
        raise UserError(f"vector environments that take turns need the same number of parts; these have {sizes}")
    if use_jax and one_thread() is None and xla_threads() < 2:
        raise UserError(
            "the environment runs jax programs, and XLA has only one thread, which waits for them: set PJRT_NPROC=2 in the "
            "environment variables"
        )
    return Checked(spaces, ids, sizes[0], use_jax)


def uses_jax(env: Any) -> bool:
    """Whether an environment or one of its wrappers is defined where jax, or something of it, is imported."""
    layers = [env]
    while hasattr(layers[-1], "env"):
        layers.append(layers[-1].env)
    modules = {kind.__module__ for layer in layers for kind in type(layer).__mro__}
    names = (name for module in modules for name in vars(sys.modules.get(module, object)).values())
    homes = (getattr(one, "__name__" if isinstance(one, ModuleType) else "__module__", None) for one in names)
    return any(isinstance(home, str) and home.partition(".")[0] in ("jax", "jaxlib") for home in homes)


def check_restoring(factory: EnvFactory, spaces: Spaces, name: str) -> tuple[Any, str, str]:
    """One environment, already closed; how such environments are restored from a checkpoint; their fingerprint."""
    envs = [calling(f"making {name}", factory.make)[0] for _ in range(2)]
    try:
        how, fingerprint = calling(f"a trial of {name}", how_restored, *envs, spaces)
    finally:
        for env in envs:
            calling(f"closing {name}", env.close)
    return envs[0], how, fingerprint


def _check_env(env: Any, name: str, schedule: Schedule) -> Spaces:
    import gymnasium

    if isinstance(env, gymnasium.vector.VectorEnv):
        raise UserError(
            f"{name} is a vector environment without access to its parts: make a single environment and use seeds={env.num_envs}, "
            'or a synchronous vector (gymnasium.make_vec(…, vectorization_mode="sync"))'
        )
    if not isinstance(env, gymnasium.Env):
        old = " (an environment of the old gym package?)" if hasattr(env, "reset") and hasattr(env, "step") else ""
        raise UserError(f"{name} is not a gymnasium.Env but {type(env).__module__}.{type(env).__qualname__}{old}")
    spaces = read_spaces(env.observation_space, env.action_space)
    if schedule.change is not None:
        times = {segment * schedule.segment_length.count for segment in range(len(schedule.order))} | {
            schedule.duration - 1,
            0,
        }
        change = Witness(schedule.change, env, name)
        for time in sorted(times, reverse=True):  # ends at the first value
            value = schedule.value(time)
            calling(f"changing {name} to {value!r}", change, value)
        change.warn_if_nothing_changed()
    rng = np.random.default_rng(0)
    _reset(env, name, spaces)
    for _ in range(STEPS):
        action = spaces.first_action + int(rng.integers(spaces.actions))
        if _step(env, name, spaces, action):
            _reset(env, name, spaces)
    return spaces


def _reset(env: Any, name: str, spaces: Spaces) -> None:
    answer = calling(f"resetting {name}", env.reset, seed=0)
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
        raise UserError(
            f"reset of {name} must return an observation and a dict (obs, info); it returned {_kind(answer)}"
        )
    _check_obs(env, name, spaces, answer[0], "reset")


def _step(env: Any, name: str, spaces: Spaces, action: int) -> bool:
    """Whether the episode is over."""
    answer = calling(f"a step of {name}", env.step, action)
    if not (isinstance(answer, tuple) and len(answer) == 5):
        old = ": the old API with one `done`" if isinstance(answer, tuple) and len(answer) == 4 else ""
        raise UserError(
            f"step of {name} must return obs, reward, terminated, truncated, info; it returned {_kind(answer)}{old}"
        )
    obs, reward, terminated, truncated, _ = answer
    _check_obs(env, name, spaces, obs, "step")
    try:
        checked_reward(reward)
    except UserError as error:
        raise UserError(f"step of {name} returned {error}") from None
    for what, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            raise UserError(f"step of {name} must return {what} as True or False; it returned {value!r}")
    return bool(terminated or truncated)


def _check_obs(env: Any, name: str, spaces: Spaces, obs: Any, when: str) -> None:
    space = env.observation_space
    if space.contains(obs):
        return
    array, wrong = np.asarray(None if spaces.parts else obs), ""
    if spaces.parts:
        wrong = f"{_kind(obs)} outside of {space}"
    elif array.shape != spaces.env_shape:
        wrong = f"shape {array.shape} instead of {spaces.env_shape}"
    elif not np.can_cast(array.dtype, space.dtype):
        wrong = f"dtype {array.dtype} instead of {space.dtype}"
    else:
        wrong = f"a value outside of {space}"
    raise UserError(f"{when} of {name} returned an observation that is not in its space: {wrong}")


def _kind(answer: Any) -> str:
    return f"a tuple of {len(answer)}" if isinstance(answer, tuple) else f"a {type(answer).__name__}"


def _summary(spaces: Spaces) -> str:
    seen = (
        f"{spaces.states} states" if spaces.states else f"{spaces.kind}s of shape {spaces.env_shape} ({spaces.dtype})"
    )
    return f"{seen} and {spaces.actions} actions"
