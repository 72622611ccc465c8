"""Take the pictures of docs/screen-walk.md from the running software.

`python tools/screen_walk.py [FOLDER]` needs the extras `serve` and `search`, playwright, Pillow and Chromium
(`RANKLOOP_CHROMIUM` names another program). It starts `rankloop search docs` and `rankloop serve --demo` on free ports
with empty data folders, and lets simulated users search, click and buy through the HTTP API. It writes four PNG files
of 64 colours to FOLDER, by default docs/images. It takes about two minutes. The users are drawn from fixed seeds; the
times on the curves and the moment at which each update is learned are not, so two runs differ in some numbers.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = os.environ.get("RANKLOOP_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDTH, HEIGHT = 1200, 900
N_COLOURS = 64
MARGIN = 20  # pixels around what a picture shows
TOP, BOTTOM = (f"one => one.getBoundingClientRect().{side} + window.scrollY" for side in ("top", "bottom"))
START_SECONDS = 120.0  # kernels may have to be compiled first
N_SEARCHES, N_VISITS, N_USERS = 240, 900, 1500
PAUSE_SECONDS = 0.03  # between visits, so that the curves have some length
N_READ = 4  # results or products at which a simulated user looks
TYPO = "purchse experimnt"  # read as "purchase experiment"
WANTED = {  # by query: the page that the simulated users look for
    "purchase experiment": "guides/from-log-to-experiment.md",
    "search typo": "search-quality.md",
    "backup restore": "guides/operate-the-service.md",
    "keys of callers": "security.md",
    "position bias": "evaluation.md",
    "missing values": "features.md",
    "new learner": "guides/add-a-learner.md",
    "ad slot": "guides/ad-slot.md",
}
BRANDS = {"Acme": 0.9, "Birch": 0.2, "Coral": -0.3, "Delta": -0.9}  # what they add to the taste of the users
SHOP = {
    "learner": "click_regression",
    "problem": {"schema": {"features": {"price": "number", "stars": "number", "brand": "category"}}, "shown": 8},
    "outcomes": {"purchase": {"weight": 5, "window": "7d"}, "revenue": {"weight": 0, "window": "7d"}},
}
EXPERIMENT = {"a": {"ranker": "shop"}, "b": {"kind": "given_order"}, "method": "split"}


@contextlib.contextmanager
def running(*command: str) -> Iterator[str]:
    """Run a command of rankloop on a free port; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    arguments = [sys.executable, "-m", "rankloop", *command, "--port", address.rpartition(":")[2]]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        wait_until_ready(address)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def wait_until_ready(address: str) -> None:
    """Return when the service answers that it is ready; raise if it does not."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/healthz").is_success:
                return
        time.sleep(0.2)
    raise SystemExit(f"{address} is not ready after {START_SECONDS:.0f} s")


def post(client: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    """Return the answer to a request."""
    return client.post(path, json=body).raise_for_status().json()


def search_documents(address: str) -> None:
    """Let simulated users search; each opens the page that is wanted, if it is among the first results."""
    draws = random.Random(1)
    with httpx.Client(base_url=address, timeout=60) as client:
        for _ in range(N_SEARCHES):
            query, page = draws.choice(list(WANTED.items()))
            answer = post(client, "/search", {"text": query, "n": 10})
            ids = [result["id"] for result in answer["results"]]
            clicks = [id for id in ids if id == page or (id in ids[:N_READ] and draws.random() < 0.1)]
            post(client, "/search/clicks", {"impression": answer["impression"], "clicks": clicks, "final": True})
            time.sleep(2 * PAUSE_SECONDS)


def products(draws: random.Random) -> dict[str, dict[str, Any]]:
    """Return the products of one page in the order of the shop, which knows nothing of taste."""
    rows = (
        {"price": round(draws.lognormvariate(3, 0.6), 2), "stars": round(draws.uniform(2, 5), 1), "brand": brand}
        for brand in draws.choices(list(BRANDS), k=8)
    )
    return {f"p{draws.randrange(10_000)}-{position}": row for position, row in enumerate(rows)}


def visit_shop(client: httpx.Client, path: str, user: str, draws: random.Random) -> None:
    """Let one simulated user see a page, click what is liked and sometimes buy it."""
    page = products(draws)
    items = [{"id": id, "features": row} for id, row in page.items()]
    shown = post(client, f"{path}/rank", {"user": user, "items": items})
    clicks, sold = [], {}
    for id in shown["ranking"][:N_READ]:
        row = page[id]
        liking = BRANDS[row["brand"]] + 0.5 * (row["stars"] - 3.5) - 0.02 * (row["price"] - 22)
        if draws.random() < min(0.9, max(0.02, 0.25 + 0.2 * liking)):
            clicks.append(id)
            if draws.random() < min(0.6, max(0.02, 0.15 + 0.15 * liking)):
                sold[id] = row["price"]
    outcomes = {"purchase": dict.fromkeys(sold, 1), "revenue": sold}
    feedback = {"impression": shown["impression"], "clicks": clicks, "outcomes": outcomes, "final": True}
    post(client, f"{path}/feedback", feedback)


def fill_shop(address: str, page: Any) -> None:
    """Let the ranker of the shop learn from visits, while the page is open."""
    draws = random.Random(2)
    with httpx.Client(base_url=address, timeout=60) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        page.goto(f"{address}/#shop")
        for number in range(N_VISITS):
            visit_shop(client, "/rankers/shop", f"learner-{number}", draws)
            page.wait_for_timeout(1000 * PAUSE_SECONDS)


def compare_in_shop(address: str) -> None:
    """Let other users see either the learned order or the order of the shop."""
    draws = random.Random(3)
    with httpx.Client(base_url=address, timeout=60) as client:
        post(client, "/demo/users", {"users": 500})  # for the interleaving of the demo
        client.put("/experiments/learned-or-today", json=EXPERIMENT).raise_for_status()
        for number in range(N_USERS):
            visit_shop(client, "/experiments/learned-or-today", f"u{number}", draws)


def save(picture: bytes, path: Path) -> None:
    """Write a picture with few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(N_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB, {image.width} x {image.height}")


def picture_until(page: Any, top: float, last: str) -> bytes:
    """Return a picture of the page from `top` to the end of the element that the selector `last` names."""
    bottom = page.locator(last).evaluate(BOTTOM)
    clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom + MARGIN - top}
    picture: bytes = page.screenshot(full_page=True, clip=clip)
    return picture


