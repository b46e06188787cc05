"""Every experiment by its name. A new module of experiments is listed here."""

from __future__ import annotations

from pathlib import Path

from remanence.core.errors import UserError, unknown
from remanence.experiments import (
    appendix_sensitivity,
    appendix_task_diameter,
    appendix_values,
    benchmark_minatar,
    figure2,
    figure2_deep,
    figure3,
    figure3_rooms,
    figure4,
    figure5_jellybean,
    figure5_minatar,
    study_half_life,
    study_lifetime,
    study_lifetime_exact,
    study_permanent,
)
from remanence.experiments.base import Experiment
from remanence.experiments.from_file import is_file, load_file

REGISTRY: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (
        figure2,
        figure2_deep,
        figure3,
        figure3_rooms,
        figure4,
        figure5_jellybean,
        figure5_minatar,
        appendix_values,
        appendix_sensitivity,
        appendix_task_diameter,
        study_lifetime,
        study_lifetime_exact,
        study_permanent,
        study_half_life,
        benchmark_minatar,
    )
    for experiment in module.EXPERIMENTS
}


def get(name: str) -> Experiment:
    """The experiment of that name, or in that file; or an error that names the nearest one.

    A file is executed: only what the user typed may come here, never a name that was read from a file (see `from_data`).
    """
    if is_file(name):
        return load_file(name)
    if name not in REGISTRY:
        inside = [one for one in REGISTRY if one.startswith(f"{name.rstrip('/')}/")]
        if name.strip("/") and inside:
            raise UserError(f"'{name}' is the name of {len(inside)} experiments: choose one of {', '.join(inside)}")
        if _is_path(name):
            raise UserError(f"there is no directory '{name}', nor an experiment of that name")
        raise unknown("experiment", name, REGISTRY)
    return REGISTRY[name]


def _is_path(name: str) -> bool:
    """Whether a name can only be meant as a path: it begins like one, or with a directory that is there."""
    first = Path(name).parts[:1]
    begins = not any(one.startswith(f"{first[0]}/") for one in REGISTRY) if first else False
    return name.startswith(("/", "./", "../", "~")) or ("/" in name and begins and Path(first[0]).is_dir())
