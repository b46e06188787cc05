"""Calls that can only be mistakes: of the command line, and of `remanence.live`. Each must be refused with one sentence."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import remanence
from remanence import DQN, PTDQN, PTQ, Drift, Episodes, Q, Stationary, Switches
from scripted import Corridor, Script, quiet, set_parameter

EXPERIMENTS = ("figure2/tabular", "figure3/tabular", "figure4")
WORDS = (
    "nosuch",
    "",
    "é☃",
    "figure9",
    "figure2 tabular",
    "../x",
    "--",
    "-q",
    "</script>",
    "$(touch x)",
    "a" * 500,
    "０",
)
NO_INTEGERS = ("", "x", "1.5", "nan", "1e3", "0x10", "1 2", "1,2", "[]", "true", "é", "--", "+-1")
TOO_SMALL = ("0", "-1", "-3", "-99999999999999999999")
COUNTS = ("--seeds", "--segments", "--segment-length", "--jobs", "--lanes-per-group", "--cores-per-group")
CHANGES = (
    *(
        "lr=0.1",
        "lr",
        "=",
        "",
        ".=",
        "XX.lr=1",
        "TD.nosuch=1",
        "Q.nosuch=1",
        "TD.lr=x",
        "Q.lr=x",
        "TD.lr=nan",
        "Q.lr=-1",
    ),
    *("TD.lr=", "Q.lr=[", "TD.lr=1e400", "nosuch=3", "TD.lr=__import__('os')", "Q.epsilon=2", "Q.reset=perhaps"),
)
COMMANDS = ("list", "run", "sweep", "show", "report", "check", "clean", "theory", "bench")


def command_lines(rng: random.Random, count: int) -> list[tuple[str, ...]]:
    """So many different command lines, each with a mistake."""
    found: dict[tuple[str, ...], None] = {}
    while len(found) < count:
        found[tuple(_command_line(rng))] = None
    return list(found)


def _command_line(rng: random.Random) -> list[str]:
    run = [rng.choice(("run", "run", "sweep")), rng.choice(EXPERIMENTS)]
    count = rng.choice([one for one in COUNTS if run[0] == "run" or not one.startswith("--segment")])
    match rng.randrange(12):
        case 0:
            return [_misspelt(rng.choice(COMMANDS), rng), *run[1:]]
        case 1:
            return [run[0], rng.choice((_misspelt(run[1], rng), *WORDS, "figure2", "appendix", "figure2/"))]
        case 2:
            return [*run, "--" + rng.choice(("nosuch", "sedes", "see_ds", "out-dir", "é", "n_seeds", "version"))]
        case 3:
            return [*run, count, rng.choice(NO_INTEGERS)]
        case 4:
            return [*run, f"{count}={rng.choice((*NO_INTEGERS, *TOO_SMALL))}"]
        case 5:
            return [*run, count, rng.choice(TOO_SMALL)]
        case 6:
            return [*run, rng.choice((count, "--preset", "--out", "--learner", "--on", "--checkpoint-every"))]
        case 7:
            return [*run, {"run": "--set", "sweep": "--grid"}[run[0]], rng.choice(CHANGES)]
        case 8:
            option = rng.choice(("--preset", "--learner", "--on", "--contenders", "--reuse"))
            return [*run, option, rng.choice(("nosuch", "é", "smok", "ry", "nativ", "None of them", " "))]
        case 9:
            return [*run, rng.choice(WORDS)]
        case 10:
            return [rng.choice(("show", "report", "bench")), rng.choice((*WORDS, "/dev/null", "figure2/tabula"))]
        case _:
            ended = rng.choice(
                (["theory", "--mrp"], ["theory", "--markdown", "--json"], ["list", "all"], ["bench", "a", "b"])
            )
            return [*ended, *rng.choice(([], ["nosuch.json"], ["--json"]))] if ended[-1] != "--json" else ended


def _misspelt(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word))
    return rng.choice((word[:at] + word[at + 1 :], word[:at] + "x" + word[at:], word.upper(), word + rng.choice("sx/")))


class Wrong(Corridor):
    """A corridor of which one method answers wrongly."""

    def __init__(self, method: str, answer: Any) -> None:
        super().__init__()
        setattr(self, method, answer if method.endswith("space") else lambda *_, **__: answer)


class Wind(gymnasium.Env):
    """An environment with a parameter, inside of wrappers."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)
    wind = 0.0

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[int, dict]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        return action, self.wind, False, False, {}


def on_the_wrapper(env: Any, value: float) -> None:
    env.wind = value


