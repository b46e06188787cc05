"""What a built package holds: everything that the code reads at run time, and nothing else. `python tools/check_dist.py dist`"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_WHEEL = 25 * 2**20


def package_files() -> set[str]:
    """Every file of the package in the checkout, as the wheel names it."""
    source = ROOT / "src"
    found = (path for path in (source / "remanence").rglob("*") if path.is_file())
    return {
        path.relative_to(source).as_posix()
        for path in found
        if "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def mistakes(wheel: Path, sdist: Path) -> list[str]:
    """What is missing or too much in a wheel and an sdist."""
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    in_wheel = {name for name in names if not re.match(r"remanence-[^/]+\.dist-info/", name)}
    with tarfile.open(sdist) as opened:
        in_sdist = {name.partition("/")[2] for name in opened.getnames()}
    ours = package_files()
    found = [f"the wheel lacks {name}" for name in sorted(ours - in_wheel)]
    found += [f"the wheel has {name}, which the checkout has not" for name in sorted(in_wheel - ours)]
    wanted = {
        "README.md",
        "LICENSE",
        "CITATION.cff",
        "CHANGELOG.md",
        "pyproject.toml",
        *(f"src/{name}" for name in ours),
    }
    found += [f"the sdist lacks {name}" for name in sorted(wanted - in_sdist)]
    if wheel.stat().st_size > MAX_WHEEL:
        found.append(f"the wheel has {wheel.stat().st_size / 2**20:.1f} MB, more than {MAX_WHEEL / 2**20:.0f}")
    return found


def main(directory: str) -> int:
    (wheel,), (sdist,) = Path(directory).glob("*.whl"), Path(directory).glob("*.tar.gz")
    found = mistakes(wheel, sdist)
    for one in found:
        print(one)
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MB; {sdist.name}: {sdist.stat().st_size / 2**20:.1f} MB")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