def walk_search(page: Any, data: Path, folder: Path) -> None:
    """Take the pictures of the search page and of its owner's page."""
    with running("search", "docs", "--data", str(data), "--no-open") as address:
        search_documents(address)
        page.goto(f"{address}/search")
        page.fill("#query", TYPO)
        page.press("#query", "Enter")
        page.wait_for_selector("#results[data-impression]:not([data-impression=''])")
        page.locator("#results .why").first.click()
        page.wait_for_selector("#results .reasons table")
        page.mouse.move(0, 0)
        page.wait_for_timeout(800)
        save(page.screenshot(), folder / "walk-search.png")
        page.goto(f"{address}/search/owner")
        page.wait_for_selector("#chart-first canvas")
        page.wait_for_timeout(5000)
        save(page.screenshot(full_page=True), folder / "walk-owner.png")


def walk_shop(page: Any, data: Path, folder: Path) -> None:
    """Take the pictures of a ranker's page and of an A/B test."""
    with running("serve", "--demo", "--data", str(data)) as address:
        fill_shop(address, page)
        page.wait_for_timeout(7000)  # names of weights are asked for every five seconds
        save(picture_until(page, 0, ".charts"), folder / "walk-shop.png")
        compare_in_shop(address)
        experiment = page.locator("[data-experiment='learned-or-today']")
        experiment.locator("tbody tr").first.wait_for()
        page.wait_for_timeout(3000)
        top = page.locator("section:has(> #experiments)").evaluate(TOP)
        save(picture_until(page, top - MARGIN, "section:has(> #experiments)"), folder / "walk-experiment.png")


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        walk_search(page, Path(data) / "search", folder)
        walk_shop(page, Path(data) / "shop", folder)
        browser.close()


if __name__ == "__main__":
    main()
