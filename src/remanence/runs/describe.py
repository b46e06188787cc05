"""Everything that decides the outcome of a run, as JSON. Its hash names the run's directory."""

from __future__ import annotations

import platform
from typing import Any

import jax
import numpy as np

from remanence import __version__
from remanence.agents.base import AgentConfig, hypers_of
from remanence.core.describe import to_json
from remanence.core.identity import own_code
from remanence.core.types import EnvSpec, Hypers
from remanence.runs.jobs import metrics_of
from remanence.runs.plan import Plan
from remanence.streams import OrderOfSeed


def describe(experiment: str, preset: str, plan: Plan, seeds: list[int]) -> dict[str, Any]:
    """The description of a run. Nothing in it is typed twice: it is read from the objects that run."""
    stream, code = plan.stream, own_code([plan.world, plan.truth, plan.probe])
    return {
        "experiment": experiment,
        "preset": preset,
        "world": to_json(plan.world),
        "stream": {
            "tasks": jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), stream.tasks),
            "order": stream.shared_order,
            **({"orders": [list(row) for row in stream.order.rows]} if isinstance(stream.order, OrderOfSeed) else {}),
            "segment_length": {type(stream.segment_length).__name__.lower(): stream.segment_length.count},
            "boundaries_known": stream.boundaries_known,
            "truncate_on_switch": stream.truncate_on_switch,
        },
        "truth": to_json(plan.truth),
        "metrics": metrics_of(plan),
        "map_windows": list(plan.map_windows),
        "max_steps": plan.max_steps,
        "window": plan.window,
        "contenders": {name: describe_agent(contender.config) for name, contender in plan.contenders.items()},
        "seeds": seeds,
        **({"code": code} if code else {}),
        "versions": versions(),
    }


def describe_agent(config: AgentConfig) -> dict[str, Any]:
    """The whole configuration of an agent, those of its numbers that may differ between lanes, and the code of the user's own
    classes and functions in it."""
    hypers, code = hypers_of(config), own_code(config)
    numbers = to_json(vars(hypers)) if isinstance(hypers, Hypers) else {}
    return {"config": to_json(config), "hypers": numbers, **({"code": code} if code else {})}


def num_weights(config: AgentConfig, spec: EnvSpec) -> int:
    """How many weights an agent has, known without compiling anything."""
    agent = config.build(spec)
    state = jax.eval_shape(lambda: agent.init(jax.random.key(0), hypers_of(config)))
    parts = [getattr(state, name) for name in ("permanent", "transient") if hasattr(state, name)]
    return sum(leaf.size for leaf in jax.tree.leaves(parts or agent.policy_state(state)))


def versions() -> dict[str, str]:
    return {
        "remanence": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
