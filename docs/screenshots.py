"""Make the pictures of the officer's tutorial: a real service, driven in a real browser.

pip install selenium            # and Debian's chromium and chromium-driver
python docs/screenshots.py      # writes docs/img/console-*.png
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

IMAGES = Path(__file__).parent / "img"
ADDRESS = "http://127.0.0.1:8093"


def erasable(folder: Path, *words: str) -> str:
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "erasable", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def prepare(folder: Path) -> str:
    """Learn two models of made-up customers; return a token."""
    draw = random.Random(0)
    lines = ["id,customer,town,amount,returned"]
    for i in range(4000):
        town, amount = draw.choice(["Ghent", "Delft", "Oslo"]), draw.randint(5, 200)
        label = "yes" if (town == "Oslo") + (amount > 100) + draw.gauss(0, 0.5) > 1 else "no"
        lines.append(f"r{i},customer-{i % 400:03d},{town},{amount},{label}")
    (folder / "orders.csv").write_text("\n".join(lines) + "\n")
    erasable(
        folder, *["schema", "orders.csv", "--label", "returned", "--id", "id", "--subject", "customer", "-o", "s.toml"]
    )
    for name in ("returns", "credit"):
        erasable(folder, "learn", "orders.csv", "--schema", "s.toml", "-o", f"{name}.erasable")
    (folder / "erasable-service").mkdir()
    words = "token make officer --scope erase --scope audit --file erasable-service/tokens.json"
    return erasable(folder, *words.split()).split()[-1]


def wait_for(page: str, text: str, browser: webdriver.Chrome) -> None:
    """Reload a page until it shows a text."""
    for _ in range(120):
        browser.get(page)
        if re.search(text, browser.page_source):
            return
        time.sleep(0.5)
    raise SystemExit(f"{page} never showed {text!r}")


def journey(browser: webdriver.Chrome, token: str) -> None:
    """File two requests, follow them, and take a picture of every step."""

    def press(words: str) -> None:
        browser.find_element(By.XPATH, f"//main//button[contains(., '{words}')]").click()

    def picture(name: str) -> None:
        height = browser.execute_script("return document.documentElement.scrollHeight")
        browser.set_window_size(1000, min(max(420, height + 20), 1100))
        browser.save_screenshot(str(IMAGES / f"console-{name}.png"))

    browser.get(ADDRESS)
    browser.find_element(By.ID, "token").send_keys(token)
    press("Sign in")
    picture("overview")
    browser.get(f"{ADDRESS}/requests/new")
    browser.find_element(By.ID, "value").send_keys("customer-007\ncustomer-042")
    browser.find_element(By.ID, "reference").send_keys("DSR-2026-118")
    picture("file")
    press("Continue")
    picture("confirm")
    browser.find_element(By.CSS_SELECTOR, "main form button.main").click()
    cases = f"{ADDRESS}/requests?q=DSR-2026-118"
    browser.get(cases)
    for link in [a.get_attribute("href") for a in browser.find_elements(By.CSS_SELECTOR, "main table a")]:
        wait_for(link, "Download receipt", browser)
    picture("request")
    browser.get(cases)
    picture("cases")


def main() -> None:
    """Serve, drive, stop."""
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token = prepare(folder)
        command = [sys.executable, "-m", "erasable", "serve", "returns.erasable", "credit.erasable", "--port", "8093"]
        service = subprocess.Popen(command, cwd=folder)
        try:
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{ADDRESS}/v2/health/ready").close()
                    break
                except OSError:
                    time.sleep(0.25)
            browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))  # no downloads
            journey(browser, token)
            browser.quit()
        finally:
            service.terminate()
            service.wait(60)


if __name__ == "__main__":
    main()
