"""Which task is live when."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remanence.errors import UserError
from remanence.streams import Stream, cyclic
from remanence.types import Episodes, Steps

TASKS = {"rewards": np.array([[0, 1], [2, 3], [4, 5]], np.float32), "slip": np.array([0.1, 0.2, 0.3], np.float32)}


def test_tasks_come_in_the_given_order_and_the_last_goes_on() -> None:
    stream = Stream(TASKS, (2, 0, 0, 1), Episodes(5), told=True)
    assert (stream.num_tasks, stream.segments) == (3, 4)
    assert [int(stream.task_id(jnp.int32(segment))) for segment in range(7)] == [2, 0, 0, 1, 1, 1, 1]


def test_task_is_one_row_of_every_leaf() -> None:
    """Compiled, so that a switch recompiles nothing."""
    stream = Stream(TASKS, (2, 0), Steps(5), told=False)
    task = jax.jit(stream.task)
    for segment, number in enumerate([2, 0, 0]):
        live = task(jnp.int32(segment))
        assert live["rewards"].tolist() == TASKS["rewards"][number].tolist()
        assert live["slip"] == TASKS["slip"][number]


@given(num_tasks=st.integers(1, 9), segments=st.integers(1, 40))
def test_cyclic_order(num_tasks: int, segments: int) -> None:
    order = cyclic(num_tasks, segments)
    assert len(order) == segments
    assert order[:num_tasks] == tuple(range(num_tasks))[:segments]
    assert all(later == earlier for earlier, later in zip(order, order[num_tasks:], strict=False))


@pytest.mark.parametrize(
    ("order", "span", "complaint"),
    [
        ((), Episodes(5), "at least one segment"),
        ((0, 1), Episodes(0), "at least one episode; got 0"),
        ((0, 1), Steps(-2), "at least one step; got -2"),
        ((0, 3), Episodes(5), "3 tasks cannot visit task 3"),
        ((0, -1), Episodes(5), "3 tasks cannot visit task"),
    ],
)
def test_impossible_streams_are_refused(order: tuple[int, ...], span: Episodes | Steps, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Stream(TASKS, order, span, told=True)
