"""`remanence theory` from outside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from remanence.cli import main
from remanence.theory import common_values, load_process


def test_theory_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All ten theorems hold on a user's process; JSON and Markdown carry them."""
    file = tmp_path / "mrp.json"
    rng = np.random.default_rng(5)
    chain = rng.dirichlet(np.ones(3), size=3).tolist()
    file.write_text(json.dumps({"P": chain, "r": rng.normal(size=(2, 3)).tolist(), "gamma": 0.6, "c": 0.1}))
    assert main(["theory", "--mrp", str(file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["theorem"] for one in answer["theorems"]] == [str(n) for n in range(1, 11)]
    assert all(one["holds"] for one in answer["theorems"])
    np.testing.assert_allclose(answer["summary"]["permanent_fixed_point"], common_values(load_process(file)))
    best = answer["summary"]["best_step_size_from_zero"]
    assert 0 < best["step_size"] < answer["summary"]["stability_limit"]
    assert best["mse_best_schedule"] <= best["mse"]

    file.write_text(json.dumps({"P": chain, "r": [[1.0, 0.0, 0.0]], "gamma": 2}))
    assert main(["theory", "--mrp", str(file)]) == 2
    assert "γ must be in [0, 1)" in capsys.readouterr().err
