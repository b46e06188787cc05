"""`remanence theory`"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from remanence.core.errors import UserError
from remanence.report.terminal import print_json, print_rich


@dataclass(frozen=True)
class Theory:
    """Check every theorem of the paper on a Markov reward process, the paper's or yours, and print derived quantities.

    Below them are further statements about what a consolidation keeps, absorbs and forgets, which are not in the paper.
    """

    mrp: Path | None = None
    """a JSON or npz file with P, r (per task), gamma, and optionally p (task probabilities) and c (reward variance)"""
    markdown: bool = False
    """print Markdown instead of tables"""
    json: bool = False
    """print one JSON object on standard output"""

    def execute(self) -> None:
        from remanence.report.panels.theory import in_markdown, summary_table, theorem_table
        from remanence.theory import load_process
        from remanence.theory.checks import check_shares, check_theorems, summary
        from remanence.theory.task_diameter import task_diameter_process

        if self.markdown and self.json:
            raise UserError("--markdown and --json exclude each other")
        process = load_process(self.mrp) if self.mrp else task_diameter_process(1.0)
        checks, further, found = check_theorems(process), check_shares(process), summary(process)
        about = str(self.mrp or "the process of App. C.2, tasks at distance 1")
        if self.json:
            statements = {"theorems": checks, "further": further}
            answers = {kind: [check.to_json() for check in some] for kind, some in statements.items()}
            print_json({"process": about, **answers, "summary": found})
        elif self.markdown:
            print(in_markdown(about, [*checks, *further], found))
        else:
            print_rich(f"{about}: {process.num_states} states, {process.num_tasks} tasks, γ = {process.discount:g}")
            print_rich(theorem_table([*checks, *further]))
            print_rich(summary_table(found))
        failed = [check.theorem for check in (*checks, *further) if not check.holds]
        if failed:
            raise UserError(
                f"theorem {', '.join(failed)} does not hold on this process within rounding: see the remarks"
            )
