"""Draws the idea: one state whose value differs between two tasks, learned by a permanent and a transient part.

The curves are the algorithm's own numbers: at every step the transient part learns with step size 0.12; at every switch
the permanent part absorbs 0.3 of it, and it is reset. Colours and fonts come from the page (docs/assets/style.css).
"""

from __future__ import annotations

from pathlib import Path

OUT = Path(__file__).parent.parent / "docs" / "images" / "idea.svg"
TASKS = (3.0, 1.6)  # the state's value in tasks A and B
SEGMENTS, STEPS = 6, 30
TRANSIENT_STEP, ABSORBED = 0.12, 0.3
LEFT, WIDTH, SCALE = 126, 560, 26.0
ROWS = {"value": 128.0, "permanent": 226.0, "transient": 334.0}  # where zero is
CAPTIONS = {
    "value": ("value", "= the sum of both"),
    "permanent": ("permanent", "learns at switches"),
    "transient": ("transient", "learns at every step"),
}

Curve = list[tuple[float, float]]


def curves() -> dict[str, Curve]:
    """(time, number) of each part, before and after every step and switch."""
    permanent, transient = 0.0, 0.0
    found: dict[str, Curve] = {name: [] for name in ROWS}

    def record(time: float) -> None:
        for name, number in (("value", permanent + transient), ("permanent", permanent), ("transient", transient)):
            found[name].append((time, number))

    for segment in range(SEGMENTS):
        for step in range(STEPS):
            record(segment * STEPS + step)
            transient += TRANSIENT_STEP * (TASKS[segment % 2] - permanent - transient)
        record((segment + 1) * STEPS)
        permanent, transient = permanent + ABSORBED * transient, 0.0
    return found


def across(time: float) -> float:
    return LEFT + WIDTH * time / (SEGMENTS * STEPS)


def path(curve: Curve, zero: float, kind: str) -> str:
    points = " ".join(f"{across(time):.1f},{zero - SCALE * number:.1f}" for time, number in curve)
    return f'<polyline points="{points}" class="curve {kind}"/>'


def drawing() -> str:
    parts = [
        '<svg viewBox="0 0 720 384" role="img" aria-label="The value is the sum of a permanent part, which changes a little at '
        'every task switch, and a transient part, which learns at every step and is reset at every switch">'
    ]
    for segment in range(SEGMENTS):
        left, right = across(segment * STEPS), across((segment + 1) * STEPS)
        task = "AB"[segment % 2]
        parts.append(
            f'<rect x="{left:.1f}" y="24" width="{right - left:.1f}" height="330" class="task-{task.lower()}"/>'
        )
        parts.append(f'<text x="{(left + right) / 2:.1f}" y="18" class="small">task {task}</text>')
        height = ROWS["value"] - SCALE * TASKS[segment % 2]
        parts.append(f'<path d="M{left:.1f} {height:.1f}H{right:.1f}" class="line slow"/>')
    for name, zero in ROWS.items():
        word, caption = CAPTIONS[name]
        parts.append(f'<path d="M{LEFT} {zero}h{WIDTH}" class="axis"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{zero - 26}" class="start">{word}</text>')
        parts.append(f'<text x="{LEFT - 10}" y="{zero - 9}" class="tiny start">{caption}</text>')
        parts.append(path(curves()[name], zero, name))
    switch = across(2 * STEPS)
    parts += [
        f'<text x="{switch + 6:.1f}" y="{ROWS["permanent"] + 15}" class="tiny left">consolidation: it takes over a share</text>',
        f'<text x="{switch + 6:.1f}" y="{ROWS["transient"] + 15}" class="tiny left">decay: here to zero</text>',
        f'<text x="{across(SEGMENTS * STEPS):.1f}" y="376" class="tiny start">time; dashed: the true value of each task</text>',
        "</svg>",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    OUT.write_text(drawing() + "\n", encoding="utf-8")
