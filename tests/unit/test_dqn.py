"""Deep agents: Algorithm 4 retold in NumPy line by line, what must not move, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

from conftest import key_stub
from remanence.agents import AT_SWITCH, Agent, Hypers, dqn
from remanence.agents import ring as rings
from remanence.agents.base import hypers_of
from remanence.agents.behaviour import epsilon_greedy, uniform
from remanence.agents.composition import ValueComposition, index_rows, separate_networks, shared_trunk, single
from remanence.agents.configs import DQN
from remanence.agents.dqn import DeepState, deep_agent
from remanence.agents.networks import Dense, Tanh, mlp, precomputed_inputs, sequence, stacked
from remanence.agents.replay import draw
from remanence.agents.td import CONTROL, PREDICTION
from remanence.agents.training import (
    DECAY,
    KEEP,
    REINIT,
    Consolidation,
    OnConsolidate,
    Renewal,
    Training,
    make_optimizer,
)
from remanence.core.errors import UserError
from remanence.core.masking import LANES
from remanence.core.types import EnvSpec, ObsSpec, Steps, TaskObs, Transition

INPUTS, ACTIONS, BATCH = 3, 2, 2
LINEAR = mlp((INPUTS,), (), ACTIONS)  # Q(s, a) = s · W[:, a] + b[a]: gradients can be written down
stock_key = jax.random.key  # the same bits as those of `make_key` (test_prng), compiled in a third of the time
HYPERS = Hypers(permanent_lr=0.05, transient_lr=0.1, decay=0.5)


def transitions(count: int, seed: int = 0) -> list[Transition]:
    """Random ones. Some end the episode, some only cut it off: those keep their discount."""
    rng = np.random.default_rng(seed)
    made, obs = [], rng.normal(size=INPUTS)
    for t in range(count):
        following = rng.normal(size=INPUTS)
        ended, cut = t % 5 == 2, t % 7 == 3
        made.append(
            Transition(
                jnp.asarray(obs, jnp.float32),
                jnp.int32(rng.integers(ACTIONS)),
                jnp.float32(rng.normal()),
                jnp.float32(0.0 if ended else 0.9),
                jnp.asarray(following, jnp.float32),
                jnp.bool_(ended or cut),
                jnp.bool_(True),
            )
        )
        obs = rng.normal(size=INPUTS) if ended or cut else following
    return made


def feed(agent: Agent, hypers: Any, seen: list[Transition], state: DeepState | None = None) -> DeepState:
    learn = jax.jit(agent.learn)
    now: DeepState = agent.init(stock_key(1), hypers) if state is None else state
    for t, transition in enumerate(seen):
        now = learn(now, hypers, transition, jax.random.fold_in(stock_key(2), t))
    return now


def tiny_pt_dqn(parts: ValueComposition | None = None, **options: Any) -> Agent:
    settings = {
        "training": Training(batch=BATCH, replay=6, target_every=3),
        "on_consolidate": OnConsolidate(DECAY, clear_replay=False, reset_optimizer=False),
        "consolidation": Consolidation(batch=BATCH, buffer=20, in_order=True, max_batches=None),
        "consolidate_every": Steps(8),
        **options,
    }
    return deep_agent(
        CONTROL,
        parts or separate_networks(LINEAR, LINEAR),
        epsilon_greedy(0.1),
        np.zeros(INPUTS, np.float32),
        **settings,
    )


def flat(weights: Any) -> np.ndarray:
    return np.concatenate([np.empty(0), *(np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(weights))])


def unpacked(weights: Any) -> tuple[np.ndarray, np.ndarray]:
    matrix, bias = jax.tree.leaves(weights)
    return np.asarray(matrix, np.float64), np.asarray(bias, np.float64)


@pytest.mark.parametrize("cache", [False, True])
def test_algorithm_4_line_by_line(cache: bool) -> None:
    """Eleven steps, a target copied every third, a replay of six; then consolidation in batches of two, and decay."""
    agent = tiny_pt_dqn(
        consolidation=Consolidation(batch=BATCH, buffer=20, in_order=True, max_batches=None, cache=cache)
    )
    init_life = agent.init(stock_key(1), HYPERS)
    big = jax.tree.map(
        lambda leaf: 50 * leaf + 0.1, (init_life.permanent, init_life.transient)
    )  # small starts would hide mistakes
    init_life = init_life._replace(permanent=big[0], transient=big[1], target=big[1])
    seen = transitions(11)
    state = feed(agent, HYPERS, seen, init_life)

    P, (T, t_bias) = unpacked(init_life.permanent), unpacked(init_life.transient)
    T, t_bias, target = T.copy(), t_bias.copy(), (T.copy(), t_bias.copy())

    def q(weights: tuple[np.ndarray, np.ndarray], s: np.ndarray) -> np.ndarray:
        return s @ weights[0] + weights[1]

    B, D = [], []
    for t, one in enumerate(seen):
        s, a, r, discount, following = (np.asarray(part, np.float64) for part in one[:5])
        B = [*B, (s, int(a), r, discount, following)][-6:]  # line 7
        D.append((s, int(a), q(P, s)[int(a)]))  # line 8
        if len(B) < BATCH:
            continue
        gradient, bias_gradient = np.zeros_like(T), np.zeros_like(t_bias)
        for j in np.asarray(draw(jax.random.fold_in(stock_key(2), t), jnp.int32(len(B)), BATCH)):  # line 9
            sj, aj, rj, gamma, nj = B[j]
            y = rj + gamma * (q(P, nj) + q(target, nj)).max() - q(P, sj)[aj]  # line 10
            error = y - q((T, t_bias), sj)[aj]
            gradient[:, aj] += -2 * error * sj / BATCH  # line 11
            bias_gradient[aj] += -2 * error / BATCH
        T, t_bias = T - 0.1 * gradient, t_bias - 0.1 * bias_gradient
        if (t + 1) % 3 == 0:  # line 12
            target = (T.copy(), t_bias.copy())
    np.testing.assert_allclose(flat(state.transient), flat((T, t_bias)), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(flat(state.target), flat(target), rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(flat(state.permanent), flat(init_life.permanent))  # learning leaves V^P alone

    after = jax.jit(agent.consolidate)(state, HYPERS, key_stub(), True)
    W, b = P[0].copy(), P[1].copy()
    for first in range(0, len(D) - 1, BATCH):  # lines 14 to 16; the eleventh visit fills no batch
        gradient, bias_gradient = np.zeros_like(W), np.zeros_like(b)
        for sj, aj, stored in D[first : first + BATCH]:
            error = stored + q((T, t_bias), sj)[aj] - q((W, b), sj)[aj]
            gradient[:, aj] += -2 * error * sj / BATCH
            bias_gradient[aj] += -2 * error / BATCH
        W, b = W - 0.05 * gradient, b - 0.05 * bias_gradient
    np.testing.assert_allclose(flat(after.permanent), flat((W, b)), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(flat(after.transient), 0.5 * flat(state.transient), rtol=1e-6)  # line 17
    np.testing.assert_array_equal(flat(after.target), flat(state.target))
    assert int(rings.size(after.visited)) == 0  # line 18
    assert int(rings.size(after.replay)) == 6
    if cache:  # what is remembered of V^P is that of the new V^P
        held = after.replay.items
        for kept in (held["now"], held["next"]):
            np.testing.assert_allclose(kept["cached"][:6], kept["frame"][:6] @ W + b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_caching_changes_nothing(optimizer: str) -> None:
    """Three times 20 steps and a consolidation, with and without a cache: the same weights, moments included."""
    states = []
    for cache in (False, True):
        agent = tiny_pt_dqn(
            training=Training(optimizer, batch=4, replay=12, target_every=5),
            consolidation=Consolidation(batch=4, buffer=30, cache=cache),
        )
        state = None
        for part in range(3):
            state = feed(agent, HYPERS, transitions(20, seed=part), state)
            state = jax.jit(agent.consolidate)(state, HYPERS, stock_key(part), True)
        states.append(state)
    for part in ("permanent", "transient", "target", "opt_state"):
        np.testing.assert_allclose(flat(getattr(states[0], part)), flat(getattr(states[1], part)), rtol=1e-5, atol=1e-7)


def test_lanes_learn_alike_one_after_the_other_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lanes with different step sizes, 6 steps and a consolidation; one after the other where a batch fills the cache."""
    in_turn: list[str] = []

    def noted(function: Any) -> Any:
        in_turn.append(function.__name__)
        return jax.custom_batching.sequential_vmap(function)

    def states(large: int) -> DeepState:
        monkeypatch.setattr(dqn, "LARGE", large)
        agent = tiny_pt_dqn()

        def lane(lr: Array) -> DeepState:
            hypers = Hypers(permanent_lr=lr / 2, transient_lr=lr, decay=0.5)
            return agent.consolidate(feed(agent, hypers, transitions(6)), hypers, stock_key(3), True)

        return jax.vmap(lane, axis_name=LANES)(jnp.array([0.1, 0.2, 0.3]))

    monkeypatch.setattr(dqn, "sequential_vmap", noted)
    together = states(large=2**19)
    assert not in_turn
    alone = states(large=24)  # bytes: 2 samples of 3 inputs
    assert set(in_turn) == {"gradient", "permanent_gradient"}
    for part in ("permanent", "transient"):
        one, other = flat(getattr(together, part)), flat(getattr(alone, part))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
        assert len(np.unique(jax.tree.leaves(getattr(together, part))[0][:, 0, 0])) == 3


