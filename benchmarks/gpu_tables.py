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
    return (
        f"`PYTHONPATH=src python benchmarks/gpu.py`, on one {machine['gpu']} with {machine['cores']} processors, "
        f"PyTorch {machine['torch']}; {fit['columns']:,} columns. Full float32: {top['float32_tflops']:.0f} TFLOP/s (TF32 "
        f"{top['tf32_tflops']:.0f}, which the probe refuses, set by code or by environment).\n\n"
        f"One digest with the processor's in {same} of {len(cases)} cases of ties, near ties, scales and maps, "
        f"each with three sizes of block. Of {found['survivors']['rows']:,} rows {found['survivors']['differ']} were screened "
        "otherwise than here.\n\n"
        + table(["screening, million rows a second", "ours", "at best"], rows)
        + f"\n\nWith 200 MiB of the device left, the same answer in chunks; with 2 MiB: "
        f"*{found['short_of_memory']['next to none'].get('error', 'it still fitted')}*\n\n"
        f"A fit of {fit['rows']:,} x {fit['columns']:,} from pinned memory: {fit['fit_s']:.1f} s, "
        f"{fit['core_rows']:,} core rows, accuracy {fit['accuracy']:.3f}, in rounds with {rounds} survivors. Ridge regression on all rows "
        f"(`torch.linalg`, one pass): {fit['ridge_on_all_rows_s']:.1f} s, accuracy {fit['accuracy_of_ridge']:.3f}. "
        f"A fit of 300,000: {fit['fit_of_300000_there_s']:.1f} s with the device, {fit['fit_of_300000_here_s']:.1f} "
        "s without.\n"
    )
