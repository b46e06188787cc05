"""Common parts of the deep experiments: networks, and contenders with known and unknown task boundaries (paper, App. C.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax.typing import ArrayLike

from remanence.agents import AT_SWITCH, Agent, NoHypers, PTHypers, TDHypers, random_agent
from remanence.agents.behaviour import Behaviour, epsilon_greedy
from remanence.agents.composition import ValueComposition, shared_trunk, single
from remanence.agents.dqn import (
    REINIT,
    Consolidation,
    OnConsolidate,
    Training,
    clear_replay,
    deep_agent,
    dqn,
    pt_dqn,
    reset_all,
)
from remanence.agents.networks import Layer, Network, conv, dense, flatten, relu, sequence, stacked, tanh
from remanence.agents.td import Problem
from remanence.core.types import Steps
from remanence.experiments.base import Contender
from remanence.results.claims import Claim, Finding, claim, lower
from remanence.results.store import Results
from remanence.results.summary import auc

DECAYS = (0.55, 0.75, 0.95)  # searched where task boundaries are unknown


@dataclass(frozen=True)
class DeepStepSizes:
    """The chosen step size of each contender."""

    plain: float
    reset: float
    permanent: float
    transient: float


def rooms_trunk(channels: int, view: int = 5) -> Network:
    """Three convolutions of a small view. Kernel 2 and stride 1: with the printed stride of 2, no cell of 5×5 would be left."""
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
    wrap: Callable[[ValueComposition], ValueComposition] = lambda parts: parts,
) -> dict[str, Contender]:
    """The plain learner, with reset, and with a permanent head. Task boundaries are known, and replay buffers are cleared there."""
    plain_net, double = wrap(single(stacked(trunk, head))), wrap(shared_trunk(trunk, head))
    form: dict[str, Any] = {
        "network": [f"{name} → {shape}" for name, shape, _ in (*trunk.summary, *head.summary)],
        "weights": trunk.size + head.size,
        "optimizer": training.optimizer,
        "batch": training.batch,
        "replay": training.replay,
        "frames": training.frames,
        "target_every": training.target_every,
        "switch": "the replay memory is emptied",
    }

    def plain(reset: bool) -> Agent:
        return deep_agent(
            problem,
            plain_net,
            behaviour,
            example_obs,
            training,
            reset_all() if reset else clear_replay(),
            consolidate_every=AT_SWITCH,
        )

    permanent = deep_agent(
        problem, double, behaviour, example_obs, training, OnConsolidate(REINIT), consolidation, AT_SWITCH
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
                    "optimizer": consolidation.optimizer,
                    "batches": "in order, each visit once" if consolidation.in_order else "random",
                    "most": consolidation.max_batches,
                    "at_least": consolidation.min_batches,
                },
                "forgets": "the transient head is redrawn, the trunk is kept, the optimizer's moments begin anew",
            },
            {"permanent_lr": search["permanent"], "transient_lr": search["transient"]},
        ),
    }


@dataclass(frozen=True)
class Continual:
    """The contenders with unknown task boundaries (paper, §6.1, App. C.1.5 and C.1.6)."""

    network: Callable[[float, int], Network]
    """(width, outputs) -> the paper's network with `width` times as many units in each hidden layer"""
    actions: int
    example_obs: ArrayLike
    training: Training
    large_replay: int
    consolidate_every: int
    """consolidation interval, in steps"""
    tasks: int
    epsilon: float
    target_follows: bool
    """whether the target network decays together with the transient one, as in the released code, or with its next copy"""
    plain_search: tuple[float, ...]
    permanent_search: tuple[float, ...]
    transient_search: tuple[float, ...]
    decay_search: tuple[float, ...] = DECAYS

    def all(self, hypers: PTHypers, plain: float, multihead: float, large: float) -> dict[str, Contender]:
        """The contenders of Figure 5, with the step sizes of each."""
        return {
            "PT-DQN": self.permanent_transient(hypers),
            "DQN": self.plain(plain),
            "DQN-multihead": self.multihead(multihead),
            "DQN-large-buffer": self.plain(large, large=True),
            "Random": self.random(),
        }

    def random(self) -> Contender:
        return Contender(random_agent(self.actions), NoHypers(), {"behaviour": "uniform"})

    def plain(self, lr: float, width: float = 1.0, large: bool = False) -> Contender:
        """DQN, or DQN with a large replay buffer."""
        net = self.network(width, self.actions)
        training = dataclasses.replace(self.training, replay=self.large_replay) if large else self.training
        agent = dqn(net, epsilon_greedy(self.epsilon), self.example_obs, training)
        return Contender(agent, TDHypers(lr), self._form(net, training), {"lr": self.plain_search})

    def multihead(self, lr: float) -> Contender:
        """DQN with a head per task. Only this agent observes the task; it clears its replay buffer at every switch."""
        net = self.network(1.0, self.tasks * self.actions)
        agent = dqn(
            net, epsilon_greedy(self.epsilon), self.example_obs, self.training, clear_replay(), heads=self.tasks
        )
        boundaries_known = "which task is live; the replay memory is emptied at a switch"
        form = self._form(net, self.training, heads=self.tasks, boundaries_known=boundaries_known)
        return Contender(agent, TDHypers(lr), form, {"lr": self.plain_search})

    def permanent_transient(self, hypers: PTHypers, width: float = 0.5) -> Contender:
        """PT-DQN with two networks, each half as wide as DQN's by default."""
        net, training = self.network(width, self.actions), self.training
        batches = max(1, self.consolidate_every // training.batch - 1)  # as in the released code
        consolidation = Consolidation(
            "sgd", buffer=self.consolidate_every, in_order=True, max_batches=batches, cache=True
        )
        behaviour = epsilon_greedy(self.epsilon)
        consolidate_every = Steps(self.consolidate_every)
        agent = pt_dqn(
            net, net, behaviour, self.example_obs, training, consolidation, consolidate_every, self.target_follows
        )
        form = self._form(
            net,
            training,
            weights=2 * net.size,
            consolidates=f"every {self.consolidate_every} steps, SGD, one pass in order over the visits since",
            forgets="all transient weights and biases are multiplied by λ; replay and moments are kept",
            target="decayed at once" if self.target_follows else "decayed with its next copy",
        )
        search = {
            "permanent_lr": self.permanent_search,
            "transient_lr": self.transient_search,
            "decay": self.decay_search,
        }
        return Contender(agent, hypers, form, search)

    def _form(self, net: Network, training: Training, **more: Any) -> dict[str, Any]:
        return {
            "network": [f"{name} → {shape}" for name, shape, _ in net.summary],
            "weights": net.size,
            "optimizer": training.optimizer,
            "batch": training.batch,
            "replay": training.replay,
            "frames": training.frames,
            "target_every": training.target_every,
            "behaviour": f"epsilon-greedy {self.epsilon}",
            **more,
        }


Field = Callable[[Continual], dict[str, Contender]]  # chooses the contenders


def paper_tables(
    permanent_transient: Mapping[float, Sequence[float]],
    transient_lrs: Sequence[float],
    plain: Mapping[str, Sequence[float]],
    plain_lrs: Sequence[float],
) -> dict[tuple[str, tuple[float, ...]], float]:
    """The tables of App. C.4: the paper's value for (contender, its searched values).

    A row of PT-DQN's table is for one permanent step size; its columns are the transient step sizes for each decay in turn.
    """
    columns = [(transient, decay) for decay in DECAYS for transient in transient_lrs]
    of_pt = {
        ("PT-DQN", (permanent, *column)): value
        for permanent, row in permanent_transient.items()
        for column, value in zip(columns, row, strict=True)
    }
    return of_pt | {
        (name, (lr,)): value for name, row in plain.items() for lr, value in zip(plain_lrs, row, strict=True)
    }


def against_rivals(results: Results, metric: str, what: str) -> dict[str, Claim]:
    """The claims of §6.1 ("Results") about PT-DQN and the baselines, in both worlds."""
    aucs = {name: auc(results, name, metric) for name in results.contenders}

    def below(lesser: str, better: str) -> Finding:
        return lower(results, lesser, better, aucs, what)

    rivals = ("DQN", "DQN-multihead", "DQN-large-buffer", "Random")
    claims = (
        claim(
            "pt-best",
            "PT-DQN performs better than all the baselines",
            *(below(rival, "PT-DQN") for rival in rivals),
        ),
        claim(
            "multihead-poor",
            "multi-headed DQN performs poorly compared to PT-DQN, though it knows the task",
            below("DQN-multihead", "PT-DQN"),
        ),
        claim("large-buffer-detrimental", "a large experience replay is detrimental", below("DQN-large-buffer", "DQN")),
    )
    return {one.id: one for one in claims}
