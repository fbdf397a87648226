// Pages follow what they show while it goes on. Everything works without this file, too.

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function told(url) {
  const answer = await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  return answer.ok && !answer.redirected ? answer.json() : null;
}

async function follow(url, going, change) {
  for (let wait = 300; ; wait = Math.min(wait * 1.3, 3000)) {
    await pause(wait);
    const found = await told(url).catch(() => null);
    if (found === null) continue;
    change(found);
    if (!going(found)) return location.reload();
  }
}

for (const card of document.querySelectorAll("[data-request][data-going=yes]")) {
  const list = card.querySelector(".steps");
  follow(card.dataset.request, (found) => found.going, (found) => {
    found.steps.forEach((step, i) => list.children[i]?.classList.toggle("done", step.done));
  });
}

for (const line of document.querySelectorAll("[data-verify][data-going=yes]")) {
  const bar = line.querySelector("progress");
  follow(`/verify/${encodeURIComponent(line.dataset.verify)}/state.json`, (found) => found.state === "running", (found) => {
    if (!bar) return;
    bar.max = found.total || 1;
    bar.value = found.done;
  });
}