def test_a_permanent_part_of_zero_gives_dqn() -> None:
    """The same transient weights, the same batches: bit for bit the update of DQN."""
    training = Training("adam", batch=4, replay=12, target_every=5)
    pt = tiny_pt_dqn(training=training, consolidation=Consolidation(batch=4, buffer=30))
    dqn = deep_agent(CONTROL, single(LINEAR), epsilon_greedy(0.1), np.zeros(INPUTS, np.float32), training)
    init_life = pt.init(stock_key(1), HYPERS)
    init_life = init_life._replace(permanent=jax.tree.map(jnp.zeros_like, init_life.permanent))
    plain = dqn.init(stock_key(1), Hypers(lr=0.1))._replace(transient=init_life.transient, target=init_life.transient)
    ours = feed(pt, HYPERS, transitions(30), init_life)
    theirs = feed(dqn, Hypers(lr=0.1), transitions(30), plain)
    np.testing.assert_array_equal(flat(ours.transient), flat(theirs.transient))
    np.testing.assert_array_equal(flat(ours.target), flat(theirs.target))


@pytest.mark.parametrize(("problem", "weights"), [(PREDICTION, KEEP), (PREDICTION, REINIT), (CONTROL, KEEP)])
def test_on_a_shared_trunk_each_part_keeps_still_while_the_other_learns(problem: Any, weights: str) -> None:
    """Learning moves trunk and transient head only; consolidation the permanent head only, then the transient head is redrawn.

    Control with a redrawn head: test_a_penalty_pulls_towards_weights_that_were_drawn_last.
    """
    trunk, head = sequence([Dense(5, "uniform"), Tanh()], (INPUTS,)), sequence([Dense(ACTIONS, "uniform")], (5,))
    agent = deep_agent(
        problem,
        shared_trunk(trunk, head),
        uniform(2),
        np.zeros(INPUTS, np.float32),
        Training(batch=4, replay=20),
        OnConsolidate(weights),
        Consolidation(batch=4, buffer=20, min_batches=10),
        AT_SWITCH,
    )
    init_life = agent.init(stock_key(0), HYPERS)
    state = feed(agent, HYPERS, transitions(12), init_life)
    np.testing.assert_array_equal(flat(state.permanent), flat(init_life.permanent))
    assert (flat(state.transient.trunk) != flat(init_life.transient.trunk)).mean() > 0.5
    assert (flat(state.transient.head) != flat(init_life.transient.head)).any()
    after = jax.jit(agent.consolidate)(state, HYPERS, stock_key(5), True)
    np.testing.assert_array_equal(flat(after.transient.trunk), flat(state.transient.trunk))
    assert (flat(after.permanent) != flat(state.permanent)).any()
    same = flat(after.transient.head) == flat(state.transient.head)
    assert same.all() if weights == KEEP else not same.all()
    assert int(rings.size(after.replay)) == 0


