"""Where the library is extended: each seam is used from outside, and acts. See docs/architecture.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import jax
import jax.numpy as jnp
import pytest
from jax import Array
from rich.console import Console

from remanence.agents.base import Agent, hypers_of
from remanence.agents.configs import DQN, Q
from remanence.agents.dqn import DeepState
from remanence.cli import main as command
from remanence.core.prng import make_key
from remanence.core.types import EnvSpec, Episodes, ObsSpec, Transition
from remanence.engine.life import Probe, ProbeInput
from remanence.engine.probes import episode_return
from remanence.experiments import REGISTRY
from remanence.experiments.base import Experiment
from remanence.metrics import METRICS, Metric
from remanence.report.figures import Line, learning_curves
from remanence.results.store import Results
from remanence.runs.plan import Contender, Plan
from remanence.runs.run import execute
from remanence.streams import Stream, cyclic
from remanence.worlds import CornerGrid
from remanence.worlds.grids.corner import CORNER_TASKS

WORLD = CornerGrid(size=3)
LARGEST = "largest_value"


def distance(weights: Any, start: Any) -> Array:
    """½ ‖w − w₀‖²."""
    moved = jax.tree.map(lambda w, s: jnp.sum((w - s) ** 2), weights, start)
    return 0.5 * jnp.sum(jnp.stack(jax.tree.leaves(moved)))


def trained(config: DQN) -> DeepState:
    """After 60 steps in an environment of noise."""
    spec, hypers = EnvSpec(ObsSpec((3,), "float32"), num_actions=2), hypers_of(config)
    agent, noise = config.build(spec), jax.random.normal(make_key(0), (60, 4))

    def step(state: DeepState, numbers: Array) -> tuple[DeepState, None]:
        one, no = jnp.float32(0.9), jnp.bool_(False)
        transition = Transition(numbers[:3], jnp.int32(0), numbers[3], one, -numbers[:3], no, valid=~no)
        return agent.learn(state, hypers, transition, make_key(state.steps.astype(jnp.uint32))), None

    return jax.jit(lambda: jax.lax.scan(step, agent.init(make_key(1), hypers), noise)[0])()


def test_a_regulariser_is_a_field_of_the_configuration() -> None:
    """A penalty on the distance to the initial weights keeps them near."""
    options: dict[str, Any] = {"hidden": (4,), "batch": 8, "replay": 64, "optimizer": "sgd", "lr": 0.1}
    free, held = (trained(DQN(**options, penalty=lambda w, s, c=c: c * distance(w, s))) for c in (0.0, 3.0))
    moved, kept = float(distance(free.transient, free.initial)), float(distance(held.transient, held.initial))
    assert 0 < kept < 0.25 * moved


def largest_value(agent: Agent) -> Probe:
    """A metric of one's own: the largest value that the agent believes in."""

    def measure(inputs: ProbeInput) -> dict[str, Array]:
        values = jax.vmap(lambda state: agent.inspect(inputs.agent, state)["value"])(jnp.arange(WORLD.num_states))
        return {**episode_return()(inputs), LARGEST: jnp.max(values)}

    return measure


def small_plan() -> Plan:
    stream = Stream(CORNER_TASKS, cyclic(4, 2), Episodes(5), boundaries_known=True)
    return Plan(WORLD, stream, {"Q": Contender(Q(lr=0.5))}, largest_value, seeds=2)


def figures(results: Results) -> dict[str, alt.TopLevelMixin]:
    """A figure of one's own, from the tables of a run: a bar for each seed."""
    last = [{"seed": seed, "value": float(value)} for seed, value in enumerate(results.matrix("Q", LARGEST)[:, -1])]
    return {"at-the-end": alt.Chart(alt.Data(values=last)).mark_bar().encode(x="seed:O", y="value:Q")}


EXPERIMENT = Experiment(
    name="own/largest",
    figure="own",
    title="The largest value",
    plans={"full": small_plan},
    figures=figures,
    claims=lambda _: [],
    expected="1 s",
    primary_metrics=(LARGEST,),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return execute(EXPERIMENT.name, "full", small_plan(), 2, tmp_path_factory.mktemp("runs"), Console(quiet=True))


def test_a_metric_is_a_name_that_a_probe_returns(results: Results) -> None:
    """It is recorded and described; without an entry in `metrics.py` its label is its name."""
    assert LARGEST in results.metrics
    assert results.matrix("Q", LARGEST).shape == (2, 10)
    assert (results.matrix("Q", LARGEST) <= 1).all()  # no reward is larger
    assert (results.matrix("Q", LARGEST)[:, -1] > 0).all()
    assert LARGEST in results.description["metrics"]
    assert y_title(results) == "largest value"


def test_an_entry_gives_a_metric_its_label_and_direction(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Metric(LARGEST, "the largest value of any action", "value", False, "max Q, any state")
    monkeypatch.setitem(METRICS, LARGEST, entry)
    assert y_title(results) == "max Q, any state"


def y_title(results: Results) -> str:
    """The label of the vertical axis, as it is drawn."""
    chart = learning_curves(results, [Line(LARGEST)], title="", x="episode").to_dict()
    (title,) = {layer["encoding"]["y"]["title"] for layer in chart["layer"] if "y" in layer["encoding"]}
    return title


def test_a_figure_is_a_function_of_results(results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment gives it a name; `remanence report` draws it."""
    monkeypatch.setitem(REGISTRY, EXPERIMENT.name, EXPERIMENT)
    out = results.path.parents[2]
    assert command(["report", EXPERIMENT.name, "--out", str(out), "--to", str(tmp_path)]) == 0
    (drawn,) = tmp_path.glob("*at-the-end.svg")
    assert drawn.read_text().count('aria-roledescription="bar"') == 2  # one for each seed
    assert drawn.stem in (tmp_path / "index.html").read_text()
