"""One vocabulary: names and prose that the project has replaced by the field's words do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "remanence"

REPLACED: dict[str, str] = {
    "consolidate_every": "rhythm period",
    "boundaries_known, TaskObs, task_aware": "told Told knows_task",
    "window, close_window, ProbeInput, WindowStats, EpisodeStats": "page turn_page tick Moment Tally Finished moment tally",
    "init_life, step, is_done, waiting, active, valid": "born interact is_over resting awake real",
    "active_mask, max_over_lanes, consolidate_waiting": "taking_part longest meet invited",
    "EMPTY, iter_finished": "NOBODY as_they_finish",
    "LifeConfig, config, segment_length": "Setting setting span SPAN",
    "truncate_on_switch, RandomOrder": "ends_episode cuts Drawn",
    "opt_state, optimizer, apply_gradient": "moments rule _descend",
    "td_target, next_value, permanent_q": "goal then offset",
    "ValueComposition, single, separate_networks, shared_trunk": "Parts alone side_by_side two_heads",
    "index_rows, precomputed_inputs, wrap": "by_number of_table dress",
    "has_permanent, permanent_static, reinit, OnConsolidate, clear_replay()": "empty drifts redraw Forgetting resetting",
    "VisitMemory, visit_counts, visit_buffer": "Visits counted listed",
    "add, permanent_update, dropped": "note lost",
    "add_scaled_gradient, closed_form_step, td_update": "nudge settle improve",
    "Frame, cached, valid, separate/implicit/none": "Seen known whole APART CHAINED WITHOUT",
    "tree_where, named_leaves, tree_nbytes, randint": "choose named bytes_of pick",
    "live, gym, AgentSpec, BuiltAgent, config": "own guest guests Made made recipe",
    "Stationary, Schedule": "Steady Timetable timetable",
    "EnvPool, register, env_pool, EnvWorker": "company admit hosting Player",
    "HostState, EnvFactory, check_env": "Whereabouts Source examine",
    "DISCRETE, env_shape, max_value": "NUMBER given brightest",
    "executors, run_all, _worker, payload, run_missing": "crew carry_out _labour cargo fulfil",
    "merge_group, GroupJob, GroupRunner, run_fn": "take_in Work _Living conduct",
    "config, paper_values, with_grid, done": "form printed over",
    "primary_metrics, auc_metrics, summary, status": "headline areas facts news",
    "u, bits, reject_from, accept_below": "luck hardly surely",
    "Workspace, CoreView, deleted_at, collected": "Bench Sight gone finds",
}
"""what to write instead: the names that are replaced"""
OLD_NAMES = {name: new for new, old in REPLACED.items() for name in old.split()}
OLD_PREFIXES = {"most_": "max_", "at_least": "min_"}

# name: files or folders of the package where it has its ordinary meaning
ALLOWED: dict[str, tuple[str, ...]] = {
    "goal": ("worlds/grids", "worlds/rooms", "bench/control.py"),  # a cell
    "moments": ("theory",),  # of a distribution
    "offset": ("theory", "worlds/jellybean", "core/hostcall.py"),  # a constant that is added; of a field, in ctypes
    "printed": ("theory",),  # a formula as the paper prints it
    "note": ("bench",),  # a column of the table
    "setting": ("report",),  # of hyperparameters
}
# name: objects of other libraries that have an attribute of this name
ALLOWED_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "empty": ("np", "numpy", "jnp"),  # np.empty
    "then": ("pl",),  # pl.when(…).then(…)
}

PROSE = re.compile(
    r"\b(rhythms?|turn_page|taking_part|NOBODY|nobody to live|_labour|cargo|fulfil|Whereabouts|side_by_side|carry_out"
    r"|as_they_finish|crew|guests?|company|tally|resting|brightest|timetables?|recipes?|born|luck|begins? anew|starts? anew"
    r"|computed anew|what became of|who lives|as long as as many|so many (?:steps|lanes|tasks|episodes|seconds|patches|windows))\b",
    re.IGNORECASE,
)


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Identifiers of a module and string keys of its dict literals, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, lineno=line) | ast.arg(arg=name, lineno=line):
                yield name, line
            case ast.FunctionDef(name=name, lineno=line) | ast.ClassDef(name=name, lineno=line):
                yield name, line
            case ast.keyword(arg=str(name), value=value):
                yield name, value.lineno
            case ast.alias(name=name, asname=alias, lineno=line):
                yield (alias or name).rpartition(".")[2], line
            case ast.Attribute(attr=name, value=value, lineno=line):
                if root(value) not in ALLOWED_ATTRIBUTES.get(name, ()):
                    yield name, line
            case ast.Dict(keys=keys):
                for key in keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value, key.lineno


def root(node: ast.AST) -> str | None:
    """`pl.when(x).then` -> `pl`"""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else None


def old_names(source: str, path: str) -> list[str]:
    """Replaced names in a module at `path`, relative to the package."""
    found = []
    for name, line in names(ast.parse(source)):
        new = OLD_NAMES.get(name) or next((new for old, new in OLD_PREFIXES.items() if name.startswith(old)), None)
        if new and not path.startswith(ALLOWED.get(name, ("-",))):
            found.append(f"{path}:{line}: {name} (write {new})")
    return found


def old_prose(text: str, path: str) -> list[str]:
    return [f"{path}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]}" for hit in PROSE.finditer(text)]


def test_no_replaced_names() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert len(modules) > 100
    found = [
        hit for path in modules for hit in old_names(path.read_text("utf-8"), path.relative_to(PACKAGE).as_posix())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("where", ["src", "docs", "README.md"])
def test_no_replaced_words_in_prose(where: str) -> None:
    place = ROOT / where
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.suffix in (".py", ".md")]
    assert files
    found = [hit for path in sorted(files) for hit in old_prose(path.read_text("utf-8"), str(path.relative_to(ROOT)))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "def f(rhythm): ...",
        "class Tally: ...",
        "x.tally",
        "f(over=1)",
        "{'luck': 1}",
        "import a.company",
        "most_steps = 3",
        "def choose(): ...",
        "state.empty",
        "value = lambda then: 0",
    ],
)
def test_a_replaced_name_is_found(source: str) -> None:
    assert len(old_names(source, "agents/x.py")) == 1


@pytest.mark.parametrize("source", ["np.empty(3)", "pl.when(a).then(b)", "x = 'so many'", "finished = overall = 1"])
def test_other_names_are_not_found(source: str) -> None:
    assert old_names(source, "agents/x.py") == []


def test_a_name_is_allowed_only_where_it_has_its_ordinary_meaning() -> None:
    assert old_names("goal = 1", "worlds/rooms/world.py") == []
    assert old_names("goal = 1", "agents/dqn.py") == [
        "agents/dqn.py:1: goal (write td_target, next_value, permanent_q)"
    ]


def test_replaced_words_are_found_in_prose_with_their_lines() -> None:
    assert old_prose("In this\nRhythm, so many steps.", "a.md") == ["a.md:2: Rhythm", "a.md:2: so many steps"]
    assert old_prose("algorithm, accompany, newborn, so many words", "a.md") == []
