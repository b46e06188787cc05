"""Contenders of one figure never share a color."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from remanence.experiments import REGISTRY
from remanence.report.figures import COLOURS, _dash_of_controls, colour_scale, colours

PLANS = [(name, preset) for name, experiment in REGISTRY.items() for preset in experiment.plans]
IN_ONE_FIGURE = 8  # more contenders are never drawn in one figure with one color each


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float64)


@pytest.mark.parametrize(("name", "preset"), PLANS)
def test_no_two_contenders_share_a_colour(name: str, preset: str) -> None:
    contenders = list(REGISTRY[name].plan(preset).contenders)
    found = colours(contenders)
    assert list(found) == contenders
    assert len(set(found.values())) == len(contenders)
    if len(contenders) <= IN_ONE_FIGURE:
        closest = (np.abs(rgb(a) - rgb(b)).max() for a, b in itertools.combinations(found.values(), 2))
        assert min(closest, default=255) >= 48, found


def test_a_family_has_its_colour_and_shades_of_it() -> None:
    assert colours(["PT-DQN", "DQN", "DQN-multihead", "Random"]) == {
        "PT-DQN": COLOURS["PT"],
        "DQN": COLOURS["plain"],
        "DQN-multihead": COLOURS["multihead"],
        "Random": COLOURS["Random"],
    }
    found = colours(["PT-DQN λ=0.55", "DQN", "PT-DQN λ=0.75", "DQN-2x", "PT-DQN λ=0.95"])
    assert found["DQN"] == COLOURS["plain"]
    assert rgb(found["DQN-2x"]).sum() < rgb(found["DQN"]).sum()
    light, middle, dark = (rgb(found[f"PT-DQN λ={decay}"]).sum() for decay in ("0.55", "0.75", "0.95"))
    assert light > middle > dark


def test_a_control_is_a_lighter_shade_of_its_agent_and_dashed() -> None:
    names = ["PT-Q", "PT-Q without consolidation", "PT-DQN", "PT-DQN without consolidation"]
    found = colours(names)
    assert found["PT-Q"] == COLOURS["PT"]
    for agent in ("PT-Q", "PT-DQN"):
        assert (rgb(found[f"{agent} without consolidation"]) > rgb(found[agent])).all()
    drawn = _dash_of_controls(names).to_dict()
    assert isinstance(drawn, dict)
    assert drawn["scale"]["range"] == [[1, 0], [5, 2], [1, 0], [5, 2]]


def test_a_scale_has_the_colour_of_each_contender_at_its_place() -> None:
    names = ["DQN", "PT-DQN", "DQN-2x"]
    scale = colour_scale(names).to_dict()
    assert scale["domain"] == names
    assert scale["range"] == [colours(names)[name] for name in names]
