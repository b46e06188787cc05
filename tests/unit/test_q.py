"""Q-learning and PT-Q in tables and with features: their steps by hand. Whole lives: tests/learning/test_control.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from remanence.agents import pt_q, q_learning
from remanence.agents.behaviour import epsilon_greedy
from remanence.agents.linear import Features, linear, one_hot, row_and_column
from remanence.agents.ring import size
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import Hypers, Transition

Q = linear(one_hot(36), outputs=4)
GREEDY = epsilon_greedy(0.1)


def transition(
    obs: int, action: int, reward: float, next_obs: int, discount: float = 0.5, valid: bool = True
) -> Transition:
    i, f = jnp.int32, jnp.float32
    return Transition(i(obs), i(action), f(reward), f(discount), i(next_obs), jnp.bool_(False), jnp.bool_(valid))


def test_q_learning_by_hand() -> None:
    """q(0, 1) = 2 moves a quarter of the way to 1 + 0.5 max(4, 3) = 3."""
    agent = q_learning(linear(one_hot(2), outputs=2), epsilon_greedy(0.0))
    weights = jnp.array([[7.0, 2.0], [4.0, 3.0]])
    after = agent.learn(weights, Hypers(lr=0.25), transition(0, 1, 1.0, 1), make_key(0))
    np.testing.assert_array_equal(after, [[7.0, 2.25], [4.0, 3.0]])
    ended = agent.learn(weights, Hypers(lr=0.25), transition(0, 1, 1.0, 1, discount=0.0), make_key(0))
    np.testing.assert_array_equal(ended, [[7.0, 1.75], [4.0, 3.0]])
    waiting = agent.learn(weights, Hypers(lr=0.25), transition(0, 1, 1.0, 1, valid=False), make_key(0))
    np.testing.assert_array_equal(waiting, weights)


def test_pt_q_by_hand() -> None:
    """App. A with numbers: the best action of the sum, not of a part, is bootstrapped, and only what was done is consolidated.

    Q^P(1) = (4, 0) and Q^T(1) = (−3, 2): the parts prefer different actions, the sum is (1, 2).
    """
    agent = pt_q(linear(one_hot(2), outputs=2), epsilon_greedy(0.0), np.int16(0), buffer=8)
    hypers = Hypers(permanent_lr=0.5, transient_lr=0.25, decay=0.5)
    state = agent.init(make_key(0), hypers)._replace(
        permanent=jnp.array([[0.0, 1.0], [4.0, 0.0]]), transient=jnp.array([[0.0, 0.0], [-3.0, 2.0]])
    )
    state = agent.learn(state, hypers, transition(0, 1, 1.0, 1), make_key(0))
    # δ = 1 + 0.5 · 2 − (1 + 0) = 1
    np.testing.assert_array_equal(state.transient, [[0.0, 0.25], [-3.0, 2.0]])
    np.testing.assert_array_equal(state.permanent, [[0.0, 1.0], [4.0, 0.0]])
    after = agent.consolidate(state, hypers, make_key(0), True)
    # only (0, 1) was visited: 1 + 0.5 · (1.25 − 1)
    np.testing.assert_array_equal(after.permanent, [[0.0, 1.125], [4.0, 0.0]])
    np.testing.assert_array_equal(after.transient, [[0.0, 0.125], [-1.5, 1.0]])
    assert int(size(after.visited)) == 0


@pytest.mark.parametrize("lr", [0.0, 0.01, 0.3, 1.0, 1.5])
def test_counting_visits_is_the_pass_over_them(lr: float) -> None:
    """In a table, the closed form over counts equals the chronological pass over the visits themselves, for any step size."""
    rng = np.random.default_rng(0)
    by_count, by_list = pt_q(Q, GREEDY), pt_q(Q, GREEDY, np.int16(0), buffer=500)
    hypers = Hypers(permanent_lr=lr, transient_lr=0.3, decay=0.7)
    states = [agent.init(make_key(0), hypers) for agent in (by_count, by_list)]
    steps = [
        transition(
            int(rng.integers(6)), int(rng.integers(4)), rng.normal(), int(rng.integers(36)), valid=bool(rng.integers(5))
        )
        for _ in range(300)
    ]
    for agent, state in zip((by_count, by_list), range(2), strict=True):
        learn = jax.jit(lambda s, t, agent=agent: agent.learn(s, hypers, t, make_key(0)))
        for number, step in enumerate(steps):
            states[state] = learn(states[state], step)
            if number in (120, 299):
                states[state] = agent.consolidate(states[state], hypers, make_key(0), True)
    np.testing.assert_allclose(states[0].permanent, states[1].permanent, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(states[0].transient, states[1].transient, rtol=2e-4, atol=1e-5)
    assert not states[0].visited.any()


def test_only_a_table_can_do_without_a_buffer() -> None:
    with pytest.raises(UserError, match="only a table"):
        pt_q(linear(row_and_column(6), outputs=4), GREEDY)


def test_buffer_that_is_not_cleared_is_consolidated_again() -> None:
    agent = pt_q(linear(one_hot(2), outputs=2), epsilon_greedy(0.0), np.int16(0), buffer=2, clear=False)
    hypers = Hypers(permanent_lr=0.5, transient_lr=1.0, decay=1.0)
    state = agent.init(make_key(0), hypers)
    for action in (0, 1, 1):
        state = agent.learn(state, hypers, transition(0, action, 1.0, 1, discount=0.0), make_key(0))
    # the newest two samples are both (0, 1), where Q^T = 1: 0 → 0.5 → 0.75, then the target is 0.75 + 1
    once = agent.consolidate(state, hypers, make_key(0), True)
    np.testing.assert_array_equal(once.permanent[0], [0.0, 0.75])
    twice = agent.consolidate(once, hypers, make_key(0), True)
    np.testing.assert_array_equal(twice.permanent[0], [0.0, 1.5])  # 0.75 → 1.25 → 1.5
    assert int(agent.samples_dropped(twice)) == 0


def test_the_smallest_buffer_holds_the_last_visit() -> None:
    """Both pairs have Q^T = 1, and only the newest one is consolidated."""
    agent = pt_q(linear(one_hot(2), outputs=2), GREEDY, np.int16(0), buffer=1)
    hypers = Hypers(permanent_lr=0.5, transient_lr=1.0, decay=0.0)
    state = agent.init(make_key(0), hypers)
    for action in (0, 1):
        state = agent.learn(state, hypers, transition(0, action, 1.0, 1, discount=0.0), make_key(0))
    after = agent.consolidate(state, hypers, make_key(0), True)
    np.testing.assert_array_equal(after.permanent[0], [0.0, 0.5])
    assert int(agent.samples_dropped(after)) == 1
    with pytest.raises(UserError, match="at least one sample"):
        pt_q(linear(one_hot(2), outputs=2), GREEDY, np.int16(0), buffer=0)


def test_linear_features_serve_control_too() -> None:
    features: Features = row_and_column(6)
    agent = q_learning(linear(features, outputs=4), GREEDY)
    weights = agent.learn(
        agent.init(make_key(0), Hypers(lr=0.5)), Hypers(lr=0.5), transition(7, 2, 1.0, 8), make_key(0)
    )
    np.testing.assert_array_equal(
        weights.sum(axis=0), [0, 0, 1.0, 0]
    )  # half a step on the row's and the column's weight
