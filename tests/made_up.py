"""Results with made-up curves: what verdicts and figures say of them is known."""

from __future__ import annotations

import numpy as np
import polars as pl

from remanence.results.schema import curve_rows
from remanence.results.store import Results


def made_up_run(
    curves: dict[str, np.ndarray],
    metric: str = "rmsve_current",
    segment_length: dict[str, int] | None = None,
    window: int = 1,
    preset: str = "paper",
) -> Results:
    """Results with these curves, [seeds, windows] by contender."""
    length = segment_length or {"episodes": 50}
    windows = next(iter(curves.values())).shape[1]
    segments = windows * window // next(iter(length.values()))
    description = {
        "experiment": "toy",
        "preset": preset,
        "stream": {"order": [i % 4 for i in range(segments)], "segment_length": length},
        "window": window,
        "contenders": {name: {"hypers": {}} for name in curves},
        "seeds": list(range(len(next(iter(curves.values()))))),
    }
    return with_curves(description, {metric: curves})


def with_curves(description: dict, of_metric: dict[str, dict[str, np.ndarray]]) -> Results:
    names, seeds = list(description["contenders"]), description["seeds"]
    lanes = pl.DataFrame(
        {
            "lane": np.arange(len(names) * len(seeds), dtype=np.int32),
            "contender": np.repeat(names, len(seeds)),
            "seed": np.tile(np.array(seeds, np.int32), len(names)),
            "samples_dropped": 0,
            "diverged": False,
        }
    )
    rows = [
        curve_rows(lanes.filter(pl.col("contender") == name)["lane"].to_numpy(), values, metric)
        for metric, curves in of_metric.items()
        for name, values in curves.items()
    ]
    return Results(None, description, lanes, pl.concat(rows))


def scattered(mean: np.ndarray, scale: float, seeds: int = 30, noise_seed: int = 0) -> np.ndarray:
    """[seeds, windows] around a mean, the mean itself being exact."""
    noise = np.random.default_rng(noise_seed).normal(size=(seeds, len(mean)))
    return mean + scale * (noise - noise.mean(axis=0))


def made_up_sweep(aucs: dict[str, list[tuple[dict[str, float], list[float]]]]) -> Results:
    """A finished sweep: for each contender, its settings with the AUCs of their seeds."""
    rows = [
        {"lane": 0, "contender": name, "seed": seed, **hypers, "auc_reward_rate": value, "diverged": False}
        for name, settings in aucs.items()
        for hypers, values in settings
        for seed, value in enumerate(values)
    ]
    lanes = pl.DataFrame(rows, infer_schema_length=None).with_columns(lane=pl.int_range(pl.len()))
    search = {
        name: {key: sorted({hypers[key] for hypers, _ in settings}) for key in settings[0][0]}
        for name, settings in aucs.items()
    }
    seeds = list(range(len(next(iter(aucs.values()))[0][1])))
    description = {"experiment": "toy", "preset": "paper", "sweep": search, "contenders": search, "seeds": seeds}
    return Results(None, description, lanes, pl.DataFrame())
