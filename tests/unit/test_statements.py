"""The paper's statements as claims: with made-up curves each verdict can be had, and each can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from charts import spec
from made_up import made_up_run, made_up_sweep, scattered, with_curves
from remanence.experiments import REGISTRY, figure4, figure5_jellybean
from remanence.experiments.appendix_task_diameter import DIAMETERS, SWITCHES, cells
from remanence.experiments.deep import CONTROL
from remanence.experiments.figure4 import DECAYS, INTERVALS, PUBLISHED, cell_name
from remanence.experiments.figure5_jellybean import ABLATION_STEP_SIZES
from remanence.experiments.jellybean_claims import mostly_groups
from remanence.experiments.statements import slower_permanent, sweep_claims, weights
from remanence.report.figures import Line, learning_curves
from remanence.results.claims import NOT_REPRODUCED, NOT_RUN, REPRODUCED, TOO_FEW, UNDECIDED, Claim
from remanence.results.store import Results
from remanence.runs.describe import num_weights
from remanence.worlds.jellybean import preset
from remanence.worlds.jellybean.groups import share_in_groups, whole_groups

SEEDS, TASKS, WINDOWS = 8, 8, 5  # windows per task
JELLYBEAN = ("PT-DQN", "DQN", "DQN-multihead", "DQN-large-buffer", "Random")


def jellybean(levels: Mapping[str, list[float] | float], name: str = "figure5/jellybean") -> dict[str, Claim]:
    """The claims of a run in which agents earn so much in each task."""
    curves = {
        agent: scattered(np.repeat(np.broadcast_to(level, TASKS), WINDOWS), 1e-3, SEEDS)
        for agent, level in levels.items()
    }
    results = made_up_run(curves, "reward_rate", {"steps": 50_000}, window=10_000, preset="released")
    return {one.id: one for one in REGISTRY[name].claims(results)}


def verdict(levels: Mapping[str, list[float] | float], claim: str, name: str = "figure5/jellybean") -> str:
    return jellybean(levels, name)[claim].verdict


def test_a_large_boost_is_one_over_every_baseline() -> None:
    others = dict.fromkeys(JELLYBEAN[2:], 0.1)
    assert verdict({"PT-DQN": 0.25, "DQN": 0.2, **others}, "boost") == REPRODUCED
    assert verdict({"PT-DQN": 0.23, "DQN": 0.2, **others}, "boost") == NOT_REPRODUCED
    assert verdict({"PT-DQN": 0.25, **others}, "boost") == NOT_RUN
    evidence = jellybean({"PT-DQN": 0.25, "DQN": 0.2, **others})["boost"].evidence
    assert "PT-DQN − DQN, a gain of +25.0 %" in evidence


def test_a_loss_is_no_gain_where_the_baseline_earns_less_than_nothing() -> None:
    others = dict.fromkeys(JELLYBEAN[2:], -0.1)
    assert verdict({"PT-DQN": -0.05, "DQN": -0.1, **others}, "boost") == REPRODUCED
    assert verdict({"PT-DQN": -0.11, "DQN": -0.1, **others}, "boost") == NOT_REPRODUCED


def test_multihead_is_an_upper_bound_unless_another_agent_is_above() -> None:
    below = dict.fromkeys(JELLYBEAN[1:], 0.1) | {"DQN-multihead": 0.3}
    assert verdict({"PT-DQN": 0.25, **below}, "multihead-upper-bound") == REPRODUCED
    assert verdict({"PT-DQN": 0.35, **below}, "multihead-upper-bound") == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("claim", "agent"),
    [("dqn-drops", "DQN"), ("multihead-drops", "DQN-multihead"), ("large-buffer-drops", "DQN-large-buffer")],
)
def test_drops_over_time(claim: str, agent: str) -> None:
    steady, falling = [0.2] * TASKS, [0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1]
    rising = [0.1] * 4 + [0.2] * 4
    everyone: dict[str, list[float] | float] = dict.fromkeys(JELLYBEAN, steady)
    assert verdict({**everyone, agent: falling}, claim) == REPRODUCED
    assert verdict({**everyone, agent: rising}, claim) == NOT_REPRODUCED
    assert verdict(everyone, claim) == UNDECIDED


def test_pt_keeps_its_performance_or_not() -> None:
    assert verdict({"PT-DQN": [0.2] * TASKS}, "pt-keeps") == REPRODUCED
    assert verdict({"PT-DQN": [0.2] * 6 + [0.15] * 2}, "pt-keeps") == NOT_REPRODUCED
    assert verdict({"DQN": 0.2}, "pt-keeps") == NOT_RUN


@pytest.mark.parametrize("name", ["figure5/jellybean", "figure5/minatar"])
@pytest.mark.parametrize("preset_name", ["paper", "released"])
def test_the_control_differs_only_in_its_permanent_step_size(name: str, preset_name: str) -> None:
    agents = REGISTRY[name].plan(preset_name).contenders
    control, pt = agents[CONTROL].config, agents["PT-DQN"].config
    assert dataclasses.replace(pt, permanent_lr=0.0) == control != pt  # type: ignore[type-var]


def test_2x_starts_slowly_catches_up_and_keeps() -> None:
    pt: dict[str, list[float] | float] = {"PT-DQN-1x": 0.2, "DQN": 0.1}
    late = [0.1, 0.15, *[0.2] * 6]

    def of(level: list[float], claim: str) -> str:
        return verdict({**pt, "DQN-2x": level}, claim, "appendix/capacity")

    assert of(late, "2x-starts-slowly") == of(late, "2x-catches-up") == of(late, "2x-keeps") == REPRODUCED
    early = [0.25, *[0.2] * 4, *[0.15] * 3]
    assert {of(early, one) for one in ("2x-starts-slowly", "2x-catches-up", "2x-keeps")} == {NOT_REPRODUCED}


def test_numbers_of_weights() -> None:
    """The paper says that they are the same; these are the numbers of its networks."""
    count = {
        (name, one): [
            num_weights(contender.config, plan.spec)
            for agent, contender in plan.contenders.items()
            if agent in ("PT-DQN", "PT-DQN-1x", "DQN", "DQN-2x")
        ]
        for name in ("figure5/jellybean", "figure5/minatar", "appendix/capacity")
        for one in ("paper", "released")
        for plan in [REGISTRY[name].plan(one)]
    }
    assert count["figure5/jellybean", "paper"] == count["figure5/jellybean", "released"] == [826_760, 908_676]
    assert count["figure5/minatar", "paper"] == [133_900, 264_966]
    assert count["figure5/minatar", "released"] == [265_996, 528_134]
    assert count["appendix/capacity", "released"] == [1_817_352, 908_676, 2_145_028]
    capacity = REGISTRY["appendix/capacity"].plan("released")
    assert weights(capacity, "PT-DQN-1x", "DQN", times=2).verdict == REPRODUCED
    assert weights(capacity, "PT-DQN-1x", "DQN").verdict == NOT_REPRODUCED
    assert weights(capacity, "DQN-2x", "PT-DQN-1x").verdict == NOT_REPRODUCED
    assert verdict(dict.fromkeys(JELLYBEAN, 0.1), "same-weights") == NOT_REPRODUCED


def test_groups_of_items() -> None:
    """More of them lie in groups of three or four with the items of the text than with those of the released code."""
    shares = {name: share_in_groups(preset(name)) for name in ("paper", "released")}
    assert shares["paper"].mean() > shares["released"].mean() + 0.05
    assert mostly_groups(shares["paper"]).verdict == REPRODUCED
    assert mostly_groups(np.linspace(0.2, 0.4, 10)).verdict == NOT_REPRODUCED
    cells_of_map = np.zeros((7, 7), bool)
    cells_of_map[[1, 2, 2, 5, 6], [1, 2, 1, 4, 4]] = True  # three that touch, and two that the edge cuts
    np.testing.assert_array_equal(whole_groups(cells_of_map), [3])


def plane(mean_of: Mapping[tuple[int, float], float], q: float = 0.0) -> dict[str, Claim]:
    """The claims of Figure 4 with these mean returns, and the published step sizes."""
    means = {"Q": q, **{cell_name(k, decay): mean_of[k, decay] for k in INTERVALS for decay in DECAYS}}
    curves = {name: scattered(np.full(100, mean), 1e-3, SEEDS, n) for n, (name, mean) in enumerate(means.items())}
    results = made_up_run(curves, "discounted_return")
    for k in INTERVALS:
        for decay, (permanent, transient) in zip(DECAYS, PUBLISHED[k], strict=True):
            hypers = results.description["contenders"][cell_name(k, decay)]["hypers"]
            hypers |= {"permanent_lr": permanent, "transient_lr": transient}
    return {one.id: one for one in figure4._claims(results)}


def test_k_and_decay_interact_or_only_add_up() -> None:
    added = {(k, decay): 1 + 0.01 * np.log(k) + 0.1 * decay for k in INTERVALS for decay in DECAYS}
    less = {(k, decay): value - 0.05 * np.log(k) * decay for (k, decay), value in added.items()}
    more = {(k, decay): value + 0.05 * np.log(k) * decay for (k, decay), value in added.items()}
    assert plane(less)["k-and-decay-interact"].verdict == REPRODUCED
    assert plane(added)["k-and-decay-interact"].verdict == UNDECIDED
    assert plane(more)["k-and-decay-interact"].verdict == NOT_REPRODUCED


def test_a_k_far_from_the_switches_matters_marginally_or_much() -> None:
    flat = {(k, decay): 1.0 for k in INTERVALS for decay in DECAYS}
    assert plane(flat)["far-k-marginal"].verdict == REPRODUCED
    assert plane({**flat, **{(100, decay): 0.9 for decay in DECAYS}})["far-k-marginal"].verdict == NOT_REPRODUCED


def test_the_published_pairs_contradict_that_the_permanent_step_size_is_always_smaller() -> None:
    one = plane({(k, decay): 1.0 for k in INTERVALS for decay in DECAYS})["permanent-slower"]
    assert one.verdict == NOT_REPRODUCED
    assert "23 of 25 pairs; not PT-Q k=1 decay=0.1 (0.5 and 0.5); not PT-Q k=1 decay=0.3 (0.5 and 0.5)" in one.evidence
    assert slower_permanent({"a": (0.1, 0.5), "b": (0.01, 0.5)}).verdict == REPRODUCED


def sweep(better: int, seeds: int = 6, permanent: float = 0.01) -> dict[str, str]:
    """A sweep of six pairs, so many of which beat DQN's best; the first is the best of them."""
    noise = 1e-3 * np.random.default_rng(0).normal(size=(8, seeds))
    pairs = [
        ({"permanent_lr": permanent, "transient_lr": 0.1 + n}, list((1.0 if n < better else 0.1) - 0.01 * n + noise[n]))
        for n in range(6)
    ]
    plain = [({"lr": lr}, list(level + noise[6])) for lr, level in ((0.1, 0.5), (0.2, 0.3))]
    results = made_up_sweep({"DQN": plain, "PT-DQN": pairs})
    return {one.id: one.verdict for one in sweep_claims(results, "reward_rate")}


