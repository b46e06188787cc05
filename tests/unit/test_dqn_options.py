"""What the field adds to DQN, each rule on numbers worked by hand, and that PT-DQN has it too."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

from conftest import key_stub
from remanence.agents import Agent, Hypers
from remanence.agents.behaviour import Linear, epsilon_greedy
from remanence.agents.composition import separate_networks, single
from remanence.agents.configs import DQN, PTDQN, DeepTD
from remanence.agents.dqn import DeepState, deep_agent
from remanence.agents.layers import CRelu, Dueling, LayerNorm
from remanence.agents.n_step import read_n_steps
from remanence.agents.networks import Dense, Flatten, mlp, sequence
from remanence.agents.replay import IMPLICIT, SEPARATE, Frame, Replay
from remanence.agents.ring import Ring
from remanence.agents.td import CONTROL
from remanence.agents.training import Adam, Consolidation, Training, apply_gradient, make_optimizer
from remanence.core.describe import to_json
from remanence.core.errors import UserError
from remanence.core.masking import LANES
from remanence.core.types import EnvSpec, ObsSpec, Transition

LINEAR = mlp((1,), (), 2)  # Q(s, a) = s W[a] + b[a]
LR = 0.1
BITS = EnvSpec(ObsSpec((4,), "bool"), num_actions=2)


def weights(gain: list[float], bias: list[float]) -> list[Any]:
    return [(), (jnp.array([gain]), jnp.array(bias))]


def transition(
    reward: float = 1.0, action: int = 0, discount: float = 0.5, valid: bool = True, last: bool = False
) -> Transition:
    """From the state 1 to the state 2."""
    one, two = jnp.array([1.0]), jnp.array([2.0])
    numbers = jnp.int32(action), jnp.float32(reward), jnp.float32(discount)
    return Transition(one, *numbers, two, jnp.bool_(last), jnp.bool_(valid))


@cache
def agent(permanent: bool = False, **options: Any) -> Agent:
    training = Training(**{"batch": 1, "replay": 4, "target_every": 100, **options})
    parts = separate_networks(LINEAR, LINEAR) if permanent else single(LINEAR)
    return deep_agent(
        CONTROL, parts, epsilon_greedy(0.0), np.zeros(1, np.float32), training, None, Consolidation(batch=1, buffer=8)
    )


def learned(steps: list[Transition], permanent: bool = False, start: Any = None, **options: Any) -> DeepState:
    """After these steps. Q = (0, 1), Q_target = (5, 3) in the state 2 unless told; and Q^P = (0.25, 0.75) times the state."""
    hypers = Hypers(lr=LR, transient_lr=LR, permanent_lr=0.0, decay=1.0)
    one = agent(permanent, **options)
    state = one.init(key_stub(), hypers)._replace(transient=weights([0.0, 0.5], [0.0, 0.0]))
    state = state._replace(target=weights([2.5, 1.5], [0.0, 0.0]))
    if permanent:
        state = state._replace(permanent=weights([0.25, 0.75], [0.0, 0.0]))
    if start is not None:
        state = state._replace(transient=start)
    learn = jax.jit(one.learn)
    for step in steps:
        state = learn(state, hypers, step, key_stub())
    return state


def moved(state: DeepState) -> float:
    """How far the bias of action 0 has moved: 2 α δ after one step on the squared error δ."""
    return float(state.transient[1][1][0])


def test_double_dqn_evaluates_what_the_network_prefers() -> None:
    """y = 1 + 0.5 max(5, 3) = 3.5; Double: the network prefers action 1, and y = 1 + 0.5 · 3 = 2.5. Q(1, 0) = 0."""
    assert moved(learned([transition()])) == pytest.approx(2 * LR * 3.5)
    assert moved(learned([transition()], double=True)) == pytest.approx(2 * LR * 2.5)


def test_double_pt_dqn_adds_the_permanent_part_to_both() -> None:
    """Q^P(2) = (0.5, 1.5). Q^P + Q = (0.5, 2.5) prefers 1; its target value is 3 + 1.5: δ = 1 + 0.5 · 4.5 − Q^P(1, 0) = 3.
    With Q = (4, 0.5) times the state it prefers 0, 8.5 > 2.5, whose target value is 5.5: δ = 1 + 2.75 − 0.25 − 4 = −0.5."""
    assert moved(learned([transition()], True, double=True)) == pytest.approx(2 * LR * 3.0)
    other = learned([transition()], True, weights([4.0, 0.5], [0.0, 0.0]), double=True)
    assert moved(other) == pytest.approx(2 * LR * -0.5)


def test_huber_cuts_the_gradient_off_and_half_the_square_has_half_of_it() -> None:
    """δ = 3.5 moves by α, not 2 α · 3.5. With Q(1, 0) = 3, δ = 0.5 moves by α δ. A loss of one's own: |δ| likewise by α."""
    assert moved(learned([transition()], loss="huber")) == pytest.approx(LR)
    near = learned([transition()], start=weights([3.0, 0.5], [0.0, 0.0]), loss="huber")
    assert moved(near) == pytest.approx(LR * 0.5)
    assert moved(learned([transition()], loss=jnp.abs)) == pytest.approx(LR)


