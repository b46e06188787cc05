"""What the deep experiments share: networks, and the contenders of a semi-continual experiment (paper, App. C.1.1 to C.1.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jax.typing import ArrayLike

from remanence.agents import AT_SWITCH, Agent, PTHypers, TDHypers
from remanence.agents.behaviour import Behaviour
from remanence.agents.deep import REDRAW, Consolidation, Forgetting, Training, deep_agent, resetting
from remanence.agents.parts import Parts, alone, two_heads
from remanence.agents.td import Problem
from remanence.experiments.base import Contender
from remanence.networks import Layer, Network, conv, dense, flatten, relu, sequence, stacked, tanh


@dataclass(frozen=True)
class DeepStepSizes:
    """The chosen step size of each contender."""

    plain: float
    reset: float
    permanent: float
    transient: float


def rooms_trunk(channels: int, view: int = 5) -> Network:
    """Three convolutions of a small view. Kernel 2 and stride 1: with the printed stride of 2 nothing would be left of 5×5."""
    layers: list[Layer] = []
    for filters in (16, 32, 64):
        layers += [conv(filters), relu()]
    return sequence([*layers, flatten()], (view, view, channels))


def prediction_head(features: int) -> Network:
    return sequence([dense(64), tanh(), dense(1)], (features,))


def control_head(features: int, actions: int) -> Network:
    return sequence([dense(128), relu(), dense(64), tanh(), dense(actions)], (features,))


def semi_continual(
    family: str,
    problem: Problem,
    trunk: Network,
    head: Network,
    behaviour: Behaviour,
    example_obs: ArrayLike,
    training: Training,
    consolidation: Consolidation,
    chosen: DeepStepSizes,
    search: Mapping[str, tuple[float, ...]],
    dress: Callable[[Parts], Parts] = lambda parts: parts,
) -> dict[str, Contender]:
    """The learner alone, alone with a reset, and with a permanent head. All are told of switches and empty their memory there."""
    single, double = dress(alone(stacked(trunk, head))), dress(two_heads(trunk, head))
    form: dict[str, Any] = {
        "network": [f"{name} → {shape}" for name, shape, _ in (*trunk.summary, *head.summary)],
        "weights": trunk.size + head.size,
        "optimiser": training.optimiser,
        "batch": training.batch,
        "replay": training.replay,
        "frames": training.frames,
        "target_period": training.target_period,
        "switch": "the replay memory is emptied",
    }

    def plain(reset: bool) -> Agent:
        return deep_agent(problem, single, behaviour, example_obs, training, resetting(reset), rhythm=AT_SWITCH)

    permanent = deep_agent(
        problem, double, behaviour, example_obs, training, Forgetting(REDRAW), consolidation, AT_SWITCH
    )
    return {
        family: Contender(plain(False), TDHypers(chosen.plain), form, {"lr": search["plain"]}),
        f"{family}-reset": Contender(
            plain(True), TDHypers(chosen.reset), {**form, "reset": "all weights"}, {"lr": search["reset"]}
        ),
        f"PT-{family}": Contender(
            permanent,
            PTHypers(chosen.permanent, chosen.transient, 0.0),
            {
                **form,
                "weights": trunk.size + 2 * head.size,
                "permanent": {
                    "optimiser": consolidation.optimiser,
                    "batches": "in order, each visit once" if consolidation.in_order else "random",
                    "most": consolidation.most_batches,
                    "at_least": consolidation.at_least,
                },
                "forgets": "the transient head is redrawn, the trunk is kept, the optimiser's moments begin anew",
            },
            {"permanent_lr": search["permanent"], "transient_lr": search["transient"]},
        ),
    }