def test_a_broad_range_is_a_handful_of_pairs() -> None:
    assert sweep(better=5)["broad-range"] == REPRODUCED
    assert sweep(better=4)["broad-range"] == NOT_REPRODUCED
    assert sweep(better=5, seeds=3)["broad-range"] == TOO_FEW


def test_the_best_pair_of_a_sweep_has_the_smaller_permanent_step_size_or_not() -> None:
    assert sweep(better=5, permanent=0.01)["permanent-slower"] == REPRODUCED
    assert sweep(better=5, permanent=0.1)["permanent-slower"] == NOT_REPRODUCED  # equal is not smaller
    assert sweep(better=5, seeds=3)["permanent-slower"] == TOO_FEW


def test_a_sweep_without_the_counterpart_is_not_judged() -> None:
    results = made_up_sweep({"PT-DQN": [({"permanent_lr": 0.1, "transient_lr": 0.2}, [1.0] * 6)]})
    assert {one.verdict for one in sweep_claims(results, "reward_rate")} == {NOT_RUN}


def diameter(late_error_of_pt: float) -> str:
    """PT-TD has the lowest error, but in the last round this one; TD has 2 and TD-reset 3."""
    errors = {"PT-TD": np.array([1.0, 1.0, late_error_of_pt]), "TD": np.full(3, 2.0), "TD-reset": np.full(3, 3.0)}
    curves = {cell.name: scattered(errors[cell.agent], 1e-3, SEEDS) for cell in cells(list(errors))}
    results = made_up_run(curves, "mse", {"rounds": 3})
    assert len(curves) == 3 * len(DIAMETERS) * len(SWITCHES)
    claims = {one.id: one.verdict for one in REGISTRY["appendix/task-diameter"].claims(results)}
    assert claims["pt-is-lowest"] == REPRODUCED, "on average over the rounds"
    return claims["lowest-at-every-step"]