def test_long_gradients_are_shortened() -> None:
    """The gradient is −2δ = −7 for gain and bias of action 0: its norm is 7 √2, cut to 0.5; and 100 leaves it."""
    assert moved(learned([transition()], max_grad_norm=0.5)) == pytest.approx(LR * 0.5 / np.sqrt(2))
    assert moved(learned([transition()], max_grad_norm=100.0)) == pytest.approx(2 * LR * 3.5)


def test_a_share_is_copied_to_the_target_network() -> None:
    """w = 0.7 after the step, w_target = 2.5: 0.75 · 2.5 + 0.25 · 0.7 = 2.05 every step; the bias 0.25 · 0.7."""
    state = learned([transition()], tau=0.25, target_every=1)
    assert float(state.transient[1][0][0, 0]) == pytest.approx(0.7)
    assert float(state.target[1][0][0, 0]) == pytest.approx(2.05)
    assert float(state.target[1][1][0]) == pytest.approx(0.175)
    still = learned([transition()], tau=0.25, target_every=2)
    assert float(still.target[1][0][0, 0]) == 2.5
    waits = learned([transition(valid=False)], tau=0.25, target_every=1)
    assert float(waits.target[1][0][0, 0]) == 2.5


def test_several_gradient_steps_of_a_training() -> None:
    """Each moves Q(1, 0) by 4 α δ, gain and bias alike, so δ becomes 0.6 δ: the bias 2 α (1 + 0.6 + 0.36) δ."""
    state = learned([transition()], gradient_steps=3)
    assert moved(state) == pytest.approx(2 * LR * 3.5 * 1.96, rel=1e-5)


def test_it_trains_every_n_steps_once_learning_starts() -> None:
    """Steps 3 and 6 with `train_every=3`; from the fifth step on with `learning_starts=4`; both: at step 6 only."""

    def trained_at(**options: Any) -> list[int]:
        path = [moved(learned([transition()] * n, **options)) for n in range(7)]
        return [n for n in range(1, 7) if path[n] != path[n - 1]]

    assert trained_at(train_every=3) == [3, 6]
    assert trained_at(learning_starts=4) == [5, 6]
    assert trained_at(learning_starts=4, train_every=3) == [6]


def test_where_no_training_is_due_none_is_computed() -> None:
    """The gradient is inside a branch that all lanes take together; only acting and storing are outside."""

    def products(**options: Any) -> tuple[int, int]:
        """Matrix products of a step outside of any branch, and inside."""
        one, hypers = agent(**options), Hypers(lr=LR)
        state = one.init(key_stub(), hypers)
        lanes = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
        learn = jax.vmap(one.learn, in_axes=(0, None, None, None), axis_name=LANES)
        program = jax.make_jaxpr(learn)(lanes, hypers, transition(), key_stub())
        text, outside = str(program).count("dot_general"), 0
        for equation in program.jaxpr.eqns:
            outside += 0 if equation.primitive.name == "cond" else str(equation).count("dot_general")
        return outside, text - outside

    always, rarely = products(), products(train_every=4)
    assert always[0] > 0
    assert rarely == (0, sum(always))


