"""What the package says of itself: versions, lower bounds, the data it takes along, and the commands its pages name."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import remanence

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def numbers(version: str) -> list[int]:
    """`1.0` and `1.0.0` are the same."""
    found = [int(part) for part in version.split(".")]
    return found + [0] * (3 - len(found))


def test_the_oldest_versions_that_are_tried_are_the_lower_bounds() -> None:
    """With the extras that the unit tests use."""
    extras = PROJECT["project"]["optional-dependencies"]
    needed = [*PROJECT["project"]["dependencies"], *extras["pandas"], *extras["plot"]]
    bounds = {name: bound for one in needed for name, bound in [one.split(">=")]}
    tried = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text("constraints-oldest.txt"), re.MULTILINE))
    assert tried.pop("jaxlib") == tried["jax"]
    assert tried.keys() == bounds.keys()
    assert {name: numbers(one) for name, one in tried.items()} == {name: numbers(one) for name, one in bounds.items()}


def test_the_pinned_versions_fit_the_bounds() -> None:
    pinned = {
        name.lower(): one for name, one in re.findall(r"^([\w-]+)==([\d.]+)", text("constraints.txt"), re.MULTILINE)
    }
    for one in PROJECT["project"]["dependencies"]:
        name, bound = one.split(">=")
        assert numbers(pinned[name].rstrip(".")) >= numbers(bound), name


def test_one_version_everywhere() -> None:
    assert f"\nversion: {remanence.__version__}\n" in text("CITATION.cff")
    assert f"\n## {remanence.__version__}\n" in text("CHANGELOG.md")


def test_all_data_of_the_package_is_declared() -> None:
    """Code is found by itself; each other file must match a pattern, or the wheel would lack it."""
    package = ROOT / "src" / "remanence"
    declared = {
        path for one in PROJECT["tool"]["setuptools"]["package-data"]["remanence"] for path in package.glob(one)
    }
    there = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert len(there) > 20
    assert there <= declared


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "README.md", ".github/workflows/ci.yml", ".github/workflows/release.yml"]
)
def test_targets_that_are_named_exist(page: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))
    named = {
        name
        for found in re.findall(r"(?:`|run: |^)make ((?:[a-z-]+ ?)+)", text(page), re.MULTILINE)
        for name in found.split()
    }
    named |= set(re.findall(r"target: ([\w-]+)", text(page)))
    assert named or page.endswith("ci.yml")
    assert named <= targets


def test_files_on_the_map_exist() -> None:
    table = text("CONTRIBUTING.md").partition("look in `src/remanence/`")[2].partition("\nImports")[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert len(named) > 15
    for name in named:
        assert (ROOT / "src" / "remanence" / name).exists(), name


def test_what_a_built_package_lacks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    import check_dist

    ours = sorted(check_dist.package_files())
    wheel, sdist = tmp_path / "remanence-1.whl", tmp_path / "remanence-1.tar.gz"
    top = ("README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "pyproject.toml")

    def build(in_wheel: list[str], in_sdist: list[str]) -> list[str]:
        with zipfile.ZipFile(wheel, "w") as opened:
            for name in (*in_wheel, "remanence-1.dist-info/METADATA"):
                opened.writestr(name, "")
        with tarfile.open(sdist, "w:gz") as opened:
            for name in in_sdist:
                opened.addfile(tarfile.TarInfo(f"remanence-1/{name}"))
        return check_dist.mistakes(wheel, sdist)

    assert build(ours, [*top, *(f"src/{name}" for name in ours)]) == []
    assert build([*ours[1:], "tests/test_x.py"], [*top[1:], *(f"src/{name}" for name in ours)]) == [
        f"the wheel lacks {ours[0]}",
        "the wheel has tests/test_x.py, which the checkout has not",
        "the sdist lacks README.md",
    ]
