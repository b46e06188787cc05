"""Runs all fuzzers and prints what came of them: `make fuzz`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from fuzz import FUZZERS
from fuzz.harness import ACCEPTED, CODE, DEFECTS, REFUSED, SILENT, TRACEBACK


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"only these fuzzers: {', '.join(FUZZERS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="how many of the usual tries")
    asked = parser.parse_args()
    columns = ("fuzzer", "tries", "refused", "accepted", "tracebacks", "silent changes", "code", "seconds")
    line = "{:<16} {:>6} {:>8} {:>9} {:>11} {:>15} {:>5} {:>8}"
    print(line.format(*columns))
    defects: list[str] = []
    for name in asked.names or FUZZERS:
        fuzz, tries = FUZZERS[name]
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            tally = fuzz(round(tries * asked.share), random.Random(f"{name} {asked.seed}"), Path(folder))
        counts = [tally.counts[kind] for kind in (REFUSED, ACCEPTED, TRACEBACK, SILENT, CODE)]
        print(line.format(tally.name, tally.tries, *counts, f"{time.monotonic() - began:.0f}"), flush=True)
        defects += tally.defects
    for defect in defects:
        print(f"\n{defect}")
    print(f"\n{len(defects)} defects ({', '.join(DEFECTS)}), seed {asked.seed}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
