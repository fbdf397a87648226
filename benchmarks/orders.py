"""Learning a raw CSV of growing length through a schema: peak memory and time of each, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.tools import table
from erasable.research.sets import make_orders, write_orders
from erasable.schemas import draft_schema

MILLIONS = (0.3, 1.25, 5)
LEARNER = """
import json, re, sys, tempfile, time
from pathlib import Path
from erasable.operations.learn import Columns, learn_table
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "m.erasable")
    start = time.process_time()
    told = learn_table(path, sys.argv[1], Columns(schema=sys.argv[2]), parameters=dict(threshold=0.1, loss="logistic"))
    busy = time.process_time() - start
# Not ru_maxrss, which remembers the process that this one was started from.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
auc = told.score.auc
print(json.dumps([told.report.rows, told.report.core_rows, told.bytes, peak * 1024, busy, auc]))
"""


def orders(options):
    """A table of each length; the schema is drafted from orders of another shop, so that no table is read whole."""
    rows = []
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        data, schema = Path(folder, "orders.csv"), Path(folder, "schema.toml")
        roles = {"label": "returned", "id": "order", "subject": "customer"}
        draft_schema(make_orders(20_000, random_state=1), **roles).schema.save(schema)
        for millions in MILLIONS:
            write_orders(data, int(millions * 1e6))
            command = [sys.executable, "-c", LEARNER, str(data), str(schema)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
            n, core, size, peak, busy, auc = json.loads(done.stdout.splitlines()[-1])
            rows.append(
                [
                    f"{n:,}",
                    f"{data.stat().st_size / 1e6:,.0f}",
                    f"{peak / 1e6:,.0f}",
                    f"{busy:.0f}",
                    f"{1e6 * busy / n:.1f}",
                    f"{core:,} ({100 * core / n:.2f}%)",
                    f"{size / 1e6:.1f}",
                    f"{auc:.3f}",
                ]
            )
            print(rows[-1], file=sys.stderr, flush=True)
    head = ["orders", "CSV, MB", "peak memory, MB", "processor, s", "µs for each row"]
    head += ["rows stored", "model, MB", "AUC of rows before they were learnt"]
    text = (
        "## A large raw table\n\n`write_orders` of `erasable.research.sets`: 18 columns of CSV, 15 of them features "
        "(dates, categories with rare values, numbers, free text, missing cells), through a schema drafted from 20,000 "
        "orders of another seed; `learn` with `--threshold 0.1 --loss logistic`, in the order of hashes, so a file is "
        "read several times. Each line is a process of its own, one BLAS thread; imports are in its peak.\n\n"
    )
    return text + table(head, rows)


if __name__ == "__main__":
    print(orders(None))
