"""What the README and the page of all experiments show is true."""

from __future__ import annotations

import re
from pathlib import Path

import remanence
from remanence.experiments import REGISTRY

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXPERIMENTS = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


def test_every_experiment_has_its_row() -> None:
    for name in REGISTRY:
        assert name in EXPERIMENTS or f"`-{name.rpartition('-')[2]}`" in EXPERIMENTS, name


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_public_name_is_in_the_reference() -> None:
    table = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\[`(\w+)`\]\[remanence\.", table)) == set(remanence.__all__)
