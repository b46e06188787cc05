"""Probes: what is measured at the end of a window (an episode, or a number of steps). Names are those of `metrics.py`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from remanence.agents.base import Agent
from remanence.core.errors import UserError
from remanence.core.frames import join_frames
from remanence.engine import parts
from remanence.engine.life import LAST_EPISODES, Probe, ProbeInput
from remanence.worlds.true_values import Truth


def value_error(agent: Agent, truth: Truth) -> Probe:
    """Root mean squared value error on the current task and on the others (paper, §5.1 and Fig. 2).

    The current task is evaluated with the agent's value function; the other tasks with the part it retains when the task changes:
    the permanent part for PT, the only value function for TD. Terminal states count as points without error.

        rmsve_current              √ Σ_s d(s) (v(s) − v_τ(s))²       d: weights of the points
        rmsve_current_unweighted   the same, all points weighted equally
        rmsve_others               mean over the other tasks of the unweighted root mean squared error
        mse_others                 mean over the other tasks of the unweighted mean squared error
        rmsve_permanent            unweighted root mean squared distance of the part it retains from the mean value over all tasks;
                                   only in lives that watch their parts
    """
    points, values = jnp.asarray(truth.points), jnp.asarray(truth.values.T, jnp.float32)  # [points, tasks]
    weights = jnp.asarray(np.where(truth.final, 0.0, truth.weights), jnp.float32)
    alike = jnp.asarray(np.where(truth.final, 0.0, 1 / len(truth.final)), jnp.float32)
    num_tasks = values.shape[1]

    def measure(probe_input: ProbeInput) -> dict[str, Array]:
        beliefs = jax.vmap(lambda point: agent.inspect(probe_input.agent, point))(points)  # each [points, 1]
        now, retained = beliefs["value"][:, 0], beliefs.get("permanent", beliefs["value"])[:, 0]
        mse_now, mse_now_unweighted, mse_retained = _squared_errors(now, retained, values, weights, alike)
        live = jnp.arange(num_tasks) == probe_input.task_id

        def current(by_task: Array) -> Array:
            return jnp.sum(jnp.where(live, by_task, 0.0))

        def others(by_task: Array) -> Array:
            return jnp.sum(jnp.where(live, 0.0, by_task)) / max(num_tasks - 1, 1)

        measured = {
            "rmsve_current": jnp.sqrt(current(mse_now)),
            "rmsve_current_unweighted": jnp.sqrt(current(mse_now_unweighted)),
            "rmsve_others": others(jnp.sqrt(mse_retained)),
            "mse_others": others(mse_retained),
        }
        if probe_input.parts is not None:
            measured["rmsve_permanent"] = jnp.sqrt(jnp.sum(alike * (retained - jnp.mean(values, axis=1)) ** 2))
        return measured

    return measure


def episode_return(best: np.ndarray | None = None) -> Probe:
    """The return of each episode, for streams that count episodes (paper, §5.2).

    Args: best: [tasks] the optimal value of the start state; without it, no regret is recorded.

        discounted_return   Σ_t γ^t R_{t+1}, as in the published figures
        return              Σ_t R_{t+1}
        regret              best − discounted_return
        steps               the length of the episode
    """

    def measure(probe_input: ProbeInput) -> dict[str, Array]:
        if probe_input.episodes is not None:
            raise UserError(
                "episode_return is for streams that count episodes: this one counts steps, use latest_returns"
            )
        measured = {
            "discounted_return": probe_input.window.discounted,
            "return": probe_input.window.reward,
            "steps": probe_input.window.steps.astype(jnp.float32),
        }
        if best is not None:
            measured["regret"] = jnp.asarray(best, jnp.float32)[probe_input.task_id] - probe_input.window.discounted
        return measured

    return measure


def episode_curves(probe_input: ProbeInput) -> dict[str, Array]:
    """Episodes and rewards of a window, for both clocks: if the stream counts episodes, a window is one episode.

    return           mean undiscounted return of the episodes that ended in the window
    reward_rate      reward per step of the window
    episode_length   mean length of those episodes
    episodes         the number of those episodes

    If none ended, return and length are those of the previous window, and 0 before the first episode ends.
    """
    window, done = probe_input.window, probe_input.episodes
    length = window.steps.astype(jnp.float32)
    return {
        "return": window.reward if done is None else done.mean_return,
        "reward_rate": window.reward / jnp.maximum(window.steps, 1),
        "episode_length": length if done is None else done.mean_length,
        "episodes": jnp.ones_like(length) if done is None else done.count.astype(jnp.float32),
    }


def latest_returns(probe_input: ProbeInput) -> dict[str, Array]:
    """Returns of episodes, for streams that count steps.

    return_last100     mean return of the last 100 episodes, or of all if there are fewer; 0 before the first ends
    return_average     moving average over episodes, R ← 0.99 R + 0.01 G, from 0; as in the released code
    return             mean return of the episodes that ended in the window; as in `episode_curves`
    episodes           the number of those episodes; an episode that a switch truncates is not counted
    reward_rate        reward per step of the window
    """
    done = probe_input.episodes
    if done is None:
        raise UserError("latest_returns is for streams that count steps: this one counts episodes, use episode_return")
    curves = episode_curves(probe_input)
    return {
        "return_last100": jnp.sum(done.latest) / jnp.clip(done.ever, 1, LAST_EPISODES),
        "return_average": done.average,
        **{name: curves[name] for name in ("return", "episodes", "reward_rate")},
    }


def parts_of_value(agent: Agent, discount: float) -> Probe:
    """The two parts of a PT agent, and whether its values are possible; needs `LifeConfig.watch_parts`.

    absorbed, kept, jump   of the last consolidation (`engine/parts.py`); 0, 1 and 0 before the first
    permanent_drift        distance of the weights of V^P from their start, at the last consolidation
    transient_drift        the same for V^T
    permanent_size         mean |V^P| of the states visited recently
    transient_size         mean |V^T| of them
    value_ratio            the largest |V^P + V^T| of them, relative to max |R| / (1 − γ), which no value can exceed; 0 where
                           that is not known: before the first reward, and without discounting
    """

    def measure(probe_input: ProbeInput) -> dict[str, Array]:
        last = probe_input.parts
        if last is None:
            raise UserError("parts_of_value needs a life that watches its parts: give LifeConfig(watch_parts=True)")
        of_consolidation = ("absorbed", "kept", "jump", "permanent_drift", "transient_drift")
        measured = {name: getattr(last, name) for name in of_consolidation}
        if agent.visited is None:
            return {**measured, **dict.fromkeys(("permanent_size", "transient_size", "value_ratio"), jnp.float32(0))}
        seen = agent.visited(probe_input.agent)
        permanent, transient = parts.part_values(agent, probe_input.agent, seen)
        largest = jnp.max(jnp.where(seen.weight > 0, jnp.abs(permanent + transient), 0.0))
        bounded = (last.largest_reward > 0) & (discount < 1)
        allowed = jnp.where(bounded, last.largest_reward, 1.0)
        return {
            **measured,
            "permanent_size": parts.mean(jnp.abs(permanent), seen),
            "transient_size": parts.mean(jnp.abs(transient), seen),
            "value_ratio": jnp.where(bounded, (1 - discount) * largest / allowed, 0.0),
        }

    return measure


def together(*probes: Probe) -> Probe:
    """All measurements of several probes."""

    def measure(probe_input: ProbeInput) -> dict[str, Array]:
        return {name: value for probe in probes for name, value in probe(probe_input).items()}

    return measure


def value_maps(agent: Agent, points: np.ndarray) -> Probe:
    """The agent's values of every point, by part: {"value": [points, outputs], …}."""

    def measure(probe_input: ProbeInput) -> dict[str, Array]:
        return jax.vmap(lambda point: agent.inspect(probe_input.agent, point))(jnp.asarray(points))

    return measure


