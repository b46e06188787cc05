"""`remanence theory` from outside."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from remanence.cli import main
from remanence.core.errors import UserError
from remanence.gym.policy import load_policy
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
    assert [one["theorem"] for one in answer["further"]] == [f"shares {n}" for n in range(1, 5)]
    assert all(one["holds"] for one in (*answer["theorems"], *answer["further"]))
    np.testing.assert_allclose(answer["summary"]["permanent_fixed_point"], common_values(load_process(file)))
    best = answer["summary"]["best_step_size_from_zero"]
    assert 0 < best["step_size"] < answer["summary"]["stability_limit"]
    assert best["mse_best_schedule"] <= best["mse"]

    file.write_text(json.dumps({"P": chain, "r": [[1.0, 0.0, 0.0]], "gamma": 2}))
    assert main(["theory", "--mrp", str(file)]) == 2
    assert "γ must be in [0, 1)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b"", "cannot be read as json"),
        ("a.json", b"[" * 100_000, "cannot be read as json"),
        ("a.json", b'{"P": [], "r": [], "gamma": 0.5}', "P must be a square matrix"),
        ("a.json", b'{"P": [[1]], "r": [[NaN]], "gamma": 0.5}', "r must hold finite numbers"),
        ("a.json", b'{"P": [[1]], "r": [[1]], "gamma": 1' + b"0" * 400 + b"}", "gamma must be a regular array"),
        ("a.json", b'{"P": [[1]], "r": [[1e308]], "gamma": 0.999}', "scale its rewards"),
        ("a.json", b'{"P": [["1"]], "r": [[1]], "gamma": 0.5}', "P must be a regular array of numbers"),
        ("a.json", b'{"P": [[1]], "r": [[1]], "gamma": 0.5, "gamma": 0.9}', "a name is given twice"),
        ("a.npz", b"", "cannot be read as npz"),
        ("a.npz", {"P": np.array([[1j]]), "r": np.ones((1, 1)), "gamma": 0.5}, "P must be a regular array of numbers"),
        ("a.npz", {"P": np.eye(1), "r": np.zeros((0, 1)), "gamma": 0.5}, "at least one task"),
        ("a.npz", {"P": np.eye(3000), "r": np.zeros((1, 3000)), "gamma": 0.5}, "give a smaller process"),
    ],
)
def test_a_file_that_is_no_process_is_one_sentence(
    name: str, content: bytes | dict, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        np.savez_compressed(tmp_path / name, **content)
    assert main(["theory", "--mrp", str(tmp_path / name)]) == 2
    assert says in capsys.readouterr().err


def test_a_header_without_an_end_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = b"{'descr': '<f8', 'shape': (2,\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("P.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert main(["theory", "--mrp", str(tmp_path / "a.npz")]) == 2
    assert "cannot be read as npz" in capsys.readouterr().err


def test_a_file_that_needs_gigabytes_is_refused_by_its_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes that say they hold 8 TB: nothing is loaded."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)})
    with zipfile.ZipFile(tmp_path / "large.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("P.npy", header.getvalue() + bytes(1000))
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("it was loaded"))
    assert main(["theory", "--mrp", str(tmp_path / "large.npz")]) == 2
    assert "its arrays need 7,450.6 GB, more than 0.2 GB" in capsys.readouterr().err
    with pytest.raises(UserError, match="is too large: its arrays need"):
        load_policy(tmp_path / "large.npz")
