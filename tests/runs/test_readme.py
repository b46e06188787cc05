"""What the README shows is true."""

from __future__ import annotations

import re
from pathlib import Path

from remanence.experiments import REGISTRY

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_every_experiment_has_its_row() -> None:
    for name in REGISTRY:
        assert name in README or f"`-{name.rpartition('-')[2]}`" in README, name


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).parents[2] / target).exists(), target