def test_nothing_is_learned_before_a_batch_is_there_or_while_a_lane_waits() -> None:
    agent = tiny_pt_dqn(training=Training("adam", batch=4, replay=12, target_every=2))
    init_life = agent.init(stock_key(1), HYPERS)
    early = feed(agent, HYPERS, transitions(3), init_life)
    assert int(early.steps) == 3
    np.testing.assert_array_equal(
        flat((early.transient, early.opt_state)), flat((init_life.transient, init_life.opt_state))
    )
    state = feed(agent, HYPERS, transitions(9), init_life)
    assert int(state.steps) == 9
    waiting = feed(agent, HYPERS, [transitions(10)[-1]._replace(valid=jnp.bool_(False))], state)
    for part in ("transient", "opt_state", "target", "age", "recent", "steps"):
        np.testing.assert_array_equal(flat(getattr(waiting, part)), flat(getattr(state, part)))
    assert int(waiting.replay.count) == int(state.replay.count)
    assert int(waiting.visited.count) == int(state.visited.count)


@pytest.mark.parametrize("follows", [False, True])
def test_the_target_is_copied_by_the_clock_of_life_and_decays_late_or_at_once(follows: bool) -> None:
    """Copies after steps 3, 6, 9, not 5 and 8 as counted from where learning begins; consolidation falls on the third copy."""
    agent = tiny_pt_dqn(
        training=Training(batch=3, replay=12, target_every=3),
        on_consolidate=OnConsolidate(DECAY, clear_replay=False, reset_optimizer=False, sync_target=follows),
    )
    after = [feed(agent, HYPERS, transitions(n)) for n in range(10)]
    for n, copied in [(5, 3), (6, 6), (8, 6), (9, 9)]:
        np.testing.assert_array_equal(flat(after[n].target), flat(after[copied].transient))
    forgotten = jax.jit(agent.consolidate)(after[9], HYPERS, stock_key(0), True)
    np.testing.assert_allclose(flat(forgotten.transient), HYPERS.decay * flat(after[9].transient), rtol=1e-6)
    np.testing.assert_array_equal(flat(forgotten.target), flat((forgotten if follows else after[9]).transient))


