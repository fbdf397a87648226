"""What ``benchmarks/gpu.py`` found on a machine with a GPU, as tables."""

from __future__ import annotations

import json

from benchmarks.tools import table


def gpu(options):
    """The section of the results: from the file that a run of benchmarks/gpu.py wrote."""
    head = "## A GPU\n\n"
    if not options.gpu:
        return head + "Not measured: run benchmarks/gpu.py where there is one, and name its file with `--gpu`.\n"
    return head + as_text(json.loads(options.gpu.read_text()))


def as_text(found):
    """The tables."""
    machine, top, fit = found["machine"], found["ceilings"], found["whole_fit"]
    here, streamed = found["on_the_device"], found["streamed"]
    rows = [
        ["rows on the device", f"{here['rows_per_s'] / 1e6:.1f}", f"{top['float32_rows_per_s'] / 1e6:.1f} (product)"],
        *(
            [f"streamed, {name}", f"{one['rows_per_s'] / 1e6:.1f}", f"{top[f'{name}_rows_per_s'] / 1e6:.1f} (copy)"]
            for name, one in streamed.items()
            if isinstance(one, dict)
        ),
    ]
    rounds = " and ".join(f"{one['survivors']:,}" for one in fit["rounds"])
    cases = [one for one in found["digests"].values() if isinstance(one, dict)]
    same = sum(one["same_digest"] for one in cases)
    text = [
        f"`PYTHONPATH=src python benchmarks/gpu.py`, on one {machine['gpu']} with {machine['cores']} processors,",
        f"PyTorch {machine['torch']}; {fit['columns']:,} columns. Full float32: {top['float32_tflops']:.0f} TFLOP/s",
        f"(TF32 {top['tf32_tflops']:.0f}, which the probe refuses, set by code or by environment).\n\nOne digest with",
        f"the processor's in {same} of {len(cases)} cases of ties, near ties, scales and maps, each with three sizes",
        f"of block. Of {found['survivors']['rows']:,} rows {found['survivors']['differ']} were screened otherwise than",
        f"here.\n\n{table(['screening, million rows a second', 'ours', 'at best'], rows)}\n\nWith 200 MiB of the",
        "device left, the same answer in chunks; with 2 MiB:",
        f"*{found['short_of_memory']['next to none'].get('error', 'it still fitted')}*\n\nA fit of {fit['rows']:,} x",
        f"{fit['columns']:,} from pinned memory: {fit['fit_s']:.1f} s, {fit['core_rows']:,} core rows, accuracy",
        f"{fit['accuracy']:.3f}, in rounds with {rounds} survivors. Ridge regression on all rows (`torch.linalg`, one",
        f"pass): {fit['ridge_on_all_rows_s']:.1f} s, accuracy {fit['accuracy_of_ridge']:.3f}. A fit of 300,000:",
        f"{fit['fit_of_300000_there_s']:.1f} s with the device, {fit['fit_of_300000_here_s']:.1f} s without.\n",
    ]
    return " ".join(text)
