"""`remanence check` and `remanence clean`: the files of runs"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from remanence.core.errors import UserError
from remanence.report.terminal import print_json, print_rich


@dataclass(frozen=True)
class Check:
    """Verify that all files of runs are as they were written; exit code 2 if one is not."""

    runs: Positional[tuple[Path, ...]] = ()
    """directories of runs; default: all below --out"""
    out: Path = Path("runs")
    """directory of all runs"""
    json: bool = False
    """print JSON instead of lines"""

    def execute(self) -> None:
        from rich.markup import escape

        from remanence.runs.checking import check_run, find_all

        checked = [check_run(run) for run in self.runs or find_all(self.out)]
        if not checked:
            raise UserError(f"no run in '{self.out}'")
        if self.json:
            print_json([one.to_json() for one in checked])
        for one in () if self.json else checked:
            found = (
                "damaged" if one.problems else f"{one.files} files as they were written" if one.files else "readable"
            )
            print_rich(escape(f"{one.run}: {found}"))
            for line in (*one.problems, *one.notices):
                print_rich(escape(f"  {line}"))
        if damaged := sum(bool(one.problems) for one in checked):
            raise UserError(f"{damaged} of {len(checked)} runs are damaged")


@dataclass(frozen=True)
class Clean:
    """Remove the results that --restart moved aside, and half-written files of killed processes."""

    runs: Positional[tuple[Path, ...]] = ()
    """directories of runs; default: all below --out"""
    out: Path = Path("runs")
    """directory of all runs"""

    def execute(self) -> None:
        from rich.markup import escape

        from remanence.results.aside import OLD, remove_aside
        from remanence.results.directory import Directory
        from remanence.runs.checking import find_all, find_aside

        files = size_of_all = 0
        for run in self.runs or sorted({*find_all(self.out), *find_aside(self.out)}):
            if not (run / "description.json").is_file() and not (run / OLD).is_dir():
                raise UserError(f"'{run}' is not a run: it has no description.json")
            with Directory(run).writing():
                removed = remove_aside(run)
            files, size_of_all = files + removed.files, size_of_all + removed.bytes
            for path in removed.kept:
                print_rich(escape(f"left alone, not a file of a run: {path}"))
        print_rich(f"{files} files removed, {size_of_all / 2**20:,.1f} MiB")