NOT_INTEGERS: tuple[Any, ...] = ("1", 1.5, True, None, float("nan"), [], "x", 1j, object(), b"1")
SMALL: tuple[Any, ...] = (0, -1, -(10**9))
VALUES: dict[str, tuple[Any, ...]] = {
    "agents": ("nosuch", "DQN-rest", [], {}, 3, object(), ["Q", "Q"], [None], DQN, (1, 2), "", "pt-dqm"),
    "env": ("NoSuchEnv-v0", 3, None, object(), [], lambda: None, lambda: 1 / 0, lambda: object(), "", [Corridor, 3]),
    "stream": (*SMALL, *NOT_INTEGERS, 2**40, Switches(every=5), "20", (20,)),
    "seeds": ("1", 1.5, True, [1.5], [], [1, 1], [-1], [2**32], 0, -1, 10**9, {"a": 1}, float("inf")),
    "window": ("1", 1.5, True, 0, -1, 21, 10**9, float("nan"), [5]),
    "discount": ("0.9", None, -0.1, 1.1, float("nan"), 1j, [0.9]),
    "adapter": (3, "x", lambda _: None, lambda _: 1 / 0),
}
FIELDS: dict[str, tuple[Any, ...]] = {
    "lr": ("0.1", "x", -1.0, float("nan"), None, 1j, 10**400),
    "epsilon": ("0.1", -0.1, 1.1, None, [0.1]),
    "hidden": ("ab", (0,), (1.5,), 3, (-1,)),
    "replay": (0, -1, "5", 1.5, 10**12),
    "batch": (0, -1, "5", 1.5),
    "consolidate_every": (0, -1, "5", 1.5),
    "decay": ("0.5", -0.1, 1.1, float("nan")),
    "transient_lr": ("0.1", -1.0, float("nan")),
}


def live_calls(rng: random.Random, count: int) -> list[tuple[str, Callable[[], Any]]]:
    """So many different calls, each with a mistake that is found before anything is compiled."""
    known = list(_all_live_calls())
    return rng.sample(known, count)


def _all_live_calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    usual: dict[str, Any] = {"agents": "Q", "env": Corridor, "stream": 20}
    for name, values in VALUES.items():
        for value in values:
            yield f"{name}={value!r:.60}", lambda name=name, value=value: quiet(**{**usual, name: value})
    for kind in (Q, PTQ, DQN, PTDQN):
        having = {field.name for field in dataclasses.fields(kind)}
        for name, values in FIELDS.items():
            for value in values if name in having else ():
                made = f"{kind.__name__}({name}={value!r:.60})"
                yield made, lambda kind=kind, name=name, value=value: quiet(kind(**{name: value}), Script, 20)
    for method, answer in (
        *(("reset", one) for one in (0, None, (3,), (3, 3), (99, {}), (float("nan"), {}))),
        *(("step", one) for one in (None, (3, 0.0, False, {}), (3, "1", False, False, {}), (3, 0.0, 0, False, {}))),
        *(("step", (obs, 0.0, False, False, {})) for obs in (-1, 99, "3", np.zeros(2))),
        *(("step", (3, reward, False, False, {})) for reward in (None, float("nan"), 1j, [1.0])),
        *(("observation_space", one) for one in (None, spaces.Text(3), spaces.Discrete(2, start=9))),
        *(("action_space", one) for one in (None, spaces.Box(0, 1, (2,)), spaces.MultiDiscrete([2, 2]))),
    ):
        yield (
            f"{method} {answer!r:.60}",
            lambda method=method, answer=answer: quiet("Q", lambda: Wrong(method, answer), 20),
        )
    for label, make in {
        "steps and episodes": lambda: Stationary(steps=3, episodes=3),
        "neither": lambda: Stationary(),
        "no function": lambda: Drift(3, 0.0, 1.0, steps=9),  # type: ignore[arg-type]
        "drift to nowhere": lambda: Drift(set_parameter, 0.0, float("nan"), steps=9),
        "values without change": lambda: Switches(values=[1, 2]),
        "change without values": lambda: Switches(set_parameter),
        "an order of strangers": lambda: Switches(set_parameter, [1, 2], order=[0, 7]),
        "an unknown order": lambda: Switches(set_parameter, [1, 2], order="cylic"),
        "no segments": lambda: Switches(set_parameter, [1, 2], segments=0),
        "zero episodes": lambda: Switches(set_parameter, [1, 2], every=Episodes(0)),
        "a change that fails": lambda: Switches(lambda *_: 1 / 0, [1, 2], every=5),  # type: ignore[arg-type]
    }.items():
        yield label, lambda make=make: quiet("Random", Script, make())
    switches = Switches(on_the_wrapper, [0.0, 1.0], every=5)
    wrapped = lambda: gymnasium.wrappers.TimeLimit(Wind(), 5)  # noqa: E731
    yield "a parameter of the wrapper", lambda: quiet("Q", wrapped, switches)
    yield "DQN-reset without boundaries", lambda: quiet("DQN-reset", Script, Switches(set_parameter, [1, 2], every=5))
    yield "PT-Q without boundaries", lambda: quiet(PTQ(consolidate_every=None), Corridor, 20)
    yield "two vectors", lambda: quiet("Q", [Corridor, Script], Switches(every=5))
    yield "a policy of nobody", lambda: remanence.load_policy("nosuch.npz")
    yield "results of nobody", lambda: remanence.load_results("nosuch")