def magnitudes(agent: Agent, frames: int = 1) -> Probe:
    """How large the agent's values are for what it sees at the end of a window: whether it diverges, though all is finite.

    largest_value   max |v| over actions and parts
    largest_input   max |x| of the observation, at least 1: values of a network that has learned nothing are of this order

    Args: frames: of an agent that stacks them; the observation stands for all.
    """

    def measure(probe_input: ProbeInput) -> dict[str, Array]:
        obs = jnp.asarray(probe_input.obs)
        seen = obs if frames == 1 else join_frames(jnp.stack([obs] * frames)[None])[0]
        values = jax.tree.leaves(agent.inspect(probe_input.agent, seen))
        scale = jnp.max(jnp.abs(obs)) if jnp.issubdtype(obs.dtype, jnp.floating) else 1.0
        return {
            "largest_value": jnp.max(jnp.stack([jnp.float32(0), *(jnp.max(jnp.abs(part)) for part in values)])),
            "largest_input": jnp.maximum(jnp.float32(scale), 1.0),
        }

    return measure


def _squared_errors(
    now: Array, retained: Array, values: Array, weights: Array, alike: Array
) -> tuple[Array, Array, Array]:
    """Squared errors on every task, [tasks]: of `now`, weighted; of `now`, unweighted; of `retained`, unweighted.

    Summed point by point: mapped over lanes, each addition is one vector instruction for several lanes, four times faster
    on a CPU than a reduction within each lane.
    """
    zero = jnp.zeros(values.shape[1])

    def add(sums: tuple[Array, Array, Array], point: tuple[Array, ...]) -> tuple[tuple[Array, Array, Array], None]:
        now, retained, truth, weight, alike = point
        squared_now, squared_retained = (now - truth) ** 2, (retained - truth) ** 2
        return (sums[0] + weight * squared_now, sums[1] + alike * squared_now, sums[2] + alike * squared_retained), None

    return jax.lax.scan(add, (zero, zero, zero), (now, retained, values, weights, alike), unroll=32)[0]
