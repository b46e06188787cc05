"""One configuration per agent: what it checks, how it is written down, and that it decides the name of a run."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

from remanence.agents.base import AgentConfig, hypers_of, per_lane_fields, program_of
from remanence.agents.behaviour import Linear
from remanence.agents.configs import AGENTS, DQN, KINDS, PTDQN, PTQ, TD, Q, config_named
from remanence.agents.linear import RowAndColumn, Table
from remanence.agents.networks import Dense, Flatten, Relu
from remanence.agents.training import Renewal
from remanence.core.describe import from_json, parse, to_json
from remanence.core.errors import UserError
from remanence.core.types import EnvSpec, Episodes, Hypers, Key, ObsSpec, Steps
from remanence.experiments import REGISTRY
from remanence.results.directory import RunDirectory
from remanence.runs.describe import describe
from remanence.runs.jobs import lanes_of_sweep, settings
from remanence.runs.plan import Plan

GRID = EnvSpec(ObsSpec((), "int16", num_states=25), num_actions=4)
VECTOR = EnvSpec(ObsSpec((6,), "float32"), num_actions=3, num_tasks=2)


@pytest.mark.parametrize("name", list(AGENTS))
def test_every_agent_is_written_down_and_read_back(name: str) -> None:
    config = config_named(name)
    written = json.loads(json.dumps(to_json(config)))
    again = from_json(written, KINDS)
    assert again == config
    assert hash(again) == hash(config)
    assert config.name == name or name == "DQN-large-buffer"


@pytest.mark.parametrize("name", list(AGENTS))
def test_every_agent_is_built_from_the_spec_of_an_environment(name: str) -> None:
    spec = dataclasses.replace(GRID, num_tasks=2)
    config = config_named(name)
    agent = config.build(spec)

    def first_values(key: Key) -> Array:
        state = agent.init(key, hypers_of(config))
        return agent.inspect(agent.policy_state(state), jnp.int16(3))["value"]

    values = jax.eval_shape(first_values, jax.random.key(0))  # shapes are the question: nothing is compiled
    outputs = {"TD": 1, "TD-reset": 1, "PT-TD": 1, "DQN-multihead": 8}
    assert values.shape == (outputs.get(name, 4),)


def test_fields_that_may_differ_between_lanes_say_so_in_their_type() -> None:
    assert per_lane_fields(PTDQN) == ("permanent_lr", "transient_lr", "decay", "absorb")
    assert per_lane_fields(DQN) == ("lr",)
    assert hypers_of(Q(lr=0.5, epsilon=0.2)) == Hypers(lr=0.5)
    assert program_of(Q(lr=0.5)) == program_of(Q(lr=0.1))
    assert program_of(Q(epsilon=0.2)) != program_of(Q(epsilon=0.1))
    assert program_of(TD()) != program_of(Q())


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Q(lr=-0.1), "lr must be a finite number that is not negative"),
        (lambda: Q(lr=float("nan")), "lr must be a finite number"),
        (lambda: Q(lr="fast"), "lr must be float; got 'fast'"),  # type: ignore[arg-type]
        (lambda: PTQ(decay=1.5), "decay must be between 0 and 1"),
        (lambda: Q(epsilon=2.0), r"epsilon must be in \[0, 1\]"),
        (lambda: DQN(batch=0), "batch must be at least 1; got 0"),
        (lambda: DQN(learning_starts=10**400), r"learning_starts must be at most 2,147,483,647, .* got 1000+\.\.\.0+"),
        (lambda: PTQ(consolidate_every=Steps(2**40)), "consolidate_every must be at most 2,147,483,647"),
        (lambda: DQN(batch=2.5), "batch must be int; got 2.5"),  # type: ignore[arg-type]
        (lambda: DQN(reset=True, multihead=True), "not both"),
        (lambda: DQN(sync_target=True), "give clear_replay=True as well"),
        (lambda: PTDQN(decay=0.0, reinit=False), "never learn again"),
        (lambda: PTDQN(consolidate_every=10), "do not fill a batch of 64"),
        (lambda: Q(features=RowAndColumn(4)).build(GRID), "4×4 cells"),
        (lambda: Q().build(VECTOR), "needs Discrete observations"),
        (lambda: DQN(multihead=True).build(GRID), "a stream of several tasks"),
    ],
)
def test_mistakes_are_refused_in_one_sentence(make: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        make()


def test_numpy_values_become_plain_ones() -> None:
    config = DQN(hidden=np.array([8, 4]), lr=np.float64(0.5), batch=np.int64(16))  # type: ignore[arg-type]
    assert config == DQN(hidden=(8, 4), lr=0.5, batch=16)
    assert type(config.lr) is float


def test_a_transient_part_that_decays_to_nothing_is_reinitialised() -> None:
    assert PTDQN(decay=0.0).reinit is True
    assert PTDQN(decay=0.5).reinit is False


@pytest.mark.parametrize(("kind", "usual"), [(PTQ, 0.5), (PTDQN, 0.75)])
def test_the_transient_part_is_reset_at_known_boundaries_unless_another_decay_is_given(
    kind: type[PTQ] | type[PTDQN], usual: float
) -> None:
    """λ = 0 there, as in the paper's §5; read back from a file it stays what it was."""
    assert kind(transient_half_life=None).decay == kind(consolidate_every=Episodes(3)).decay == usual
    known = kind(consolidate_every=None)
    assert (known.decay, hypers_of(known).decay, getattr(known, "reinit", True)) == (0.0, 0.0, True)
    assert kind(consolidate_every=None, decay=0.9).decay == 0.9
    assert from_json(json.loads(json.dumps(to_json(known))), KINDS) == known


