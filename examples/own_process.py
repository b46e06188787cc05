"""Your own Markov reward process: exact theory of TD and PT-TD for it, without a simulation.

    python examples/own_process.py
    remanence theory --mrp process.json     # checks every theorem of the paper on it; this program writes the file

The states are three kinds of weather. In one task sunshine is rewarded, in the other rain; both tasks are equally likely.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from remanence.theory import (
    RewardProcess,
    best_step_size,
    common_values,
    learning_curve,
    stability_limit,
    state_values,
)

WEATHERS = ("sun", "clouds", "rain")
TRANSITIONS = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
REWARDS = np.array([[1.0, 0.2, 0.0], [0.4, 0.2, 1.0]])  # [tasks, states] on leaving a state


def main(to: Path = Path("process.json"), steps: int = 200) -> dict[str, float]:
    """E MSE of TD over the first steps of a new task, by its initial values."""
    process = RewardProcess(TRANSITIONS, REWARDS, discount=0.9, variance=0.1)
    values = np.array([state_values(TRANSITIONS, rewards, process.discount) for rewards in REWARDS])
    common = common_values(process)  # the fixed point of the permanent part: the mean over tasks
    print("                " + "".join(f"{weather:>8}" for weather in WEATHERS))
    for label, row in (("sun task", values[0]), ("rain task", values[1]), ("common", common)):
        print(f"{label:<16}" + "".join(f"{value:8.3f}" for value in row))

    print(f"TD is stable up to a step size of {stability_limit(process).min():.3f}")
    best = best_step_size(process, steps, start=common).step_size
    print(f"PT-TD's best transient step size over {steps} steps of a new task is {best:.3f}")
    starts = {"zero": np.zeros(3), "the sun task": values[0], "the permanent part": common}
    curves = learning_curve(process, best, steps, start=np.stack(list(starts.values()))).mse().mean(axis=0)
    for label, curve in zip(starts, curves, strict=True):
        print(
            f"TD from {label}: squared error {curve[0]:.3f} at first, {curve[-1]:.3f} at last, {curve.mean():.3f} on average"
        )
    to.write_text(json.dumps({"P": TRANSITIONS.tolist(), "r": REWARDS.tolist(), "gamma": 0.9, "c": 0.1}))
    return dict(zip(starts, curves.mean(axis=1).tolist(), strict=True))


if __name__ == "__main__":
    main()