def test_low_error_at_every_timestep_needs_every_round() -> None:
    assert diameter(late_error_of_pt=1.0) == REPRODUCED
    assert diameter(late_error_of_pt=2.5) == NOT_REPRODUCED


def test_the_ablation_searches_its_own_step_sizes() -> None:
    experiment = REGISTRY["appendix/sensitivity-capacity"]
    plan = experiment.plan(experiment.reference_preset)
    assert (
        plan.contenders["DQN-2x"].search == {"lr": ABLATION_STEP_SIZES} == {"lr": (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)}
    )
    assert set(plan.contenders["PT-DQN-1x"].search) == {"permanent_lr", "transient_lr"}
    assert (plan.seeds, plan.stream.segments * plan.stream.segment_length.count) == (3, 1_500_000)


def jellybean_run() -> Results:
    description = {
        "experiment": "toy",
        "preset": "smoke",
        "stream": {"order": [0, 1], "segment_length": {"steps": 20}},
        "window": 10,
        "contenders": {"DQN": {"hypers": {}}},
        "seeds": [0, 1],
    }
    return with_curves(description, {"reward_rate": {"DQN": np.array([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]])}})


def test_the_decay_figure_is_cumulative_reward() -> None:
    figures = figure5_jellybean._decay_figures(jellybean_run())
    assert next(iter(figures)) == "cumulative", "the printed figure comes first"
    chart = spec(figures["cumulative"])
    rows = chart["layer"][-1]["data"]["values"]
    np.testing.assert_allclose([row["mean"] for row in rows], [1.0, 3.0, 6.0, 10.0])
    assert chart["layer"][-1]["encoding"]["y"]["title"] == "reward since the beginning"
    plain = spec(learning_curves(jellybean_run(), [Line("reward_rate")], "t", "x"))
    np.testing.assert_allclose([row["mean"] for row in plain["layer"][-1]["data"]["values"]], [0.1, 0.2, 0.3, 0.4])
