"""Pictures of every kind of page at three sizes, light, dark and on paper, for docs/screenshots and for one's own eyes.

    evenli audit --suite coal,probe,dev2020 --report -o runs/en
    python tools/screenshots.py report=runs/en/report.html -o docs/screenshots --dark --print
    python tools/screenshots.py --runs runs/ -o docs/screenshots          # the pages of `evenli view`

Needs playwright and chromium (EVENLI_CHROMIUM, or the one on the path).
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = {1440: 900, 820: 1100, 390: 844}
A4 = {"width": 794, "height": 1123}  # pixels of a sheet at 96 dots an inch
PATIENCE = 240_000  # milliseconds; a busy machine draws slowly


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="HTML files, as FILE or NAME=FILE")
    parser.add_argument("--runs", type=Path, help="folder of runs: pictures of the list, a comparison and a question")
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/screenshots"))
    parser.add_argument("--widths", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--whole", action="store_true", help="the whole page, not the first screen")
    parser.add_argument("--dark", action="store_true", help="dark pictures, too")
    parser.add_argument(
        "--print", action="store_true", dest="paper", help="the first sheet, too, and how many there are"
    )
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    given.out.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("EVENLI_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for page in given.pages:
            name, _, file = page.rpartition("=")
            photograph(browser, name or Path(file).stem, Path(file).resolve().as_uri(), given)
        if given.runs is not None:
            with serving(given.runs) as addresses:
                for name, address in addresses.items():
                    photograph(browser, name, address, given)
        browser.close()


def photograph(browser: Any, name: str, address: str, given: argparse.Namespace) -> None:
    """One page at all widths and in all colours that are asked for."""
    for scheme in ("light", "dark") if given.dark else ("light",):
        opened = browser.new_page(color_scheme=scheme)
        opened.set_default_timeout(PATIENCE)
        opened.goto(address)
        for width in given.widths:  # loaded once: a report takes longer to load than to draw
            opened.set_viewport_size({"width": width, "height": SIZES.get(width, 900)})
            opened.evaluate("window.scrollTo(0, 0)")
            file = f"{name}-{width}{'-dark' if scheme == 'dark' else ''}.webp"
            (given.out / file).write_bytes(to_webp(browser, opened.screenshot(full_page=given.whole)))
        opened.close()
    if given.paper:
        opened = browser.new_page(viewport=A4)
        opened.set_default_timeout(PATIENCE)
        opened.goto(address)
        print(f"{name}: {pages_of(opened.pdf(format='A4'))} pages of A4")
        opened.emulate_media(media="print")
        (given.out / f"{name}-print.webp").write_bytes(to_webp(browser, opened.screenshot()))
        opened.close()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """Addresses of the pages of ``evenli view``: the list, the newest two runs that can be compared, a question."""
    import uvicorn

    from evenli.audit.report.gallery import make_app
    from evenli.audit.report.runs import Runs, find_runs

    runs = [run for run in find_runs(folder) if not run.problem]
    second, first = next(
        (one, other) for one in runs for other in runs if one is not other and one.pairs == other.pairs
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(make_app(Runs(folder), "t", port), log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        root = f"http://127.0.0.1:{port}/t/"
        yield {
            "view": root,
            "view-compare": f"{root}compare?run={first.id}&run={second.id}",
            "view-ask": f"{root}ask/{first.id}",
        }
        server.should_exit = True
        thread.join(timeout=20)


def to_webp(browser: Any, png: bytes) -> bytes:
    """A picture as WebP, a third of the size; the browser has the encoder."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    encoded = page.evaluate(
        """async (source) => {
            const image = new Image();
            image.src = source;
            await image.decode();
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [image.width, image.height];
            canvas.getContext("2d").drawImage(image, 0, 0);
            return canvas.toDataURL("image/webp", 0.8);
        }""",
        source,
    )
    page.close()
    return base64.b64decode(encoded.partition(",")[2])


def pages_of(pdf: bytes) -> int:
    """How many pages a PDF file of chromium has."""
    return pdf.count(b"/Type /Page\n") or pdf.count(b"/Type /Page/") or pdf.count(b"/Type /Page ")


if __name__ == "__main__":
    main()