@pytest.mark.parametrize("sync_target", [False, True])
def test_plain_dqn_keeps_its_weights_at_a_known_switch_and_copies_them_if_asked(sync_target: bool) -> None:
    """The released code of the two rooms copies the target network there too."""
    config = DQN(batch=2, replay=8, target_every=50, clear_replay=True, sync_target=sync_target, hidden=(4,))
    agent = config.build(EnvSpec(ObsSpec((INPUTS,), "float32"), ACTIONS))
    before = feed(agent, hypers_of(config), transitions(9))
    after = jax.jit(agent.consolidate)(before, hypers_of(config), stock_key(0), True)
    assert (flat(before.target) != flat(before.transient)).any()
    np.testing.assert_array_equal(flat(after.transient), flat(before.transient))
    np.testing.assert_array_equal(flat(after.target), flat(before.transient if sync_target else before.target))
    assert int(rings.size(after.replay)) == 0


def test_a_visit_that_lacks_a_frame_does_not_move_the_permanent_part() -> None:
    """D is emptied in the middle of an episode: the next visit's earlier frame is gone. One that begins an episode lacks none."""
    agent = deep_agent(
        CONTROL,
        separate_networks(*(mlp((2 * INPUTS,), (), ACTIONS, init="uniform") for _ in range(2))),
        epsilon_greedy(0.1),
        np.zeros(INPUTS, np.float32),
        Training(batch=BATCH, replay=12, frames=2),
        OnConsolidate(KEEP, clear_replay=False, reset_optimizer=False),
        Consolidation(batch=1, buffer=20, in_order=True, max_batches=None),
        Steps(8),
    )
    consolidate = jax.jit(agent.consolidate)
    for last, moves in [(False, False), (True, True)]:
        seen = [one._replace(last=jnp.bool_(False)) for one in transitions(5)]
        seen[3] = seen[3]._replace(last=jnp.bool_(last))
        before = consolidate(feed(agent, HYPERS, seen[:4]), HYPERS, stock_key(0), True)
        after = consolidate(feed(agent, HYPERS, seen[4:], before), HYPERS, stock_key(0), True)
        assert (flat(after.permanent) != flat(before.permanent)).any() == moves


