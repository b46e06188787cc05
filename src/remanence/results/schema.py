"""Curves as rows of a table."""

from __future__ import annotations

import numpy as np
import polars as pl


def curve_rows(lanes: np.ndarray, values: np.ndarray, metric: str) -> pl.DataFrame:
    """[lanes, windows] as one row per value; windows count from 1."""
    windows = np.arange(1, values.shape[1] + 1, dtype=np.int32)
    return pl.DataFrame(
        {
            "lane": np.repeat(lanes, len(windows)),
            "window": np.tile(windows, len(lanes)),
            "metric": metric,
            "value": values.ravel(),
        }
    )
