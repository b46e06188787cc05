"""Mutated command lines: refused with a sentence and without a change, or done as they say."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from fuzz.harness import ACCEPTED, REFUSED, Tally, command, copied, files, inside

RUN = (
    *("run", "figure2/tabular", "--preset", "smoke", "--seeds", "1", "--segments", "1", "--segment-length", "2"),
    *("--contenders", "TD", "--set", "TD.lr=0.3", "--lanes-per-group", "1", "--checkpoint-every", "5", "--learner"),
    *("auto", "--out", "out"),
)
SWEEP = (
    *("sweep", "figure2/tabular", "--preset", "smoke", "--seeds", "1", "--tuning-seeds", "1", "--contenders", "TD"),
    *("--grid", "TD.lr=0.1,0.5", "--out", "out", "--json"),
)
BASES = (
    RUN,
    RUN,
    (*RUN, "--json"),
    (*RUN, "--restart", "--cores-per-group", "1"),
    SWEEP,
    ("list", "--json"),
    ("show", "figure2/tabular", "--out", "kept", "--json"),
    ("show", "kept/run"),
    ("report", "kept/run", "--to", "page", "--out", "kept"),
    ("check", "kept/run", "kept/live", "--json", "--out", "kept"),
    ("clean", "kept/run", "--out", "kept"),
    ("theory", "--mrp", "mrp.json", "--json"),
    ("bench", "theory", "--smoke", "--json", "--against", "torch"),
)
NUMBERS = (
    *("", " ", "0", "-1", "-0", "1.5", "nan", "inf", "-inf", "1e400", "1e-400", "2147483648", "9223372036854775808"),
    *("9" * 400, "0x10", "1_0", "１", "true", "None", "[]", "1 2", "1,2", "+1", "1e0", "\t3"),
)
TEXTS = (
    *(
        "",
        " ",
        "nosuch",
        "figure2",
        "FIGURE2/TABULAR",
        "../nosuch",
        "/dev/null",
        "/dev/null/x",
        "/proc/nosuch",
        "a" * 5000,
    ),
    *(
        "é☃",
        "\x1b[31m",
        "\x00",
        "\ud800",
        "‮abc",
        "a\nb",
        "</script><script>",
        "*",
        "%s%n",
        "$(touch canary)",
        "--",
        "-",
    ),
    *("@mrp.json", "mrp.json", "kept", "kept/run/lanes.parquet", "link", "link/x", "syntax.py", "raises.py"),
    *(
        "binary.py",
        "empty.py",
        "folder.py",
        "empty.py:",
        "empty.py:X",
        "nosuch.py",
        "raises.py:EXPERIMENT",
        ":",
        "kept:x",
    ),
)
CHANGES = (
    *(
        "TD.lr",
        "TD.lr=",
        "=1",
        ".=",
        "TD.=1",
        ".lr=1",
        "TD.lr=nan",
        "TD.lr=-1",
        "TD.lr=1e400",
        "TD.lr='a'",
        "TD.lr=None",
    ),
    *(
        "TD.nosuch=1",
        "XX.lr=1",
        "TD.lr=[",
        "TD.lr=__import__('os')",
        "TD.lr=1,nan",
        "TD.lr=,",
        "TD.lr=1,1",
        "TD.lr=True",
    ),
    *(
        "TD.features=1",
        "TD.reset=maybe",
        "TD.lr=" + "9" * 400,
        "TD.lr=" + "(" * 300,
        "é.é=é",
        "TD.lr=1=2",
        "TD.lr=\x00",
    ),
)
OPTIONS = (
    "--nosuch",
    "--seed",
    "--jobs",
    "--on",
    "--address",
    "--json",
    "--help",
    "--restart",
    "-x",
    "--seeds=",
    "--=1",
)
NUMERIC = (
    *("--seeds", "--segments", "--segment-length", "--steps", "--lanes-per-group", "--checkpoint-every", "--jobs"),
    *("--tuning-seeds", "--tuning-from", "--cores-per-group"),
)


def fuzz(tries: int, rng: random.Random, place: Path) -> Tally:
    tally = Tally("command lines", place / "canary")
    with inside(place / "deep" / "here"):
        here = _prepared(Path.cwd())
        for number in range(tries):
            tokens = _mutant(list(BASES[number % len(BASES)]), rng)
            before = files(here)
            answer = command(*tokens)
            silent = ""
            if answer.kind == REFUSED and files(here) != before:
                changed = {name for name, _ in files(here).items() ^ before.items()}
                silent = f"a refused command changed {sorted(changed)}: {answer.said}"
            elif answer.kind == ACCEPTED:
                silent = _otherwise(tokens, here)
            tally.add(tokens, answer, silent, "it steers the terminal" if "\x1b[31m" in answer.said else "")
            if files(here) != before:
                _prepared(here)
    return tally


def _prepared(here: Path) -> Path:
    """A directory as every try finds it."""
    for path in here.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for kind in ("run", "live"):
        copied(f"format2/{kind}", here / "kept" / kind)
    (here / "mrp.json").write_text('{"P": [[0.5, 0.5], [0.5, 0.5]], "r": [[1, 0], [0, 1]], "gamma": 0.5}')
    (here / "syntax.py").write_text("EXPERIMENT = (\n")
    (here / "raises.py").write_text("1 / 0\n")
    (here / "empty.py").write_text("")
    (here / "binary.py").write_bytes(bytes(range(256)))
    (here / "folder.py").mkdir()
    (here / "link").symlink_to("nosuch")
    return here


def _mutant(tokens: list[str], rng: random.Random) -> list[str]:
    for _ in range(rng.choice((1, 1, 1, 2))):
        if not tokens:
            break
        at = rng.randrange(1, len(tokens)) if len(tokens) > 1 else 0
        match rng.randrange(12):
            case 0 | 1 | 2 | 3 | 4 | 5:
                _replace_value(tokens, at, rng)
            case 6:
                del tokens[at]
            case 7:  # an option twice, with another value
                tokens += [tokens[at], rng.choice((*NUMBERS, *TEXTS))]
            case 8:
                tokens.insert(at, rng.choice((*OPTIONS, *TEXTS)))
            case 9:
                other = rng.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 10:
                tokens[at] = _misspelt(tokens[at], rng)
            case _ if tokens[at].startswith("--") and at + 1 < len(tokens):
                tokens[at : at + 2] = [f"{tokens[at]}={rng.choice((*NUMBERS, *TEXTS))}"]
            case _:
                del tokens[at:]
    return [*tokens, "--smoke"] if tokens[:1] == ["bench"] and "--smoke" not in tokens else tokens


def _replace_value(tokens: list[str], at: int, rng: random.Random) -> None:
    """Another value for the option at this place, or before it."""
    at += tokens[at].startswith("--") and at + 1 < len(tokens)
    option = tokens[at - 1]
    values = NUMBERS if option in NUMERIC else CHANGES if option in ("--set", "--grid") else (*TEXTS, *NUMBERS)
    tokens[at] = rng.choice(values)


def _misspelt(token: str, rng: random.Random) -> str:
    at = rng.randrange(len(token)) if token else 0
    return rng.choice(
        (token[:at] + token[at + 1 :], token[:at] + token[at : at + 1] * 2 + token[at + 1 :], token.upper())
    )


def _otherwise(tokens: list[str], here: Path) -> str:
    """What an accepted `run` did other than it was asked; the last of several equal options counts."""
    if tokens[:1] != ["run"]:
        return ""
    asked = {}
    for place, token in enumerate(tokens):
        name, equals, value = token.partition("=")
        if name in ("--seeds", "--segments", "--segment-length"):
            asked[name] = value if equals else "".join(tokens[place + 1 : place + 2])
    for path in here.rglob("description.json"):
        if "kept" in path.parts:
            continue
        about = json.loads(path.read_text())
        did = {
            "--seeds": len(about["seeds"]),
            "--segments": len(about["stream"]["order"]),
            "--segment-length": next(iter(about["stream"]["segment_length"].values())),
        }
        if wrong := {
            name: (value, did[name])
            for name, value in asked.items()
            if value not in ("None", str(did[name])) and int(value) != did[name]
        }:
            return f"asked and done: {wrong}"
    return ""