def ring_of(replay: Replay, count: int, last: set[int], ended: set[int]) -> Ring:
    """Transition i leads from i to i + 1 and pays 2^i; γ = 0.5, and 0 where the episode truly ended."""
    ring = replay.begin()
    before = 0
    for i in range(count):
        extras = {
            "action": jnp.int8(i % 2),
            "reward": jnp.float32(2.0**i),
            "discount": jnp.float32(0.0 if i in ended else 0.5),
            "last": jnp.bool_(i in last | ended),
        }
        now, following = (Frame(jnp.array([float(i + k)]), jnp.int32(before + k)) for k in (0, 1))
        ring = replay.add(ring, now, following, extras, jnp.bool_(i in last), jnp.bool_(True))
        before = 0 if i in last | ended else before + 1
    return ring


def replay_of(capacity: int, **options: Any) -> Replay:
    extras = {"action": np.int8(0), "reward": np.float32(0), "discount": np.float32(0), "last": np.bool_(False)}
    return Replay(np.zeros(1, np.float32), extras, capacity, **options)


def test_n_step_returns_across_ends_truncations_and_the_newest_transition() -> None:
    """Three steps, rewards 1 2 4 8 16 32 64, truncated after transition 2, ended after transition 4.

    0: 1 + 0.5·2 + 0.25·4 = 3, Γ = 1/8, from 3.    1: 2 + 2 = 4, Γ = 1/4, from 3, which is where the episode was truncated.
    2: 4, Γ = 1/2, from 3.                          3: 8 + 8 = 16, Γ = 0: the episode ended.    4: 16, Γ = 0.
    5: 32 + 32 = 64, Γ = 1/4, from 7: only two have followed so far.                            6: 64, Γ = 1/2, from 7.
    """
    replay = replay_of(8)
    sample = read_n_steps(replay, ring_of(replay, 7, last={2}, ended={4}), jnp.arange(7), 3)
    assert sample.extras["reward"].tolist() == [3, 4, 4, 16, 16, 64, 64]
    assert sample.extras["discount"].tolist() == [0.125, 0.25, 0.5, 0, 0, 0.25, 0.5]
    assert sample.next_obs[:, 0].tolist() == [3, 3, 3, 5, 5, 7, 7]
    assert sample.obs[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert sample.extras["action"].tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert sample.valid.all()


def test_n_step_returns_of_implicit_next_states_and_of_a_ring_that_is_full() -> None:
    """Capacity 4 holds transitions 3 to 6. Where the next state is the following transition, one that reaches the truncation
    after 4 has none and does not count; 5 and 6 begin another episode."""
    for storage, valid in ((SEPARATE, [1, 1, 1, 1]), (IMPLICIT, [0, 0, 1, 1])):
        replay = replay_of(4, next_obs_storage=storage)
        ring = ring_of(replay, 7, last={4}, ended=set())
        ages = jnp.arange(4) + (1 if storage == IMPLICIT else 0)  # the newest next state has replaced the oldest one
        sample = read_n_steps(replay, ring, ages, 2)
        assert sample.extras["reward"].tolist() == [8 + 8, 16, 32 + 32, 64]
        assert sample.obs[:, 0].tolist() == [3, 4, 5, 6]
        assert sample.valid.tolist() == [bool(one) for one in valid]
        kept = sample.valid
        assert sample.next_obs[kept, 0].tolist() == np.array([5, 5, 7, 7])[np.asarray(kept)].tolist()


def test_n_step_returns_of_stacked_frames() -> None:
    """The next input is the stack at the last step: 0 to 2 in one episode, then 3 and 4; two frames each, 0 before the start."""
    replay = replay_of(8, frames=2)
    sample = read_n_steps(replay, ring_of(replay, 5, last={2}, ended=set()), jnp.arange(5), 2)
    assert sample.obs.tolist() == [[0, 0], [0, 1], [1, 2], [0, 3], [3, 4]]
    assert sample.next_obs.tolist() == [[1, 2], [2, 3], [2, 3], [4, 5], [4, 5]]


def test_the_agent_learns_from_n_step_returns() -> None:
    """Two transitions, and a batch of both: y = 1 + 0.5 · 1 + 0.25 · 5 = 2.75 from the older one, 1 + 0.5 · 5 = 3.5 from the newer
    one. For PT-DQN Q^P adds 0.5 to the values of the next state, and 0.25 is Q^P(1, 0): 2.625 and 3.5."""
    for permanent, older, newer in ((False, 2.75, 3.5), (True, 2.625, 3.5)):
        both = learned([transition(), transition()], permanent, n_step=2, batch=2, replace=False)
        assert moved(both) == pytest.approx(2 * LR * (older + newer) / 2)


def test_rewards_are_scaled_then_clipped_before_they_are_stored() -> None:
    for reward, stored in ((1.0, 0.5), (-1.0, -0.5), (8.0, 2.0), (-8.0, -2.0)):
        state = learned([transition(reward)], reward_scale=0.5, reward_clip=2.0)
        assert float(state.replay.items["extras"]["reward"][0]) == stored


def test_a_terminal_transition_is_learned_from_where_the_next_state_is_not_stored() -> None:
    """y = 1, whatever follows. A truncated one is not: the next entry of the replay buffer begins another episode."""
    assert moved(learned([transition(discount=0.0, last=True)], implicit_next=True)) == pytest.approx(2 * LR * 1.0)
    assert moved(learned([transition(last=True)], implicit_next=True)) == 0.0
    assert moved(learned([transition()], implicit_next=True)) == pytest.approx(2 * LR * 3.5)


def test_the_agent_counts_the_steps_of_its_schedule() -> None:
    """ε falls from 1 to 0 in two steps: at first both actions are taken, then only the greedy one; a saved policy is at its end."""
    config = DQN(hidden=(4,), epsilon=Linear(1.0, 0.0, 2), batch=2, replay=8)
    built, hypers = config.build(EnvSpec(ObsSpec((1,), "float32"), num_actions=2)), Hypers(lr=LR)
    state, act, learn = built.init(jax.random.key(1), hypers), jax.jit(built.act), jax.jit(built.learn)

    def taken(state: Any) -> set[int]:
        return {int(act(state, hypers, jnp.array([1.0]), jax.random.key(n))) for n in range(30)}

    assert taken(state) == {0, 1}
    assert len(taken(built.policy_state(state))) == 1
    for _ in range(2):
        state = learn(state, hypers, transition(), key_stub())
    assert len(taken(state)) == 1


def test_layers() -> None:
    """(1, 3) has mean 2 and deviation 1: normalized ∓1, times the gain 2 plus the bias 1. CReLU of (1, −3) is (1, 0, 0, 3)."""
    normalized = LayerNorm().apply((jnp.array([2.0, 2.0]), jnp.array([1.0, 1.0])), jnp.array([[1.0, 3.0]]))
    np.testing.assert_allclose(normalized, [[-1.0, 3.0]], rtol=1e-4)
    assert CRelu().apply((), jnp.array([[1.0, -3.0]])).tolist() == [[1, 0, 0, 3]]
    network = sequence([Flatten(), Dense(3), LayerNorm(), CRelu(), Dense(2)], (2, 2))
    assert network.output == (2,)
    assert [count for _, _, count in network.summary] == [0, 15, 6, 0, 14]
    for layer in (LayerNorm(), CRelu()):
        with pytest.raises(UserError, match="not a single number"):
            layer.shape(())


def test_dueling_streams() -> None:
    """One unit each: value 3 · relu(x), advantages (1, −5) · relu(2x). At x = 1: v = 3, A = (2, −10), mean −4: q = (9, −3)."""
    layer = Dueling(actions=2, units=1)
    value = [(jnp.array([[1.0]]), jnp.zeros(1)), (jnp.array([[3.0]]), jnp.zeros(1))]
    advantages = [(jnp.array([[2.0]]), jnp.zeros(1)), (jnp.array([[1.0, -5.0]]), jnp.zeros(2))]
    assert layer.apply([value, advantages], jnp.array([[1.0]])).tolist() == [[9, -3]]
    half = layer.scaled([value, advantages], 0.5)
    assert layer.apply(half, jnp.array([[1.0]])).tolist() == [[4.5, -1.5]]
    drawn = layer.init_weights(jax.random.key(0), (5,))
    assert [leaf.shape for leaf in jax.tree.leaves(drawn)] == [(5, 1), (1,), (1, 1), (1,), (5, 1), (1,), (1, 2), (2,)]


def everything(**fields: Any) -> PTDQN:
    return PTDQN(
        hidden=(4,),
        batch=4,
        replay=16,
        epsilon=Linear(1.0, 0.1, 10),
        learning_starts=6,
        train_every=2,
        gradient_steps=2,
        n_step=3,
        double=True,
        loss="huber",
        max_grad_norm=1.0,
        tau=0.5,
        target_every=2,
        dueling=4,
        reward_scale=0.5,
        reward_clip=1.0,
        **fields,
    )


def noise(steps: int) -> Array:
    return jax.random.normal(jax.random.key(3), (steps, 3))


@pytest.mark.parametrize(
    "config",
    [
        everything(consolidate_every=8, absorb=0.1),
        everything(consolidate_every=8, trunk=(Flatten(), Dense(3, "uniform"))),
    ],
    ids=["two networks", "on a trunk"],
)
def test_all_options_together(config: PTDQN) -> None:
    """They learn something finite, leave V^P alone while they do, and consolidate."""
    built = config.build(EnvSpec(ObsSpec((1,), "float32"), num_actions=2))
    hypers = Hypers(lr=0.1, transient_lr=0.1, permanent_lr=0.1, decay=0.5, absorb=0.1)

    @jax.jit
    def live() -> tuple[DeepState, DeepState, DeepState]:
        def step(state: DeepState, numbers: Array) -> tuple[DeepState, None]:
            seen = transition()._replace(obs=numbers[:1], next_obs=numbers[1:2], reward=numbers[2])
            return built.learn(state, hypers, seen, jax.random.key(5)), None

        first = built.init(jax.random.key(1), hypers)
        state = jax.lax.scan(step, first, noise(24))[0]
        return first, state, built.consolidate(state, hypers, jax.random.key(6), True)

    first, state, after = live()
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((state.transient, after)))
    same = jax.tree.map(lambda a, b: bool((a == b).all()), first.permanent, state.permanent)
    assert all(jax.tree.leaves(same))
    different = jax.tree.map(lambda a, b: bool((a != b).any()), first.transient, state.transient)
    assert all(jax.tree.leaves(different))
    consolidated = jax.tree.map(lambda a, b: bool((a != b).any()), state.permanent, after.permanent)
    assert any(jax.tree.leaves(consolidated))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"double": True}, "its kernels do not know double"),
        ({"loss": "huber", "n_step": 3, "gradient_steps": 2}, "its kernels do not know gradient_steps, n_step"),
        ({"loss": jnp.abs}, "its loss is none of squared, huber"),
        ({"tau": 0.1}, "its kernels do not know tau"),
        ({"dueling": 8}, "its network is not a stack of dense layers"),
    ],
)
def test_the_native_learner_says_what_it_does_not_know(fields: dict[str, Any], why: str) -> None:
    native = DQN(hidden=(8,), **fields).build(BITS).native
    assert isinstance(native, str)
    assert native.startswith(why)


