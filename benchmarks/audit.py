"""Every method under every attack: the table of docs/audit.md.

    python benchmarks/audit.py digits --out results/digits
    python benchmarks/audit.py margin --out results/margin --methods linear,plain
    python benchmarks/audit.py DIR/retail600_kmeans2_train.npz --rows 4000 --out results/retail600
    python benchmarks/audit.py --table results/digits results/margin results/retail600

One JSON file for each method, written when it is done; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from erasable.research.attacks import FULL, TARGETS, audit, rows_named

COLUMNS = {
    "a": "a candidate put into the gap and forgotten again leaves the same bits",
    "b, row": "the row, or its direction, anywhere in memory or in the file",
    "b, id": "its id anywhere in memory or in the file",
    "c, weights": "from the weights: all forgotten rows, pooled",
    "c, with rows": "from weights and stored rows: all forgotten rows",
    "c, rows that stay": "from the weights: rows that stay",
    "d, states": "whole states: the best cosine with what was there before and is not now",
    "d, weights": "weights before and after, and the state that is left",
    "e, all known": "somebody who knows every other row compares which rows are stored",
    "e, none known": "somebody who knows no other row looks whether a stored one rules it out",
    "e, shadows": "how new the row is to the stored ones, with shadow models",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", help="as for erasable audit")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--methods", default=",".join(TARGETS))
    parser.add_argument("--rows", type=int, default=FULL.rows)
    parser.add_argument("--trials", type=int, default=FULL.trials)
    parser.add_argument("--shadows", type=int, default=FULL.shadows)
    parser.add_argument("--workers", type=int, default=2, help="processes; figures are the same for any number")
    parser.add_argument("--table", type=Path, nargs="+", help="folders of results: print their table")
    arguments = parser.parse_args()
    if arguments.table:
        for folder in arguments.table:
            print_table(folder)
        return
    sizes = dataclasses.replace(FULL, rows=arguments.rows, trials=arguments.trials, shadows=arguments.shadows)
    name, X, y = rows_named(arguments.data, most=sizes.rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for method in arguments.methods.split(","):
        file = arguments.out / f"{method}.json"
        if file.exists():
            continue
        found = audit(TARGETS[method], X, y, data=name, sizes=sizes, workers=arguments.workers)
        file.write_text(json.dumps(found.as_json(), indent=1, allow_nan=False), encoding="utf-8")
        spent = f"{found.seconds:.0f} s by the clock, {found.processor_seconds:.0f} s of processor time"
        print(f"{method}: {spent}, holds: {found.holds}", flush=True)


def print_table(folder: Path) -> None:
    """One line for each method: areas under the curve with their intervals, a dash where an attack does not apply."""
    files = [folder / f"{method}.json" for method in TARGETS]
    audits = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    first = max(audits, key=lambda found: found["rows"])
    held = {result["name"] for found in audits for result in found["results"]}
    columns = {name: title for name, title in COLUMNS.items() if title in held}
    print(f"\n**{first['data']}**, {first['rows']:,} rows × {first['features']:,}\n")
    print("| method | same bits as relearning | " + " | ".join(columns) + " | minutes of processor time |")
    print("|---|" + "---|" * (len(columns) + 2))
    for found in audits:
        results = {result["name"]: result for result in found["results"]}
        share = "noise" if found["noisy"] else f"{found['same_as_refit']} of {found['trials']}"
        cells = [cell(results.get(title)) for title in columns.values()]
        if not found["sizes"]["shadows"]:
            shadowed = [name.startswith("c") or "shadows" in name for name in columns]
            cells = ["not run" if late else text for late, text in zip(shadowed, cells, strict=True)]
        rows = f", {found['rows']:,} rows" if found["rows"] != first["rows"] else ""
        minutes = f"{found['processor_seconds'] / 60:.1f}"
        print(f"| {found['title']}{rows} | {share} | {' | '.join(cells)} | {minutes} |")
    if any(TARGETS[found["method"]].control for found in audits):
        print(f"\nControls, {caught(audits)}.")


def caught(audits: list[dict]) -> str:
    """The power of the attack that names each control, at false alarms of 1%."""
    found = []
    for one in audits:
        letter = TARGETS[one["method"]].control
        if letter is not None:
            value, low, _ = max(r["tpr_at_1_percent"] for r in one["results"] if r["letter"] == letter)
            found.append(f"{one['title'].removeprefix('Control: ')} by ({letter}) {value:.3f} (at least {low:.3f})")
    return "power at 1% false alarms with the lower end of its 99% interval: " + "; ".join(found)


def cell(result: dict | None) -> str:
    """The area and its interval; bold where it is above chance by more than the last figure that is printed."""
    if result is None:
        return "–"
    value, low, high = result["auc"]
    if result["tied"]:
        return "exactly"
    text = f"{value:.3f} ({low:.3f}–{high:.3f})"
    borderline = 0.5 < low < 0.5005 and result["tpr_at_1_percent"][1] <= 0.01
    return text if result["verdict"] == "at chance" or borderline else f"**{text}**"


if __name__ == "__main__":
    main()
