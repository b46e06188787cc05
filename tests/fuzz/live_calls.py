"""Mutated calls of `remanence.live`: a `UserError`, or results that are what was asked."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

import remanence
from fuzz.harness import ACCEPTED, SECONDS, Answer, Hangs, Tally, attempt
from remanence import DQN, PTDQN, PTQ, PTTD, TD, Drift, Episodes, Q, Stationary, Steps, Switches
from remanence.live_env import LiveResults
from scripted import Corridor, Script, set_parameter

STEPS = 20
# A stream of a billion steps is a long run, not a mistake: `live` takes it, and it is stopped here as Ctrl-C would stop it.
LONG, SECONDS_OF_LONG = 10**6, 20
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        3,
        4,
        5,
        1.5,
        0.5,
        0.25,
        0.1,
        float("nan"),
        float("inf"),
        10**9,
        2**40,
        10**400,
        1j,
    ),
    *(
        "",
        "x",
        "1",
        "0.9",
        "cyclic",
        "é☃",
        "\x1b[31m",
        b"1",
        [],
        [1],
        [0, 0],
        (1, 2),
        ["a"],
        [float("nan")],
        {},
        {"a": 1},
    ),
    *(
        np.array([1, 2]),
        np.array(1.0),
        np.float32(0.5),
        np.int64(3),
        object(),
        len,
        lambda: None,
        int,
        range(3),
        {1, 2},
    ),
)
SPACES: tuple[Any, ...] = (
    *(
        None,
        "x",
        spaces.Discrete(1),
        spaces.Discrete(3, start=-5),
        spaces.Box(0.0, 1.0, (0,)),
        spaces.Box(0.0, 1.0, ()),
    ),
    *(spaces.Box(0.0, 1.0, (2, 2, 2, 2)), spaces.Box(-np.inf, np.inf, (3,)), spaces.Tuple((spaces.Discrete(2),))),
    *(spaces.Dict({"a": spaces.Discrete(2)}), spaces.Text(4), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)),
    *(spaces.Sequence(spaces.Discrete(2)), spaces.Discrete(2**40), spaces.Box(0, 255, (2000, 2000), np.uint8)),
)
KINDS = (Q, PTQ, DQN, PTDQN, TD, PTTD)


class Odd(Corridor):
    """A corridor of which one part is not as it should be."""

    def __init__(self, part: str, value: Any) -> None:
        super().__init__()
        self.part, self.value = part, value
        if part in ("observation_space", "action_space"):
            setattr(self, part, value)

    def reset(self, *, seed: int | None = None, **options: Any) -> Any:
        answer = super().reset(seed=seed, **options)
        return self.value if self.part == "reset" else (self.value, {}) if self.part == "first" else answer

    def step(self, action: int) -> Any:
        answer = super().step(action)
        if self.part == "step":
            return self.value
        places = {"obs": 0, "reward": 1, "terminated": 2, "truncated": 3, "info": 4}
        if self.part not in places:
            return answer
        place = places[self.part]
        return (*answer[:place], self.value, *answer[place + 1 :])


PARTS = ("reset", "first", "step", "obs", "reward", "terminated", "truncated", "info")


def fuzz(tries: int, rng: random.Random, place: Path) -> Tally:
    tally = Tally("calls of live", place / "canary")
    for number in range(tries):
        label, call, asked = _mutant(number, rng)
        is_long = any(isinstance(value, int) and value >= LONG for value in (asked["stream"], asked.get("odd")))
        answer = attempt(partial(_used, call, rng, place / f"saved{number}"), SECONDS_OF_LONG if is_long else SECONDS)
        if is_long and answer.value is Hangs:
            answer = Answer(ACCEPTED, "goes on")
        silent = _otherwise(answer.value, asked) if answer.kind == ACCEPTED and answer.value else ""
        tally.add(label, Answer(answer.kind, answer.said), silent)
    return tally


def _mutant(number: int, rng: random.Random) -> tuple[str, Callable[[], LiveResults], dict[str, Any]]:
    """A call with one part that is not as it should be: what it is, the call, and its plain arguments."""
    odd = rng.choice(ODD)
    asked: dict[str, Any] = {"agents": "Q", "env": Corridor, "stream": STEPS, "seeds": 1, "discount": 0.9}
    makers: dict[str, Callable[[], Any]] = {}
    match number % 6:
        case 0:
            name = rng.choice(("agents", "env", "stream", "seeds", "window", "discount", "adapter"))
            asked[name] = odd
            label = f"{name}={odd!r}"
        case 1 | 2:
            kind = rng.choice(KINDS)
            name = rng.choice([field.name for field in dataclasses.fields(kind)])
            makers["agents"] = lambda: kind(**{name: odd})
            if kind in (DQN, PTDQN):
                asked["env"] = lambda: Corridor("bits")
            label = f"{kind.__name__}({name}={odd!r})"
        case 3:
            part = rng.choice(PARTS)
            asked["env"] = lambda: Odd(part, odd)
            label = f"an environment with {part} {odd!r}"
        case 4:
            part, space = rng.choice(("observation_space", "action_space")), rng.choice(SPACES)
            asked["env"] = lambda: Odd(part, space)
            asked["agents"] = rng.choice(("Q", "DQN", "Random"))
            label = f"an environment with {part} {space!r} for {asked['agents']}"
        case _:
            label, makers["stream"] = _stream(odd, rng)
            asked["odd"] = odd
            asked["env"] = rng.choice((Script, Script, [Corridor, Corridor]))
            asked["agents"] = "Random"
    return label, lambda: _call({**asked, **{name: make() for name, make in makers.items()}}), asked


def _stream(odd: Any, rng: random.Random) -> tuple[str, Callable[[], Any]]:
    kind, options = rng.choice(
        (
            (Stationary, {"steps": STEPS}),
            (Stationary, {"episodes": 3}),
            (Drift, {"change": set_parameter, "start": 0.0, "end": 1.0, "steps": STEPS, "path": float}),
            (Switches, {"change": set_parameter, "values": [0.0, 1.0], "every": 5, "segments": 4, "order": "cyclic"}),
            (Switches, {"every": 5, "boundaries_known": True, "truncate_on_switch": True}),
            (Episodes, {"count": 3}),
            (Steps, {"count": 3}),
        )
    )
    name = rng.choice(list(options))
    return f"{kind.__name__}({name}={odd!r})", lambda: kind(**{**options, name: odd})


def _call(asked: dict[str, Any]) -> LiveResults:
    options = {name: value for name, value in asked.items() if name not in ("agents", "env", "stream", "odd")}
    return remanence.live(asked["agents"], asked["env"], asked["stream"], progress=False, **options)


def _used(call: Callable[[], LiveResults], rng: random.Random, place: Path) -> LiveResults:
    """What users do with results, now and then with an argument that cannot be meant."""
    results = call()
    contender = results.contenders[0]
    match rng.randrange(4):
        case 0:
            results.plot(rng.choice((None, "return", "nosuch", "", "é")), rng.choice((1, 2, 0, -1, 10**6)))
        case 1:
            results.policy(rng.choice((contender, "nosuch", "")), rng.choice((None, 0, -1, 10**9)))
        case 2:
            remanence.load_results(results.save(place)).policy(contender)
        case _:
            repr(results)
    return results


def _otherwise(results: LiveResults, asked: dict[str, Any]) -> str:
    """What was done other than asked, or a number that is none in a life that counts."""
    seeds = asked["seeds"]
    if isinstance(seeds, int) and len(results.seeds) != seeds:
        return f"{len(results.seeds)} seeds instead of {seeds}"
    if not isinstance(seeds, int) and seeds is not None and list(seeds) != results.seeds:
        return f"seeds {results.seeds} instead of {seeds}"
    if results.description["world"]["discount"] != asked["discount"]:
        return f"another discount than {asked['discount']}"
    for contender in results.contenders:
        for metric in results.metrics:
            attempted = attempt(lambda c=contender, m=metric: results.matrix(c, m))
            if attempted.kind != ACCEPTED:
                return f"{contender}, {metric}: {attempted.said}"
    return ""
