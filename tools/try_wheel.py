"""Tries the installed package, away from the checkout: commands, the archive, and `remanence.live`.

`make dist` runs it with the Python of an environment that has the wheel only. It writes into the current directory.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

LIVE = """
import gymnasium
import remanence


def gravity(env, value):
    env.unwrapped.gravity = value


growing = remanence.Drift(gravity, start=9.8, end=30.0, steps=300)
results = remanence.live(["PT-DQN", "DQN"], lambda: gymnasium.make("CartPole-v1"), growing, seeds=2)
results.plot().save("cartpole.svg")
results.policy("PT-DQN").save("pt.npz")
action = remanence.load_policy("pt.npz").act([0.0, 0.0, 0.0, 0.0])
assert action in (0, 1), action
assert gymnasium.make("remanence/SlipperyGrid-v0").reset(seed=1)[0].shape is not None
"""

STEPS: list[tuple[str, list[str], str]] = [
    # what, arguments, a file that must be there afterwards
    ("--help", ["-m", "remanence", "--help"], ""),
    ("list", ["-m", "remanence", "list"], ""),
    ("run", ["-m", "remanence", "run", "figure2/tabular", "--preset", "smoke"], "runs/figure2/tabular"),
    ("show", ["-m", "remanence", "show", "figure2/tabular"], ""),
    ("report", ["-m", "remanence", "report", "--to", "own"], "own/index.html"),
    (
        "report --archive",
        ["-m", "remanence", "report", "figure3/tabular", "--archive", "--to", "all"],
        "all/index.html",
    ),
    ("live", ["-c", LIVE], "cartpole.svg"),
]


def main() -> int:
    where = subprocess.run(
        [sys.executable, "-c", "import remanence; print(remanence.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if not Path(where).is_relative_to(sys.prefix):
        print(f"this tries {where}, which is not in the environment {sys.prefix}")
        return 1
    for what, arguments, made in STEPS:
        started = time.monotonic()
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
        if done.returncode or (made and not Path(made).exists()):
            print(f"{what} failed with code {done.returncode}:\n{done.stdout}\n{done.stderr}")
            return 1
        print(f"{what}: fine, {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
