"""Which task is live when."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import key_stub
from remanence.core.errors import UserError
from remanence.core.prng import make_key
from remanence.core.types import Episodes, Steps
from remanence.streams import Drift, OrderOfSeed, RandomOrder, Schedule, Stationary, Stream, Switches, cyclic

TASKS = {"rewards": np.array([[0, 1], [2, 3], [4, 5]], np.float32), "slip": np.array([0.1, 0.2, 0.3], np.float32)}


def test_tasks_come_in_the_given_order_and_the_last_goes_on() -> None:
    stream = Stream(TASKS, (2, 0, 0, 1), Episodes(5), boundaries_known=True)
    assert (stream.num_tasks, stream.segments) == (3, 4)
    assert [int(stream.task_id(jnp.int32(segment), key_stub())) for segment in range(7)] == [2, 0, 0, 1, 1, 1, 1]


def test_task_is_one_row_of_every_leaf() -> None:
    """Compiled, so that a switch recompiles nothing."""
    stream = Stream(TASKS, (2, 0), Steps(5), boundaries_known=False)
    task = jax.jit(stream.task)
    for segment, number in enumerate([2, 0, 0]):
        live = task(jnp.int32(segment), key_stub())
        assert live["rewards"].tolist() == TASKS["rewards"][number].tolist()
        assert live["slip"] == TASKS["slip"][number]


@given(num_tasks=st.integers(1, 9), segments=st.integers(1, 40))
def test_cyclic_order(num_tasks: int, segments: int) -> None:
    order = cyclic(num_tasks, segments)
    assert len(order) == segments
    assert order[:num_tasks] == tuple(range(num_tasks))[:segments]
    assert all(later == earlier for earlier, later in zip(order, order[num_tasks:], strict=False))


@pytest.mark.parametrize(
    ("order", "segment_length", "complaint"),
    [
        ((), Episodes(5), "at least one segment"),
        ((0, 1), Episodes(0), "at least one episode; got 0"),
        ((0, 1), Steps(-2), "at least one step; got -2"),
        ((0, 3), Episodes(5), "3 tasks cannot visit task 3"),
        ((0, -1), Episodes(5), "3 tasks cannot visit task"),
    ],
)
def test_impossible_streams_are_refused(
    order: tuple[int, ...], segment_length: Episodes | Steps, complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        Stream(TASKS, order, segment_length, boundaries_known=True)


def test_drawn_tasks_differ_between_lanes_and_are_uniform() -> None:
    """300 lanes of 40 segments: counts of three tasks within 4 standard deviations; the same lane always draws the same."""
    stream = Stream(TASKS, RandomOrder(40), Episodes(5), boundaries_known=True)
    assert stream.segments == 40
    draw = jax.jit(jax.vmap(lambda seed: jax.vmap(lambda n: stream.task_id(n, make_key(seed)))(jnp.arange(41))))
    orders = np.asarray(draw(jnp.arange(300)))
    np.testing.assert_array_equal(orders, draw(jnp.arange(300)))
    assert (orders[:, 40] == orders[:, 39]).all()  # the last one goes on
    assert len({tuple(order) for order in orders}) == 300
    counts = np.bincount(orders[:, :40].ravel(), minlength=3)
    np.testing.assert_allclose(counts, 4000, atol=4 * np.sqrt(12_000 * 2 / 9))
    assert 0.25 < (orders[:, 1:40] == orders[:, :39]).mean() < 0.42  # a switch may keep the task


def test_the_order_of_a_seed_may_be_given() -> None:
    """Seeds 3 and 1000 start over: 3 is 0, and 1000 is 1."""
    stream = Stream(TASKS, OrderOfSeed(((0, 1), (2, 0), (1, 1))), Episodes(5), boundaries_known=True)
    assert (stream.segments, stream.shared_order) == (2, [None, None])
    keys = {seed: stream.task_key(make_key(seed), key_stub()) for seed in (0, 1, 2, 3, 1000)}
    orders = {seed: [int(stream.task_id(jnp.int32(n), key)) for n in range(3)] for seed, key in keys.items()}
    assert orders == {0: [0, 1, 1], 1: [2, 0, 0], 2: [1, 1, 1], 3: [0, 1, 1], 1000: [2, 0, 0]}
    assert stream.shortened(1, 2).order == OrderOfSeed(((0,), (2,), (1,)))
    with pytest.raises(UserError, match="cannot visit task 3"):
        Stream(TASKS, OrderOfSeed(((0, 1), (2, 3))), Episodes(5), boundaries_known=True)
    with pytest.raises(UserError, match="the same number of segments"):
        Stream(TASKS, OrderOfSeed(((0, 1), (2,))), Episodes(5), boundaries_known=True)


def test_shortening_keeps_the_kind_of_order() -> None:
    assert Stream(TASKS, RandomOrder(40), Episodes(5), boundaries_known=True).shortened(3, 2).order == RandomOrder(3)
    short = Stream(TASKS, (2, 0, 1), Steps(5), boundaries_known=True).shortened(2, 4)
    assert (short.order, short.segment_length) == ((2, 0), Steps(4))
    assert Stream(TASKS, RandomOrder(2), Steps(5), boundaries_known=True).shared_order == [None, None]


def ignored(env: object, value: object) -> None:
    del env, value


SCHEDULES = {
    "stationary": Stationary(steps=6).schedule(["one"]),
    "drift": Drift(ignored, 0.0, 5.0, episodes=6).schedule(["one"]),
    "values": Switches(ignored, ["a", "b"], every=2, order=[1, 0, 1]).schedule(["one"]),
    "environments": Switches(every=Episodes(2), segments=5).schedule(["one", "two"]),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_schedule_and_its_stream_have_the_same_task_at_all_times(schedule: Schedule) -> None:
    """The environment's side asks the schedule, the engine asks the stream."""
    stream = schedule.stream
    for time in range(schedule.duration + 5):  # the last task goes on
        segment = jnp.int32(time // stream.segment_length.count)
        assert schedule.task(time) == stream.task_id(segment, key_stub()) == stream.task(segment, key_stub())


def test_what_schedules_do_to_an_environment() -> None:
    steady, drift, values, environments = SCHEDULES.values()
    assert [steady.value(time) for time in (0, 9)] == [None, None]
    assert (steady.change, steady.names, steady.duration, steady.by_steps) == (None, ("one",), 6, True)
    assert [drift.value(time) for time in range(7)] == [0, 1, 2, 3, 4, 5, 5]
    assert (drift.change, drift.by_steps) == (ignored, False)
    assert [values.value(time) for time in range(8)] == ["b", "b", "a", "a", "b", "b", "b", "b"]
    assert (values.names, values.environments, values.truncate_on_switch) == (("a", "b"), False, False)
    assert [environments.task(time) for time in range(10)] == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]
    assert (environments.environments, environments.truncate_on_switch) == (True, True)
    assert not environments.stream.truncate_on_switch  # only the environment can begin another episode


def test_an_order_drawn_by_lanes_is_nobody_elses() -> None:
    with pytest.raises(TypeError, match="has its own"):
        Stream(TASKS, RandomOrder(3), Steps(5), boundaries_known=True).task_at(0)
