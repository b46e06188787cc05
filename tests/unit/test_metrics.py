"""The table of metrics: every name that is recorded is in it, and the documentation lists it."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest

from remanence.agents.base import hypers_of
from remanence.core.prng import make_key
from remanence.engine import life
from remanence.engine.life import LifeConfig
from remanence.experiments import REGISTRY
from remanence.experiments.base import SMOKE
from remanence.metrics import FAMILIES, METRICS, lower_is_better, metric

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_names_are_those_of_the_entries() -> None:
    assert all(name == one.name for table in (METRICS, FAMILIES) for name, one in table.items())
    assert all(one.meaning and one.label for table in (METRICS, FAMILIES) for one in table.values())


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("rmsve_current", True),
        ("mse", True),
        ("mse_of_mine", True),
        ("regret", True),
        ("steps", True),
        ("return", False),
        ("discounted_return", False),
        ("return_last100", False),
        ("reward_rate", False),
        ("episode_length", False),  # neither is better
        ("something_of_mine", False),
    ],
)
def test_directions(name: str, lower: bool) -> None:
    assert lower_is_better(name) is lower


def test_families_and_strangers() -> None:
    blue = metric("collected_blue")
    assert (blue.name, blue.unit, blue.higher_is_better, blue.label) == (
        "collected_blue",
        "items",
        None,
        "items collected, blue",
    )
    assert metric("my_own").label == "my own"
    assert metric("my_own").meaning == ""


@pytest.mark.parametrize("name", [*METRICS, "collected_…"])
def test_the_documentation_lists_every_metric(name: str) -> None:
    better = {True: "higher", False: "lower", None: "–"}[metric(name).higher_is_better]
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith(f"| `{name}` ")]
    assert {row[3].strip() for row in rows} == {better}


CHEAP = ("figure2/tabular", "figure3/tabular", "figure4", "figure5/minatar", "figure5/jellybean")


@pytest.mark.parametrize("name", CHEAP)
def test_what_experiments_record_is_in_the_table(name: str) -> None:
    experiment = REGISTRY[name]
    plan = experiment.plan(SMOKE)
    config = next(iter(plan.contenders.values())).config
    agent = config.build(plan.spec)
    life_config = LifeConfig(agent, plan.world, plan.stream, plan.probe(agent), window=plan.window)

    def record() -> dict[str, jax.Array]:
        start = life.init_life(life_config, hypers_of(config), make_key(0))
        return life_config.probe(life.probe_input(life_config, start))

    recorded = set(jax.eval_shape(record))
    assert [one for one in recorded if not metric(one).meaning] == []
    assert {*experiment.primary_metrics, *([experiment.continual] if experiment.continual else [])} <= recorded
