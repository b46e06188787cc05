"""The return of each contender in each of several games played in sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remanence.core.lazy import alt
from remanence.metrics import metric
from remanence.report.data import inline
from remanence.report.figures import colour_scale, seeds_and_bands
from remanence.results.statistics import band as student_band
from remanence.results.store import Results

LAST_SHARE = 0.2  # of a segment, averaged


def returns_per_game(results: Results, games: Sequence[str], game: str) -> alt.TopLevelMixin:
    """A panel per game: the mean return of each contender at the end of the segments of this game.

    Args:
        game: the curve that holds the number of the current game.
    """
    rows = []
    for name in results.contenders:
        episodes = results.matrix(name, "episodes")
        brought = _ends_of_segments(episodes * results.matrix(name, "return"), results.segment_length)
        ended = _ends_of_segments(episodes, results.segment_length)
        live = results.matrix(name, game)[:, results.segment_length - 1 :: results.segment_length].astype(int)
        for number, title in enumerate(games):
            mine = (live == number) & (ended > 0)  # without a finished episode there is no return
            seeds = mine.any(axis=1)
            if not seeds.any():
                continue
            returns = np.where(mine, brought / np.maximum(ended, 1), 0.0)
            per_seed = returns.sum(axis=1)[seeds] / mine.sum(axis=1)[seeds]
            mean, low, high = map(float, student_band(per_seed, metric("return").bounds))
            rows.append(
                {
                    "game": title.replace("_", " "),
                    "agent": name,
                    "return": mean,
                    "low": low,
                    "high": high,
                    "seeds": int(seeds.sum()),
                }
            )
    names = results.contenders
    base = alt.Chart().encode(y=alt.Y("agent:N", sort=names, title=None))
    bars = base.mark_bar(height=14).encode(
        x=alt.X("return:Q", title=metric("return").label),
        color=alt.Color("agent:N", scale=colour_scale(names), legend=None),
        tooltip=["agent:N", "game:N", alt.Tooltip("return:Q", format=".2f"), "seeds:Q"],
    )
    whiskers = base.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    return (
        alt.layer(bars, whiskers, data=inline(rows))
        .properties(width=190, height=22 * max(len(names), 1))
        .facet(column=alt.Column("game:N", title=None))
        .resolve_scale(x="independent")
        .properties(
            title=alt.TitleParams(
                "Return in each game",
                subtitle=[f"last {LAST_SHARE:.0%} of the segments of each game; {seeds_and_bands(results)}"],
            )
        )
    )


def _ends_of_segments(curves: np.ndarray, length: int) -> np.ndarray:
    """[seeds, windows] -> [seeds, segments]: the sum over the last share of each segment."""
    last = max(1, round(length * LAST_SHARE))
    return curves.reshape(len(curves), -1, length)[:, :, -last:].sum(axis=2)
