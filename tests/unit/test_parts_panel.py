"""What the report draws of the two parts of PT agents."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from remanence.report.panels.parts import parts_panel
from remanence.results.archive import ARCHIVE
from remanence.results.store import Results, load


def archived() -> Results:
    (path,) = (ARCHIVE / "study" / "permanent" / "jellybean").iterdir()
    return load(path)


def titles(results: Results) -> list[str]:
    panel = parts_panel(results)
    assert panel is not None
    return [one["title"]["text"] for one in panel.to_dict()["vconcat"]]


def test_every_measure_of_the_parts_has_a_chart() -> None:
    results = archived()
    five = titles(results)
    assert len(five) == 5
    mean = results.curves.filter(pl.col("metric") == "permanent_size").with_columns(metric=pl.lit("rmsve_permanent"))
    with_truth = replace(results, curves=pl.concat([results.curves, mean]))
    assert titles(with_truth) == [*five, "Distance of V^P from the mean value of the tasks"]


def test_runs_that_did_not_record_them_have_none() -> None:
    results = archived()
    assert parts_panel(replace(results, curves=results.curves.filter(pl.col("metric") != "absorbed"))) is None