@pytest.mark.parametrize("repeat_first", [False, True])
def test_stacked_frames_reach_the_network_alike(repeat_first: bool) -> None:
    """What the agent acts on is what it is trained on: the same stacks, from its memory of the episode and from the ring."""
    network = mlp((4 * 3,), (), 2, init="uniform")
    calls, seen = count(), dict[int, np.ndarray]()

    def spy(weights: Any, obs: Array) -> Array:
        """Notes what it is given, by the place of the call in the program."""
        call = next(calls)
        jax.debug.callback(lambda given: seen.update({call: np.asarray(given, bool)[0]}), obs)
        return network.apply(weights, obs)

    def spied(compiled: Any, *arguments: Any) -> tuple[Any, list[np.ndarray]]:
        """What it returns, and what the network was given meanwhile, in the order of the program."""
        seen.clear()
        result = jax.block_until_ready(compiled(*arguments))
        jax.effects_barrier()
        return result, [seen[call] for call in sorted(seen)]

    agent = deep_agent(
        CONTROL,
        single(network._replace(apply=spy)),
        epsilon_greedy(0.0),
        np.zeros(4, bool),
        Training(batch=1, replay=16, frames=3, repeat_first=repeat_first),
    )
    act, learn, hypers = jax.jit(agent.act), jax.jit(agent.learn), Hypers(lr=0.0)
    state = agent.init(stock_key(0), hypers)
    frames = (np.arange(1, 9)[:, None] >> np.arange(4)) % 2 == 1  # the numbers 1 to 8: all different, none blank
    acted_on, trained_on, drawn = [], [], []
    for t in range(7):
        acted_on.append(spied(act, state, hypers, jnp.asarray(frames[t]), key_stub())[1][-1])
        step = Transition(
            jnp.asarray(frames[t]), jnp.int32(0), jnp.float32(0), jnp.float32(1), jnp.asarray(frames[t + 1]), jnp.bool_(t == 3),
            jnp.bool_(True),
        )  # fmt: skip
        key = stock_key(t)
        state, given = spied(learn, state, hypers, step, key)
        trained_on.append((given[-1], given[-2]))  # the loss comes last, the target before it
        drawn.append(int(draw(key, jnp.int32(t + 1), 1)[0]))
    before = [frames[0], frames[4]] if repeat_first else [np.zeros(4, bool)] * 2  # the start of each episode
    expected = [
        np.concatenate(stack)
        for stack in (
            [before[0], before[0], frames[0]], [before[0], *frames[0:2]], frames[0:3], frames[1:4],
            [before[1], before[1], frames[4]], [before[1], *frames[4:6]], frames[4:7],
        )
    ]  # fmt: skip
    for stack, right in zip(acted_on, expected, strict=True):
        np.testing.assert_array_equal(stack, right)
    assert len(set(drawn)) > 3
    for (stack, next_stack), which in zip(trained_on, drawn, strict=True):
        np.testing.assert_array_equal(stack, expected[which])
        np.testing.assert_array_equal(next_stack, np.concatenate([expected[which][4:], frames[which + 1]]))


def told(transition: Transition, task: int) -> Transition:
    """The same for an agent that is told the task."""
    obs, next_obs = (TaskObs(one, jnp.int32(task)) for one in (transition.obs, transition.next_obs))
    return transition._replace(obs=obs, next_obs=next_obs)