def test_names_mean_the_agents_of_section_5_where_boundaries_are_known() -> None:
    assert config_named("PT-DQN", boundaries_known=True) == PTDQN(consolidate_every=None, decay=0.0, reinit=True)
    assert config_named("PT-Q", boundaries_known=True) == PTQ(consolidate_every=None, decay=0.0)
    others = set(AGENTS) - {"PT-DQN", "PT-Q"}
    assert all(config_named(name, boundaries_known=True) == config_named(name) for name in others)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("5", 5),
        ("None", None),
        ("True", True),
        ("adam", "adam"),
        ("Episodes(5)", Episodes(5)),
        ("Episodes(5, lead=1)", Episodes(5, 1)),
        ("(Flatten(), Dense(64), Relu())", (Flatten(), Dense(64), Relu())),
        ("(64, 32)", (64, 32)),
    ],
)
def test_values_of_a_command_line(text: str, value: Any) -> None:
    assert parse(text, KINDS) == value


def test_a_command_line_calls_nothing_but_configurations() -> None:
    with pytest.raises(UserError, match="unknown kind of configuration 'open'"):
        parse("open('x')", KINDS)
    with pytest.raises(UserError, match="does not fit Episodes"):
        parse("Episodes(1, 2, 3)", KINDS)


def test_optax_transformations_are_told_apart_by_what_they_close_over() -> None:
    chain = lambda b1: optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(b1=b1))  # noqa: E731
    one, same, other = (to_json(DQN(optimizer=chain(b1))) for b1 in (0.9, 0.9, 0.8))
    assert json.dumps(one) == json.dumps(same)
    assert json.dumps(one) != json.dumps(other)
    assert to_json(partial(max, 1)) != to_json(partial(max, 2))


def _other(value: Any, name: str) -> Any:
    """Another value that the same field accepts."""
    by_name: dict[str, Any] = {
        "features": Table() if isinstance(value, RowAndColumn) or value != Table() else RowAndColumn(5),
        "consolidate_every": Steps(12_345),
        "optimizer": "sgd" if value != "sgd" else "adam",
        "permanent_optimizer": "sgd" if value != "sgd" else "adam",
        "output_init": "small" if value != "small" else "uniform",
        "layers": (Flatten(), Dense(7)),
        "trunk": (Flatten(), Dense(9), Relu()),
        "hidden": (7,),
        "penalty": lambda weights, start: 0.0,  # noqa: ARG005
        "renewal": Renewal(10, lambda key, weights, opt_state: (weights, opt_state)),  # noqa: ARG005
        "scale": 3.0,
        "decay": 0.123,
        "absorb": 0.037,
        "transient_half_life": 77,
        "reinit": not value,
        "loss": "huber" if value != "huber" else "squared",
        "epsilon": Linear(1.0, 0.2, 300),
    }
    if name in by_name:
        return by_name[name]
    if isinstance(value, bool) or value is None:
        return (
            not value if value is not None else (True if name in ("clear_replay", "reset_optimizer", "cache") else 77)
        )
    assert isinstance(value, int | float), name
    return value + 1 if isinstance(value, int) else value / 2 + 0.001


