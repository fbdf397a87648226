"""The service under load: predictions while erasures commit, acceptance, completion, and kills in the middle of it.

    make bench ARGS="--only service"                 a quarter of a minute of eight clients, 100 erasures a second,
                                                     whether times tell who was stored, a table, 20 kills
    python -m benchmarks.service --scale 4           four times each
    python -m benchmarks.service --settled 100000    start, memory and predictions with so many settled requests, and a
                                                     batch of 100,000 identities

The clients are one process of plain sockets. On two processors, it and the three processes beside the one that answers
are on the second, and that one on the first.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.csv

from benchmarks.tools import console, table
from erasable import ErasableClassifier, load, verify
from erasable.audit.scan import scan
from erasable.service.ledger import Ledger
from erasable.service.requests import Filing, Identity
from erasable.service.settings import Settings
from erasable.service.tokens import SCOPES, make_token

CORE, FEATURES, CLIENTS, LEARNT = 33_000, 600, 8, 5_000
MIXED, STEADY, PAIRS, KILLS = 15, 10, 40, 20  # seconds, seconds, requests of each kind, kills
SETTLED, NAMED = 50_000, 50_000
OPERATOR = b"k" * 32
PIECE = 2**16  # bytes that a client sends at a time


class Http:
    """One connection that is kept open; just enough HTTP/1.1 to cost next to nothing."""

    def __init__(self, port, token, kind="application/json"):
        self.port, self.token, self.kind, self.streams = port, token, kind, None

    async def ask(self, method, path, body=b""):
        """Status and body; a connection that broke is opened again once."""
        for _ in range(2):
            try:
                if self.streams is None:
                    self.streams = await asyncio.open_connection("127.0.0.1", self.port)
                reader, writer = self.streams
                head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
                head += f"Content-Type: {self.kind}\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body[:PIECE])
                for at in range(PIECE, len(body), PIECE):
                    writer.write(body[at : at + PIECE])
                    await writer.drain()
                status = int((await reader.readline()).split()[1])
                length = 0
                while (line := await reader.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                return status, await reader.readexactly(length)
            except (OSError, IndexError, asyncio.IncompleteReadError):
                self.streams = None
        raise ConnectionError("the server is gone")


def site(folder, core=CORE):
    """A model of so many rows, each of another person, and a folder for the service."""
    X = drawn(0, core)
    y = X[:, :5].sum(1) > 0
    people = [f"person-{i:06d}" for i in range(core)]
    clf = ErasableClassifier(1.0, threshold=np.inf, sample_rate=1.0, random_state=1, loss="squared", feature_map=None)
    clf.fit(X, y, ids=[f"row-{i:06d}" for i in range(core)], subjects=people).save(folder / "m.erasable")
    token = make_token(folder / "service" / "tokens.json", "bench", SCOPES)
    (folder / "serve.toml").write_text(
        f'models = ["{folder}/m.erasable"]\nfolder = "{folder}/service"\n'
        "body_bytes = 1000000000\nrate = 100000\nburst = 100000\nqueue = 100000\n"
        f'opendsr_certificate = "{folder}/cert.pem"\nopendsr_key = "{folder}/key.pem"\n'
        '[identity_types]\nemail = "subject"\n'
    )
    certificate(folder)
    return X, people, token


def drawn(seed, rows):
    """So many rows."""
    return np.random.default_rng(seed).standard_normal((rows, FEATURES)).astype(np.float32)


def certificate(folder):
    """A certificate that nobody trusts, to sign with."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=3650))
    (folder / "cert.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    (folder / "key.pem").chmod(0o600)


def started(folder, port):
    """A server process, once it answers, and the seconds that took."""
    command = [sys.executable, "-m", "erasable", "serve", "--config", str(folder / "serve.toml"), "--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    begin, mine = time.perf_counter(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # it may use every processor
    with open(folder / "serve.log", "a") as log:
        process = subprocess.Popen(command, env=environment, stderr=log)
    os.sched_setaffinity(0, mine)
    http = Http(port, "none")

    async def wait():
        while process.poll() is None:
            try:
                if (await http.ask("GET", "/v2/health/ready"))[0] == 200:
                    return
            except ConnectionError:
                pass
            await asyncio.sleep(0.02)
        raise RuntimeError((folder / "serve.log").read_text())

    asyncio.run(wait())
    return process, time.perf_counter() - begin


def erasure(person):
    """A request and its body."""
    request_id = str(uuid.uuid4())
    body = {
        "subject_request_id": request_id,
        "subject_request_type": "erasure",
        "submitted_time": "2026-01-02T15:00:00Z",
        "subject_identities": [{"identity_type": "email", "identity_value": person, "identity_format": "raw"}],
    }
    return request_id, json.dumps(body).encode()


def asked_of(x):
    """A body that asks for the prediction of one row."""
    tensor = {"name": "X", "shape": [1, FEATURES], "datatype": "FP32", "data": x.tolist()}
    return json.dumps({"inputs": [tensor]}).encode()


async def mixed(port, token, X, people, seconds, each=10):
    """Eight clients, each nine predictions and an erasure, over and over: times, and what was acknowledged."""
    times = {"predict": [], "accept": []}
    accepted = {}
    end = time.perf_counter() + seconds
    rows = [asked_of(x) for x in X[:64]]
    queue = iter(people)

    async def client(k):
        http, i = Http(port, token), k
        while time.perf_counter() < end:
            i += 1
            begin = time.perf_counter()
            if i % each:
                status, _ = await http.ask("POST", "/v2/models/m/infer", rows[i % 64])
                assert status == 200, status
                times["predict"].append(time.perf_counter() - begin)
            else:
                person = next(queue)
                request_id, body = erasure(person)
                status, _ = await http.ask("POST", "/v2/requests", body)
                assert status == 201, status
                accepted[request_id] = person
                times["accept"].append(time.perf_counter() - begin)

    await asyncio.gather(*map(client, range(CLIENTS)))
    return times, accepted


async def steady(port, token, X, people, seconds, rate=100):
    """So many erasures a second, and as many predictions: times to an answer and, seen every 20 ms, to completion."""
    accept, complete, predict, accepted, waiting = [], [], [], {}, {}
    begin = time.perf_counter()
    queue = iter(people)

    async def one(person, http):
        request_id, body = erasure(person)
        start = time.perf_counter()
        status, _ = await http.ask("POST", "/v2/requests", body)
        assert status == 201, status
        accept.append(time.perf_counter() - start)
        accepted[request_id], waiting[request_id] = person, start

    async def predicting(k):
        http = Http(port, token)
        await asyncio.sleep(k / rate)
        while time.perf_counter() < begin + seconds:
            start = time.perf_counter()
            status, _ = await http.ask("POST", "/v2/models/m/infer", asked_of(X[k]))
            assert status == 200, status
            predict.append(time.perf_counter() - start)
            await asyncio.sleep(max(0.0, start + CLIENTS / rate - time.perf_counter()))

    async def watch():
        http = Http(port, token)
        while time.perf_counter() < begin + seconds or waiting:
            if waiting:
                oldest = next(iter(waiting))
                _, body = await http.ask("GET", f"/v2/requests/{oldest}")
                if json.loads(body)["request_status"] == "completed":
                    complete.append(time.perf_counter() - waiting.pop(oldest))
                    continue
            await asyncio.sleep(0.02)

    watching = asyncio.gather(watch(), *map(predicting, range(CLIENTS)))
    pool = [Http(port, token) for _ in range(CLIENTS)]
    tasks = []
    for k in range(int(seconds * rate)):
        await asyncio.sleep(max(0.0, begin + k / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(one(next(queue), pool[k % CLIENTS])))
        if len(tasks) >= CLIENTS:
            await tasks.pop(0)
    await asyncio.gather(*tasks)
    await watching
    return accept, complete, predict, accepted


async def told_apart(port, token, people, n):
    """How often an erasure took longer for somebody who was stored than for a stranger: half, or it shows."""
    http, times, accepted = Http(port, token), {"stored": [], "unknown": []}, {}
    for k in range(n):
        for kind in sorted(times, reverse=bool(k % 2)):
            person = people[k] if kind == "stored" else f"stranger-{k}@example.org"
            request_id, body = erasure(person)
            start = time.perf_counter()
            status, _ = await http.ask("POST", "/v2/requests", body)
            assert status == 201, status
            accepted[request_id] = person
            while json.loads((await http.ask("GET", f"/v2/requests/{request_id}"))[1])["request_status"] != "completed":
                await asyncio.sleep(0.002)
            times[kind].append(time.perf_counter() - start)
    stored, unknown = (np.array(times[kind])[:, None] for kind in ("stored", "unknown"))
    return float((stored > unknown.T).mean()), accepted


async def while_learning(port, token, X, rows):
    """Times of predictions, 200 a second, until a table of so many rows is learnt; and the seconds that took."""
    table = pyarrow.table({f"f{j}": column for j, column in enumerate(drawn(5, rows).round(3).T)})
    names = pyarrow.array([f"new-{i:06d}" for i in range(rows)])
    for name, column in (("label", pyarrow.array(np.arange(rows) % 2 == 0)), ("id", names), ("who", names)):
        table = table.append_column(name, column)
    body = pyarrow.BufferOutputStream()
    pyarrow.csv.write_csv(table, body)
    sent = body.getvalue().to_pybytes()
    predict, done = [], asyncio.Event()

    async def predicting(k):
        http = Http(port, token)
        while not done.is_set():
            start = time.perf_counter()
            status, _ = await http.ask("POST", "/v2/models/m/infer", asked_of(X[k]))
            assert status == 200, status
            predict.append(time.perf_counter() - start)
            await asyncio.sleep(max(0.0, start + 0.02 - time.perf_counter()))

    clients = [asyncio.create_task(predicting(k)) for k in range(4)]
    begin = time.perf_counter()
    learning = Http(port, token, "text/csv")
    status, _ = await learning.ask("POST", "/v1/learn?id=id&subject=who&label_type=bool", sent)
    assert status == 200, status
    seconds = time.perf_counter() - begin
    done.set()
    await asyncio.gather(*clients)
    return predict, seconds


async def all_completed(port, token, accepted, seconds=60):
    """How many are not, at the end, and how many receipts are missing."""
    http, end = Http(port, token), time.perf_counter() + seconds
    while time.perf_counter() < end:
        found, page = {}, [None] * 10_000
        while len(page) == 10_000:
            _, body = await http.ask("GET", f"/v1/requests?limit=10000&skip={len(found)}")
            page = json.loads(body)
            found |= {one["request_id"]: one for one in page}
        left = [r for r in accepted if r not in found or found[r]["state"] != "completed"]
        owed = [r for r in accepted if r in found and found[r]["receipts"] != ["m"]]
        if not left and not owed:
            return 0, 0
        await asyncio.sleep(0.2)
    return len(left), len(owed)


def percentiles(seconds):
    return [f"{1000 * np.percentile(seconds, q):.1f}" for q in (50, 99, 100)]


def service(options):
    """The section of the results."""
    text = [
        f"## The service under load\n\nA model of {CORE:,} x {FEATURES} rows behind `erasable serve`, squared loss,",
        "one BLAS thread, on two processors in all: the process that answers on the first; on the second those that",
        "change models, read and verify, with niceness 5, and the one process of all the clients. Eight",
        f"clients for {MIXED} seconds, each nine predictions of one row and an erasure, over and over: as fast as they",
        f"are answered; then 100 erasures and 100 predictions a second for {STEADY} seconds; then predictions while a",
        f"table of {LEARNT:,} x {FEATURES} rows is learnt; then {KILLS} kills in the middle of erasures.\n\n",
    ]
    long = [
        "\n\nThe same service on a model of 5,000 rows, started on a ledger without requests and on one with",
        f"{SETTLED:,} settled requests: the start, processor seconds and memory of the process that answers;",
        "predictions of one client while nobody else asks, and while a token reloads a page of 50 requests over and",
        f"over; a batch of {NAMED:,} identities, until it is accepted and until it is completed.\n\n",
    ]
    return " ".join(text) + measured() + " ".join(long) + settled(SETTLED)


def measured(core=CORE, scale=1.0):
    """The table."""
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {1})  # the clients; the server is given both again
    rows, port = [], random.randint(20_000, 32_000)  # below those that the system gives to clients
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "service").mkdir()
        X, people, token = site(folder, core)
        console.print("the model is there")
        process, seconds = started(folder, port)
        rows.append(["start", f"{seconds:.2f} s", "", "", ""])
        times, accepted = asyncio.run(mixed(port, token, X, people, MIXED * scale))
        total = sum(map(len, times.values()))
        for what in times:
            rows.append(
                [f"{what}, 8 clients", f"{len(times[what]) / (MIXED * scale):.0f}/s", *percentiles(times[what])]
            )
        left = asyncio.run(all_completed(port, token, accepted))
        rows.append(["lost acknowledgements, missing receipts", f"{left[0]}, {left[1]} of {len(accepted)}", "", "", ""])
        accept, complete, predict, more = asyncio.run(steady(port, token, X, people[len(accepted) :], STEADY * scale))
        rows.append(["predict, 100/s beside 100 erasures/s", f"{len(predict)}", *percentiles(predict)])
        rows.append(["acceptance, 100/s", f"{len(accept)}", *percentiles(accept)])
        rows.append(["completion, 100/s", f"{len(complete)}", *percentiles(complete)])
        accepted |= more
        longer, more = asyncio.run(told_apart(port, token, people[len(accepted) :], round(PAIRS * scale)))
        rows.append(["longer for the stored than for the unknown", f"{longer:.2f} of pairs", "", "", ""])
        accepted |= more
        asyncio.run(all_completed(port, token, accepted))
        predict, seconds = asyncio.run(while_learning(port, token, X, n := int(LEARNT * scale)))
        what = f"predict, 200/s while {n:,} rows are learnt in {seconds:.1f} s"
        rows.append([what, f"{len(predict)}", *percentiles(predict)])
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        console.print("now the kills, after", rows)
        killed = killing(folder, port, token, people[len(accepted) :], round(KILLS * scale), accepted)
        rows.append(["kills under load", f"{killed}", "", "", ""])
        process, _ = started(folder, port)
        left = asyncio.run(all_completed(port, token, accepted))
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        gone = set(accepted.values())
        clf = load(folder / "m.erasable")
        back = sum(owner in gone for owner in clf._model.core.subjects())
        verify(clf)
        remains = scan(folder, X[:1000], subjects=people[:1000], skip=[folder / "m.erasable"])
        rows.append(["after the kills: lost, missing receipts", f"{left[0]}, {left[1]} of {len(accepted)}", "", "", ""])
        rows.append(["came back; remains found", f"{back}; {len(remains.remains)}", "", "", ""])
        assert total
    return table(["", "", "p50 ms", "p99 ms", "worst ms"], rows)


def killing(folder, port, token, people, kills, accepted):
    """Kill the server in the middle of erasures, again and again; who was erased may be named once more."""
    queue = itertools.cycle(people)

    async def until_gone(process, after):
        http, end = Http(port, token), time.perf_counter() + after
        while True:
            if time.perf_counter() > end and process.poll() is None:
                process.kill()
            person = next(queue)
            request_id, body = erasure(person)
            try:
                status, _ = await http.ask("POST", "/v2/requests", body)
            except (ConnectionError, OSError):
                return
            if status == 201:
                accepted[request_id] = person

    rng = random.Random(1)
    for _ in range(kills):
        process, _ = started(folder, port)
        asyncio.run(until_gone(process, rng.uniform(0.05, 1.5)))
        process.wait()
    return kills


def long_ledger(folder, n, together=500):
    """A ledger of so many settled requests of one controller, with the receipts of two models."""
    folder.mkdir(mode=0o700)
    ledger = Ledger(folder, OPERATOR, Settings(queue=n + 1), lambda: datetime.now(UTC))
    for _ in range(0, n, together):
        filings = [
            Filing(str(uuid.uuid4()), "erasure", [Identity("subject", "raw", "x")], b"", controller="officer")
            for _ in range(together)
        ]
        keys = [entry.key for entry in ledger.accept_each(filings)]
        ledger.begin()
        ledger.complete(keys, ["other", "another"])  # they are not served any more, so no file of theirs is missing
        for model in ("other", "another"):
            ledger.put_receipts(model, dict.fromkeys(keys, "x" * 1100))  # as long as a receipt is
    ledger.close()


def of_process(process):
    """Processor seconds and resident MiB of a process so far."""
    facts = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def while_reloading(port, token, officer, X, seconds):
    """Times of predictions while nobody else asks, and while somebody reloads a page of requests."""
    session = Http(port, officer)
    times = {"quiet": [], "reloading": []}
    rows, now = [asked_of(x) for x in X[:8]], "quiet"

    async def predicting():
        http = Http(port, token)
        for i in itertools.count():
            start = time.perf_counter()
            await http.ask("POST", "/v2/models/m/infer", rows[i % 8])
            times[now].append(time.perf_counter() - start)
            await asyncio.sleep(0.005)

    task = asyncio.create_task(predicting())
    await asyncio.sleep(seconds)
    now, end = "reloading", time.perf_counter() + seconds
    while time.perf_counter() < end:
        status, _ = await session.ask("GET", "/v1/requests?limit=50&sort=urgent")
        assert status == 200, status
    task.cancel()
    return times


async def batch(port, token, people):
    """Seconds until a batch of so many identities is accepted, and until it is completed."""
    http, begin = Http(port, token), time.perf_counter()
    status, body = await http.ask("POST", "/v1/erasures", json.dumps({"identities": people}).encode())
    assert status == 202, status
    accepted, address = time.perf_counter() - begin, "/v1/erasures/" + json.loads(body)["batch"]
    while not json.loads((await http.ask("GET", address))[1])["settled"]:
        await asyncio.sleep(0.05)
    return accepted, time.perf_counter() - begin


def settled(n, core=5000, named=NAMED):
    """A table: an empty ledger, and one of n settled requests."""
    rows, port = [], random.randint(20_000, 32_000)
    for count in (0, n):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "service").mkdir(mode=0o700)
            X, people, token = site(folder, core)
            officer = make_token(folder / "service" / "tokens.json", "officer", ["erase"])
            if count:
                (folder / "service" / "operator.key").write_bytes(OPERATOR)
                (folder / "service" / "operator.key").chmod(0o600)
                long_ledger(folder / "service" / "requests", count)
            process, seconds = started(folder, port)
            spent, memory = of_process(process)
            times = asyncio.run(while_reloading(port, token, officer, X, 5))
            middles = [f"{1000 * np.median(times[what]):.2f}" for what in ("quiet", "reloading")]
            took = asyncio.run(batch(port, token, [*people, *(f"nobody-{i:06d}" for i in range(named - core))]))
            rows.append(
                [f"{count:,}", f"{seconds:.1f}", f"{spent:.2f}", f"{memory:.0f}", *middles, *map("{:.1f}".format, took)]
            )
            process.kill()  # nothing is kept
            process.wait(60)
            console.print(rows[-1])
    heads = ["settled", "start s", "its processor s", "MiB", "predict p50 ms", "while reloading", "batch accepted s"]
    return table([*heads, "completed s"], rows)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0, help="how many times as long")
    parser.add_argument("--core", type=int, default=CORE)
    parser.add_argument("--settled", type=int, default=0)
    asked = parser.parse_args()
    if asked.settled:
        print(settled(asked.settled, named=asked.settled))
        return
    print(measured(asked.core, asked.scale))


if __name__ == "__main__":
    main()