def test_heads_are_agents_that_share_nothing_but_the_trunk() -> None:
    """A linear network has no trunk: the head of the live task becomes what DQN becomes alone, the other one stays as it was."""
    training = Training("adam", batch=4, replay=12, target_every=5)
    frame = np.zeros(INPUTS, np.float32)
    alone = deep_agent(CONTROL, single(LINEAR), epsilon_greedy(0.0), frame, training)
    both = deep_agent(CONTROL, single(mlp((INPUTS,), (), 2 * ACTIONS)), epsilon_greedy(0.0), frame, training, heads=2)
    assert both.task_aware
    assert not alone.task_aware
    hypers, seen = Hypers(lr=0.1), transitions(30)
    start = both.init(stock_key(1), hypers)
    matrix, bias = start.transient[1]
    for task in (0, 1):
        mine = slice(task * ACTIONS, (task + 1) * ACTIONS)
        begun = [(), (matrix[:, mine], bias[mine])]
        dqn = alone.init(stock_key(1), hypers)._replace(transient=begun, target=begun)
        dqn = feed(alone, hypers, seen, dqn)
        after = feed(both, hypers, [told(one, task) for one in seen], start)
        np.testing.assert_allclose(after.transient[1][0][:, mine], dqn.transient[1][0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(after.target[1][1][mine], dqn.target[1][1], rtol=1e-5, atol=1e-6)
        other = slice((1 - task) * ACTIONS, (2 - task) * ACTIONS)
        np.testing.assert_array_equal(after.transient[1][0][:, other], matrix[:, other])
        wide = after._replace(transient=[(), (jnp.zeros_like(matrix), jnp.array([0.0, 1.0, 3.0, 2.0]))])
        obs: Any = TaskObs(seen[0].obs, jnp.int32(task))
        assert int(both.act(wide, hypers, obs, stock_key(0))) == 1 - task


def test_any_transformation_of_optax_is_an_optimizer() -> None:
    """Given by its name or itself; a chain too; for both parts. The agent's step size multiplies what it gives."""

    def lived(optimizer: Any, permanent_optimizer: Any = "sgd") -> DeepState:
        agent = tiny_pt_dqn(
            training=Training(optimizer, batch=4, replay=12),
            consolidation=Consolidation(permanent_optimizer, batch=4, buffer=30, in_order=True, max_batches=1),
        )
        return jax.jit(agent.consolidate)(feed(agent, HYPERS, transitions(9)), HYPERS, stock_key(0), True)

    for name, same in (("sgd", optax.identity()), ("adam", optax.scale_by_adam()), ("rmsprop", optax.scale_by_rms())):
        named, given = lived(name, name), lived(same, same)
        for part in ("permanent", "transient", "opt_state", "permanent_opt_state"):
            np.testing.assert_array_equal(flat(getattr(named, part)), flat(getattr(given, part)))
    before = tiny_pt_dqn().init(stock_key(1), HYPERS)
    clipped = lived("sgd", optax.chain(optax.clip_by_global_norm(1e-3), optax.scale(2.0)))
    moved = np.linalg.norm(flat(clipped.permanent) - flat(before.permanent))
    assert moved == pytest.approx(HYPERS.permanent_lr * 2e-3, rel=1e-3)


def test_rmsprop_of_the_first_dqns() -> None:
    """By hand, and the numbers of PyTorch's RMSprop(alpha=0.95, eps=0.01, centered=True, momentum=0.95): after gradients 1 and 1
    variances are .0475 and .0880, so the steps are 1/(√.0475 + .01) and 0.95 of it + 1/(√.0880 + .01)."""
    optimizer = make_optimizer("rmsprop of dqn")
    weights = jnp.zeros(3)
    state, moved = optimizer.init(weights), []
    for gradient in ([1.0, -2.0, 0.1], [1.0, 3.0, 0.0]):
        step, state = optimizer.update(jnp.array(gradient), state, weights)
        weights = weights - jnp.asarray(step)
        moved.append(weights)
    first = 1 / (np.sqrt(0.0475) + 0.01)
    assert float(moved[0][0]) == pytest.approx(-first, rel=1e-5)
    assert float(moved[1][0]) == pytest.approx(-first - (0.95 * first + 1 / (np.sqrt(0.08799375) + 0.01)), rel=1e-5)
    np.testing.assert_allclose(moved[1], [-11.815877, 5.034174, -6.133137], rtol=1e-5)


def test_a_penalty_in_the_loss() -> None:
    """c/2 ‖w − w₀‖² adds c (w − w₀) to the gradient; without a penalty the first weights are not kept."""

    def towards_start(weights: Any, initial: Any) -> Array:
        squares = jax.tree.map(lambda w, first: ((w - first) ** 2).sum(), weights, initial)
        return 0.15 * jnp.asarray(sum(jax.tree.leaves(squares)))

    training = Training(batch=BATCH, replay=6)
    plain, pulled = tiny_pt_dqn(training=training), tiny_pt_dqn(training=replace(training, penalty=towards_start))
    assert plain.init(stock_key(1), HYPERS).initial == ()
    after = []
    for agent in (plain, pulled):
        start = agent.init(stock_key(1), HYPERS)
        start = start._replace(transient=jax.tree.map(lambda leaf: leaf + 2.0, start.transient))
        after.append(feed(agent, HYPERS, transitions(2), start))  # one gradient step
    difference = flat(after[1].transient) - flat(after[0].transient)
    np.testing.assert_allclose(difference, -HYPERS.transient_lr * 0.3 * 2.0, rtol=1e-4)


def test_a_penalty_pulls_towards_weights_that_were_drawn_last() -> None:
    """The trunk is kept at a consolidation, so its first weights stay the ones to return to; those of the head are new."""
    trunk, head = sequence([Dense(5, "uniform"), Tanh()], (INPUTS,)), sequence([Dense(ACTIONS, "uniform")], (5,))
    agent = tiny_pt_dqn(
        shared_trunk(trunk, head),
        training=Training(batch=BATCH, replay=6, penalty=lambda weights, _: 0.0 * weights.head[0][0].sum()),
        on_consolidate=OnConsolidate(REINIT),
    )
    start = agent.init(stock_key(1), HYPERS)
    state = feed(agent, HYPERS, transitions(9), start)
    np.testing.assert_array_equal(flat(state.permanent), flat(start.permanent))
    after = jax.jit(agent.consolidate)(state, HYPERS, stock_key(0), True)
    assert (flat(after.permanent) != flat(state.permanent)).any()
    assert int(rings.size(after.replay)) == 0
    np.testing.assert_array_equal(flat(after.transient.trunk), flat(state.transient.trunk))
    np.testing.assert_array_equal(flat(after.initial.trunk), flat(start.transient.trunk))
    assert (flat(after.transient.trunk) != flat(start.transient.trunk)).any()
    assert (flat(after.transient.head) != flat(state.transient.head)).any()
    np.testing.assert_array_equal(flat(after.initial.head), flat(after.transient.head))
    assert (flat(after.initial.head) != flat(start.initial.head)).any()


def test_weights_are_renewed_by_the_clock_of_life() -> None:
    """Here by adding 1 to all, with a step size of 0, every third step; the target, copied at the same time, has it at once."""

    def shift(key: Any, transient: Any, opt_state: Any) -> tuple[Any, Any]:
        noise = jax.random.normal(key, ())
        return jax.tree.map(lambda leaf: leaf + 1.0 + 0 * noise, transient), jax.tree.map(jnp.zeros_like, opt_state)

    hypers, training = (
        Hypers(permanent_lr=0.0, transient_lr=0.0, decay=0.0),
        Training("adam", batch=BATCH, replay=6, target_every=6),
    )
    renewing = replace(training, renewal=Renewal(3, shift))
    agent = tiny_pt_dqn(training=renewing)
    start = agent.init(stock_key(1), hypers)
    for steps, renewals in [(2, 0), (3, 1), (5, 1), (6, 2), (8, 2)]:
        state = feed(agent, hypers, transitions(steps), start)
        np.testing.assert_allclose(flat(state.transient), flat(start.transient) + renewals, rtol=1e-6)
        assert flat(state.opt_state).any() == (steps % 3 != 0)
    np.testing.assert_allclose(flat(state.target), flat(start.transient) + 2, rtol=1e-6)
    waiting = feed(
        agent, hypers, [transitions(1)[0]._replace(valid=jnp.bool_(False))] * 2, feed(agent, hypers, transitions(3))
    )
    np.testing.assert_allclose(flat(waiting.transient), flat(start.transient) + 1, rtol=1e-6)

    def branches(training: Training) -> int:
        """How often lanes that are mapped together decide as one whether to pay."""
        agent = tiny_pt_dqn(training=training)
        learn = jax.vmap(agent.learn, in_axes=(0, None, None, None), axis_name=LANES)
        lanes = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), agent.init(stock_key(1), hypers))
        return str(jax.make_jaxpr(learn)(lanes, hypers, transitions(1)[0], stock_key(0))).count("= cond[")

    assert branches(renewing) == branches(training) + 1 == 2