def _hash(plan: Plan) -> str:
    return RunDirectory(Path("x"), describe("e", "p", plan, [0])).hash


@pytest.mark.parametrize("name", [name for name, one in REGISTRY.items() if not one.run_of and not one.sweep_of])
def test_any_field_of_any_agent_decides_the_name_of_a_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of a run is named by a hash: a run of another configuration is never taken for this one."""
    monkeypatch.setattr("remanence.runs.describe.metrics_of", lambda _: ["return"])  # not what is asked here
    plan = REGISTRY[name].plan("smoke")
    base = _hash(plan)
    for agent, contender in plan.contenders.items():
        config: AgentConfig = contender.config
        for field in dataclasses.fields(config):  # type: ignore[arg-type]
            value = _other(getattr(config, field.name), field.name)
            try:
                changed = dataclasses.replace(config, **{field.name: value})  # type: ignore[type-var]
            except UserError:  # a combination that no run can have
                continue
            assert changed != config, field.name
            new = dataclasses.replace(contender, config=changed)
            other = dataclasses.replace(plan, contenders={**plan.contenders, agent: new})
            assert _hash(other) != base, f"{agent}.{field.name}"


def test_the_set_of_metrics_decides_the_name_of_a_run() -> None:
    plan = REGISTRY["figure3/tabular"].plan("smoke")
    probe = plan.probe

    def fewer(agent: Any) -> Any:
        measure = probe(agent)
        return lambda at: {name: value for name, value in measure(at).items() if name != "regret"}

    assert _hash(dataclasses.replace(plan, probe=fewer)) != _hash(plan)
    assert "regret" in describe("e", "p", plan, [0])["metrics"]


def test_a_sweep_may_search_fields_that_decide_the_program() -> None:
    plan = REGISTRY["figure3/tabular"].plan("smoke").select(["Q"]).with_grid("Q", "epsilon", (0.1, 0.2))
    plan = plan.with_grid("Q", "lr", (0.5, 0.1))
    assert len(settings(plan.contenders["Q"])) == 4
    programs = lanes_of_sweep(plan, [1, 2])
    assert [len(lanes) for lanes in programs] == [4, 4]
    assert [{lane.config.epsilon for lane in lanes} for lanes in programs] == [{0.1}, {0.2}]  # type: ignore[attr-defined]


def test_override_reads_any_field() -> None:
    plan = REGISTRY["figure5/jellybean"].plan("smoke")
    plan = plan.override("PT-DQN", "consolidate_every", "Steps(300)").override("DQN", "replay", "500")
    plan = plan.override("PT-DQN", "optimizer", "rmsprop").override("DQN", "layers", "(Flatten(), Dense(8), Relu())")
    assert plan.contenders["PT-DQN"].config.consolidate_every == Steps(300)  # type: ignore[attr-defined]
    assert plan.contenders["DQN"].config.layers == (Flatten(), Dense(8), Relu())  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="unknown field of DQN 'reply': did you mean 'replay'"):
        plan.override("DQN", "reply", "5")
    with pytest.raises(UserError, match=r"DQN\.replay must be int; got 'many'"):
        plan.override("DQN", "replay", "many")


def test_ready_made_agents_are_described_by_their_numbers_and_arrays() -> None:
    """A ready-made agent closes over what it is made of: hypers, and arrays of jax."""
    offsets = jnp.arange(3.0)
    described = to_json({"hypers": Hypers(lr=0.5), "act": lambda: offsets})
    assert described["hypers"] == {"kind": "Hypers", "lr": 0.5}
    assert described["act"]["closure"] == [[0.0, 1.0, 2.0]]