def test_the_native_learner_knows_options_that_are_not_about_the_gradient() -> None:
    known = {"train_every": 4, "learning_starts": 9, "reward_clip": 1.0, "epsilon": Linear(1.0, 0.1, 10)}
    assert callable(DQN(hidden=(8,), **known).build(BITS).native)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: DQN(tau=0.0).build(BITS), "above 0 and at most 1; got 0.0"),
        (lambda: DQN(target_every=None, double=True).build(BITS), "there is none: give target_every"),
        (lambda: DQN(target_every=None, tau=0.5).build(BITS), "there is none: give target_every"),
        (lambda: DQN(loss="cubic").build(BITS), "unknown loss 'cubic'"),
        (lambda: DQN(max_grad_norm=-1.0).build(BITS), "max_grad_norm must be positive"),
        (lambda: DQN(reward_scale=0.0).build(BITS), "reward_scale must be positive"),
        (lambda: DQN(reward_scale=0), "reward_scale must be positive; got 0"),
        (lambda: DQN(reward_clip=-1), "reward_clip must be positive; got -1"),
        (lambda: DQN(max_grad_norm=-1), "max_grad_norm must be positive; got -1"),
        (lambda: DQN(n_step=20_000).build(BITS), "does not fit a replay buffer of 10000"),
        (lambda: DQN(train_every=0), "train_every must be at least 1; got 0"),
        (lambda: DQN(epsilon=Linear(2.0, 0.0, 5)), r"epsilon must be in \[0, 1\]"),
        (lambda: DQN(epsilon=lambda step: step.lost), "the schedule of epsilon failed"),
        (lambda: DQN(epsilon="often"), "epsilon must be float or Linear or a function; got 'often'"),  # type: ignore[arg-type]
        (lambda: Linear(1.0, 0.0, 0), "at least one step"),
        (lambda: DQN(multihead=True, dueling=8), "not both"),
        (lambda: DQN(network=Dense(2), layers=(Dense(3),)), "not both"),
        (lambda: DeepTD(double=True), "prediction has none"),
        (lambda: DQN(network=Dense(3)).build(BITS), "3 outputs, and there are 2 actions"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(make: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        make()


def test_descriptions_of_agents_without_options_are_as_they_were() -> None:
    """So runs that are stored keep their names: what is at its default is not written down."""
    fields = to_json(DQN())
    assert set(fields) == {
        *(
            "kind",
            "layers",
            "hidden",
            "trunk",
            "output_init",
            "batch",
            "replay",
            "replace",
            "implicit_next",
            "target_every",
        ),
        *(
            "epsilon",
            "optimizer",
            "frames",
            "repeat_first",
            "scale",
            "penalty",
            "renewal",
            "lr",
            "clear_replay",
            "reset",
        ),
        *("multihead", "sync_target"),
    }
    changed = to_json(DQN(double=True, tau=0.5, train_every=4))
    assert {name: value for name, value in changed.items() if name not in fields} == {
        "double": True,
        "tau": 0.5,
        "train_every": 4,
    }


def test_adams_direction_from_its_moments_is_optaxs() -> None:
    """`apply_gradient` computes it from the new state."""
    adam, theirs = make_optimizer("adam"), optax.scale_by_adam()
    assert isinstance(adam, Adam)
    weights = {"w": jnp.array([1.0, -2.0, 0.5]), "b": jnp.zeros(2)}
    state, their_state, ours, expected = adam.init(weights), theirs.init(weights), weights, weights
    update, theirs_update = jax.jit(partial(apply_gradient, adam)), jax.jit(theirs.update)
    for seed in range(4):
        gradient = jax.tree.map(lambda leaf, seed=seed: jax.random.normal(jax.random.key(seed), leaf.shape), weights)
        direction, their_state = theirs_update(gradient, their_state)
        expected = jax.tree.map(lambda leaf, step: leaf - 0.1 * step, expected, direction)
        ours, state = update(gradient, ours, state, 0.1, jnp.bool_(True))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), ours, expected)
    waiting, same_state = update(gradient, ours, state, 0.1, jnp.bool_(False))
    jax.tree.map(np.testing.assert_array_equal, (waiting, same_state), (ours, state))