def test_activations_that_a_probe_can_look_at() -> None:
    net = mlp((INPUTS,), (4,), ACTIONS, "tanh", init="uniform")
    agent = tiny_pt_dqn(separate_networks(net, net))
    state, obs = agent.init(stock_key(1), HYPERS), jnp.arange(INPUTS, dtype=jnp.float32)
    matrix, bias = state.transient[1]
    assert agent.features is not None
    assert agent.activations is not None
    hidden = np.tanh(np.asarray(obs) @ np.asarray(matrix) + np.asarray(bias))
    np.testing.assert_allclose(agent.features(state, obs), hidden, rtol=1e-5)
    layers = agent.activations(state, obs)
    assert [layer.shape for layer in layers] == [(INPUTS,), (4,), (4,), (ACTIONS,)]
    np.testing.assert_allclose(layers[-1], agent.inspect(state, obs)["transient"], rtol=1e-6)
    trunk, head = sequence([Dense(5), Tanh()], (INPUTS,)), sequence([Dense(ACTIONS)], (5,))
    for parts in (shared_trunk(trunk, head), single(stacked(trunk, head))):
        agent = deep_agent(CONTROL, parts, uniform(2), np.zeros(INPUTS, np.float32), Training())
        weights = agent.init(stock_key(1), HYPERS).transient[0]
        assert agent.features is not None
        features = agent.features(agent.init(stock_key(1), HYPERS), obs)
        np.testing.assert_allclose(features, trunk.apply(weights, obs[None])[0], rtol=1e-6)
    table = np.eye(4, INPUTS, dtype=np.float32)
    rows = index_rows(single(precomputed_inputs([Dense(5, "uniform"), Tanh(), Dense(ACTIONS, "uniform")], table)))
    agent = deep_agent(CONTROL, rows, uniform(2), np.int16(0), Training())
    state = agent.init(stock_key(1), HYPERS)
    assert agent.features is not None
    (matrix, bias), *_ = state.transient
    np.testing.assert_allclose(agent.features(state, jnp.int16(2)), np.tanh(matrix[2] + bias), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"training": Training("adamw")}, "unknown optimizer 'adamw'"),
        ({"training": Training(optax.adam(1e-3))}, "includes a learning rate"),
        ({"training": Training(renewal=Renewal(0, lambda _, *both: both))}, "renewed every 1 or more steps"),
        ({"training": Training(batch=0)}, "at least one sample; got 0"),
        ({"training": Training(batch=64, replay=32)}, "holds 32 samples, fewer than a batch of 64"),
        ({"training": Training(target_every=0)}, "every 1 or more steps"),
        ({"training": Training(frames=2)}, r"takes observations of shape \(3,\), but the world gives \(3,\), 2 frames"),
        ({"example_obs": np.zeros(4)}, r"shape \(3,\), but the world gives \(4,\)"),
        ({"on_consolidate": OnConsolidate("fade")}, "unknown treatment of the transient weights 'fade'"),
        ({"consolidation": Consolidation("nadam")}, "unknown optimizer 'nadam'"),
        ({"consolidation": Consolidation(buffer=10)}, "buffer for consolidation holds 10"),
        ({"heads": 3}, "2 outputs cannot be split equally between 3 heads"),
    ],
)
def test_bad_agents_are_refused_before_anything_compiles(change: dict, complaint: str) -> None:
    good = {
        "problem": CONTROL,
        "parts": single(LINEAR),
        "behaviour": uniform(2),
        "example_obs": np.zeros(INPUTS),
        "training": Training(),
    }
    with pytest.raises(UserError, match=complaint):
        deep_agent(**{**good, **change})


def test_a_trunk_that_learns_cannot_be_cached() -> None:
    parts = shared_trunk(sequence([Dense(4)], (INPUTS,)), sequence([Dense(2)], (4,)))
    with pytest.raises(UserError, match="cannot be cached"):
        deep_agent(CONTROL, parts, uniform(2), np.zeros(INPUTS), Training(), consolidation=Consolidation(cache=True))
