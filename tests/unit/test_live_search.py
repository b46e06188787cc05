"""What a sweep of `live` searches: numbers, and values of any other kind."""

from __future__ import annotations

import polars as pl
import pytest

import remanence
from remanence import DQN, Search
from remanence.core.errors import UserError
from remanence.live_env.search import by_agent, searched_agents, spoken
from remanence.runs.jobs import settings
from remanence.runs.sweep import best_settings

SEARCH = Search("DQN", lr=[0.1, 0.2], hidden=[(32,), (64, 64)], double=[True, False])


def test_values_that_are_no_numbers_are_variants() -> None:
    (found,) = searched_agents(SEARCH, False)
    contenders = found.contenders()
    assert list(contenders) == [
        f"DQN hidden={hidden} double={double}" for hidden in ("(32,)", "(64, 64)") for double in (True, False)
    ]
    configs = [config for one in contenders.values() for config in settings(one)]
    assert [(one.hidden, one.double, one.lr) for one in configs] == [  # type: ignore[attr-defined]
        (hidden, double, lr) for hidden in ((32,), (64, 64)) for double in (True, False) for lr in (0.1, 0.2)
    ]


def test_numbers_alone_need_no_variants() -> None:
    found = {one.name: one for one in searched_agents({"A": Search("DQN", lr=[0.1], batch=[32, 64]), "B": "Q"}, False)}
    assert {name: list(one.contenders()) for name, one in found.items()} == {"A": ["A"], "B": ["B"]}
    assert found["A"].contenders()["A"].search == {"lr": (0.1,), "batch": (32, 64)}
    assert found["A"].chosen({"lr": 0.1, "batch": 64.0}) == DQN(lr=0.1, batch=64)


def test_the_table_names_agents_and_values_and_the_best_one_is_found() -> None:
    (found,) = searched_agents(SEARCH, False)
    rows = [
        {"lane": 0, "contender": name, "seed": seed, "lr": lr, "auc_return": float(number), "diverged": False}
        for number, (name, lr) in enumerate((name, lr) for name in found.variants() for lr in (0.1, 0.2))
        for seed in (1, 2)
    ]
    table = by_agent(pl.DataFrame(rows), [found])
    assert {"hidden", "double"} < set(table.columns)
    assert set(table["contender"]) == {"DQN"}
    best = best_settings(table, "return")["DQN"]
    assert found.values(best) == {"lr": 0.2, "hidden": (64, 64), "double": False}
    assert found.variant(best) == ("DQN hidden=(64, 64) double=False", {"lr": 0.2})
    assert found.chosen(best) == DQN(lr=0.2, hidden=(64, 64), double=False)
    assert spoken(found.values(best)) == "lr=0.2, hidden=(64, 64), double=False"


def test_a_field_has_names_for_all_agents_or_for_none() -> None:
    """Else a column of the table would hold both."""
    agents = {"A": Search("DQN", target_every=[100, None]), "B": Search("DQN", target_every=[100, 200])}
    a, b = searched_agents(agents, False)
    assert list(a.contenders()) == ["A target_every=100", "A target_every=None"]
    assert list(b.contenders()) == ["B target_every=100", "B target_every=200"]
    assert b.chosen({"target_every": "200"}) == DQN(target_every=200)


def test_numbers_where_the_agent_has_none() -> None:
    (found,) = searched_agents(Search("DQN", dueling=[16, 32]), False)
    assert found.chosen({"dueling": 32.0}) == DQN(dueling=32)


def test_equal_values_count_once_and_functions_are_told_apart() -> None:
    def first(errors):  # type: ignore[no-untyped-def]
        return errors**2

    second = lambda errors: errors**4  # noqa: E731
    third = lambda errors: errors**6  # noqa: E731
    (found,) = searched_agents(Search("DQN", loss=["huber", "huber", first, second, third]), False)
    assert len(found.contenders()) == 4
    assert list(found.others["loss"].values()) == ["huber", first, second, third]


@pytest.mark.parametrize(
    ("search", "says"),
    [
        (Search("DQN", hidden=[(32,), "x"]), "DQN: hidden must be a tuple of int; got 'x'"),
        (Search("DQN", optimiser=["adam"]), "unknown field of DQN 'optimiser': did you mean 'optimizer'"),
        (Search("DQN", double=[1]), "DQN: double must be bool; got 1"),
        (Search("Q", lr=[0.1, -1.0]), "Q: lr must be"),
    ],
)
def test_every_value_is_checked_before_anything_runs(search: Search, says: str) -> None:
    with pytest.raises(UserError, match=says):
        [one.contenders() for one in searched_agents(search, False)]


def test_consolidation_intervals() -> None:
    (found,) = searched_agents(Search("PT-DQN", consolidate_every=[500, remanence.Episodes(3)]), False)
    assert list(found.others["consolidate_every"]) == ["500", "Episodes(count=3, lead=0)"]
