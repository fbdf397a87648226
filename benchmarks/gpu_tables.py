"""What ``benchmarks/gpu.py`` found on a machine with a GPU, as tables."""

from __future__ import annotations

import json

from benchmarks.tools import goal, spread, stamp, table


def gpu(options):
    """The section of the results: from the file that a run of benchmarks/gpu.py wrote; without one, it stays."""
    return f"## A GPU\n\n{as_text(json.loads(options.gpu.read_text()))}" if options.gpu else None


def as_text(found):
    """The tables."""
    machine, top, fit = found["machine"], found["ceilings"], found["whole_fit"]
    here, streamed = found["on_the_device"], found["streamed"]
    inside, top_there = here["through_fit"], here["through_fit"]["product_rows_per_s"]
    rows = [
        ["on the device: the screen", f"{here['rows_per_s'] / 1e6:.1f}", _best(here["product_rows_per_s"], "product")],
        ["on the device: `learn`, all rounds", f"{inside['pass_rows_per_s'] / 1e6:.1f}", _best(top_there, "product")],
        *(
            [f"streamed, {name}", f"{one['rows_per_s'] / 1e6:.1f}", _best(top[f"{name}_rows_per_s"], "copy")]
            for name, one in streamed.items()
            if isinstance(one, dict)
        ),
    ]
    cases = [one for one in found["digests"].values() if isinstance(one, dict)]
    same = sum(one["same_digest"] for one in cases)
    ways = {name.replace("_", " "): fit[name] for name in fit if name.startswith("from_")}
    fits = [[name, f"{one['fit_s']:.1f}", *_of_rounds(one["rounds"]), _stages(one)] for name, one in ways.items()]
    some = next(name for name in fit if name.startswith("fit_of_") and name.endswith("_here_s")).split("_")[2]
    text = [
        f"`PYTHONPATH=src python benchmarks/gpu.py`, on one {machine['gpu']} with {machine['cores']} processors,",
        f"PyTorch {machine['torch']}; {fit['columns']:,} columns. Full float32: {top['float32_tflops']:.0f} TFLOP/s",
        f"(TF32 {top['tf32_tflops']:.0f}, which the probe refuses, set by code or by environment).\n\nOne digest with",
        f"the processor's in {same} of {len(cases)} cases of ties, near ties, scales and maps: arrays in three sizes",
        "of block, PyTorch on the processor, and tensors on the device.",
        f"Of {found['survivors']['rows']:,} rows {found['survivors']['differ']} were screened otherwise than",
        f"here.\n\n{table(['screening, million rows a second', 'ours', 'at best'], rows)}\n\nWith 200 MiB of the",
        "device left, the same answer in chunks; with 2 MiB:",
        f"*{found['short_of_memory']['next to none'].get('error', 'it still fitted')}*\n\nA fit of {fit['rows']:,} x",
        f"{fit['columns']:,}, {fit['core_rows']:,} core rows, accuracy {fit['accuracy']:.3f}, in seconds; stages are",
        f"added up over all threads, in a second run:\n\n{table(_HEAD, fits)}\n\nOne digest for all of them:",
        f"{'yes' if fit['same_digest_of_all'] else 'NO'}. Ridge regression on all rows (`torch.linalg`, one pass):",
        f"{fit['ridge_on_the_device_s']:.2f} s on the device, {fit['ridge_on_all_rows_s']:.1f} s from pinned memory,",
        f"accuracy {fit['accuracy_of_ridge']:.3f}. A fit of {int(some):,}: {fit[f'fit_of_{some}_resident_s']:.1f} s of",
        f"rows on the device, {fit[f'fit_of_{some}_there_s']:.1f} s of rows in memory, and",
        f"{fit[f'fit_of_{some}_here_s']:.1f} s without the device.\n\n{_in_turns(found['in_turns'], machine['cores'])}",
    ]
    if "state" in machine:
        took = sum(one["took_s"] for one in found.values())
        text.append(f"\n{stamp(took, machine['state'], machine['day'])}\n")
    return " ".join(text)


_HEAD = ["rows", "fit", "screening, by round", "deciding, by round", "survivors, by round", "stages"]


_WAYS = {
    "device": '`engine="torch"`, rows on the device',
    "local": '`engine="local"`, rows in memory',
    "here": "no engine, rows in memory",
    "ridge": "`torch.linalg`, ridge regression, rows on the device",
    "product": "one product and its norms, rows on the device",
}


def _in_turns(turns, cores):
    """Fits with and without the device, in turns, as a table and lines of the table of goals."""
    seconds, size = turns["seconds"], f"{turns['rows']:,} x {turns['columns']}"
    head = f"Fits of {size} and their peers in turns, {turns['rounds']} rounds, {cores} processors; one digest for "
    head += f"all fits: {'yes' if turns['same_digest'] else 'NO'}.\n\n"
    text = head + table(["what", "seconds"], [[words, spread(seconds[way])] for way, words in _WAYS.items()])
    here = "no engine", seconds["here"]
    text += goal(f"fit, {size}, rows on a GPU", seconds["device"], ("ridge there", seconds["ridge"]), seconds=1.0)
    # 0.7 of the 6.5 s that no engine took when the goal was set.
    return text + goal(f'fit, {size}, {cores} processors, `engine="local"`', seconds["local"], here, seconds=4.55)


def _best(rate, what):
    return f"{rate / 1e6:.1f} ({what})"


def _of_rounds(rounds):
    return (
        ", ".join(f"{one['screening_seconds']:.2f}" for one in rounds),
        ", ".join(f"{one['deciding_seconds']:.2f}" for one in rounds),
        ", ".join(f"{one['survivors']:,}" for one in rounds),
    )


def _stages(one):
    return ", ".join(f"{name.replace('_', ' ')} {s:.2f}" for name, s in one["stages_s"].items() if s >= 0.005)
