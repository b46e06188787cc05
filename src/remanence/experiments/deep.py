"""Common parts of the deep experiments: networks, and contenders with known and unknown task boundaries (paper, App. C.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remanence.agents.configs import DQN, PTDQN, Random
from remanence.agents.networks import Conv, Dense, Flatten, Layer, Relu, Tanh
from remanence.experiments.statements import gain_of, weights
from remanence.results.claims import Claim, Finding, claim, lower
from remanence.results.gains import CONTROL_SUFFIX
from remanence.results.store import Results
from remanence.results.summary import auc
from remanence.runs.plan import Contender, Plan

CONTROL = f"PT-DQN{CONTROL_SUFFIX}"
CONTROL_REMARK = (
    f"{CONTROL} is a control of ours that the paper has not: its permanent step size is 0. At the published step"
    " sizes the permanent network hardly moves, and the control shows what that little contributes."
)
DECAYS = (0.55, 0.75, 0.95)  # searched where task boundaries are unknown


@dataclass(frozen=True)
class DeepStepSizes:
    """The chosen step size of each contender."""

    plain: float
    reset: float
    permanent: float
    transient: float


def rooms_trunk() -> tuple[Layer, ...]:
    """Three convolutions of a small view. Kernel 2 and stride 1: with the printed stride of 2 nothing would be left of 5×5."""
    return (*(layer for filters in (16, 32, 64) for layer in (Conv(filters), Relu())), Flatten())


PREDICTION_HEAD: tuple[Layer, ...] = (Dense(64), Tanh())
CONTROL_HEAD: tuple[Layer, ...] = (Dense(128), Relu(), Dense(64), Tanh())


def semi_continual(
    plain: type[DQN],
    permanent_transient: type[PTDQN],
    shared: Mapping[str, Any],
    consolidation: Mapping[str, Any],
    chosen: DeepStepSizes,
    search: Mapping[str, tuple[float, ...]],
    sync_target: bool = False,
) -> dict[str, Contender]:
    """The learner, the learner with a reset, and with a permanent head. All know task boundaries and clear their replay there.

    Args:
        shared: fields that all of them have.
        consolidation: fields that only the one with a permanent head has.
        sync_target: whether the learner without a reset also copies its target network at a switch, as in the released code.
    """
    contenders = (
        Contender(
            plain(lr=chosen.plain, clear_replay=True, sync_target=sync_target, **shared), {"lr": search["plain"]}
        ),
        Contender(plain(lr=chosen.reset, reset=True, **shared), {"lr": search["reset"]}),
        Contender(
            permanent_transient(
                permanent_lr=chosen.permanent,
                transient_lr=chosen.transient,
                decay=0.0,
                consolidate_every=None,
                **shared,
                **consolidation,
            ),
            {"permanent_lr": search["permanent"], "transient_lr": search["transient"]},
        ),
    )
    return {contender.config.name: contender for contender in contenders}


@dataclass(frozen=True)
class Continual:
    """The agents of a stream whose task boundaries are unknown (paper, §6.1, App. C.1.5 and C.1.6)."""

    layers: Callable[[float], tuple[Layer, ...]]
    """width -> the hidden layers of the paper's network with `width` times their units"""
    shared: Mapping[str, Any]
    """fields that all of them have"""
    large_replay: int
    consolidate_every: int
    sync_target: bool
    """whether the target network is decayed together with the transient one, as in the released code, or with its next copy"""
    plain_search: tuple[float, ...]
    permanent_search: tuple[float, ...]
    transient_search: tuple[float, ...]
    decay_search: tuple[float, ...] = DECAYS

    def all(self, chosen: Mapping[str, float], plain: float, multihead: float, large: float) -> dict[str, Contender]:
        """The agents of Figure 5, with the step sizes of each, and a control that the paper has not.

        At the published permanent step sizes, 1e-7 and 1e-8, the permanent network hardly moves. In the control it does not move
        at all: what PT-DQN gains over it is what consolidation contributes.
        """
        return {
            "PT-DQN": self.permanent_transient(chosen),
            CONTROL: Contender(self.permanent_transient({**chosen, "permanent_lr": 0.0}).config),
            "DQN": self.plain(plain),
            "DQN-multihead": self.plain(multihead, multihead=True),
            "DQN-large-buffer": self.plain(large, replay=self.large_replay),
            "Random": Contender(Random()),
        }

    def plain(self, lr: float, width: float = 1.0, search: tuple[float, ...] | None = None, **fields: Any) -> Contender:
        """DQN, with any of its fields changed. `search`: step sizes, if they are not those of the other agents."""
        config = DQN(**{"lr": lr, "layers": self.layers(width), **self.shared, **fields})
        return Contender(config, {"lr": search or self.plain_search})

    def permanent_transient(
        self, chosen: Mapping[str, float], width: float = 0.5, search: Mapping[str, tuple[float, ...]] | None = None
    ) -> Contender:
        """PT-DQN with two networks, each half as wide as DQN's unless said otherwise."""
        every = self.consolidate_every
        config = PTDQN(
            **{"layers": self.layers(width), **self.shared, **chosen},
            consolidate_every=every,
            max_batches=max(1, every // self.shared["batch"] - 1),  # as in the released code
            sync_target=self.sync_target,
        )
        usual = {
            "permanent_lr": self.permanent_search,
            "transient_lr": self.transient_search,
            "decay": self.decay_search,
        }
        return Contender(config, search or usual)


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


def against_rivals(results: Results, metric: str, what: str, plan: Plan, boost: str, share: float) -> dict[str, Claim]:
    """The claims of §6.1 ("Baselines", "Results") about PT-DQN and the baselines, in both worlds.

    Args:
        plan: of the run's preset.
        boost: how the paper calls the gain, which is read as at least a share of the baseline's performance.
    """
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
        claim(
            "multihead-upper-bound",
            "multi-headed DQN, which knows the task, is an upper bound: every other agent performs worse (the paper's intuition, "
            "which its results contradict)",
            *(below(other, "DQN-multihead") for other in ("PT-DQN", "DQN", "DQN-large-buffer", "Random")),
        ),
        claim(
            "boost",
            f"the performance boost is {boost}: PT-DQN earns at least {share:.0%} more than every baseline",
            *(gain_of(results, "PT-DQN", rival, aucs, share) for rival in rivals),
        ),
        claim(
            "same-weights",
            "PT-DQN has as many weights as DQN",
            weights(plan, "PT-DQN", "DQN"),
        ),
        claim("large-buffer-detrimental", "a large experience replay is detrimental", below("DQN-large-buffer", "DQN")),
    )
    return {one.id: one for one in claims}
