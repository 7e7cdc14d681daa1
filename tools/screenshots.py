"""Pictures of every kind of page at three sizes, light, dark and on paper, for docs/screenshots and for one's own eyes.

    evenli audit --suite coal,probe,dev2020 --report -o runs/en
    python tools/screenshots.py runs/en/report.html -o docs/screenshots --dark --print

Needs playwright and chromium (EVENLI_CHROMIUM, or the one on the path).
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
from pathlib import Path
from typing import Any

SIZES = {1440: 900, 820: 1100, 390: 844}


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/screenshots"))
    parser.add_argument("--widths", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--whole", action="store_true", help="the whole page, not the first screen")
    parser.add_argument("--dark", action="store_true", help="dark pictures, too")
    parser.add_argument(
        "--print", action="store_true", dest="paper", help="PDF files, too, and how many pages they have"
    )
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    given.out.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("EVENLI_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for page in given.pages:
            for width in given.widths:
                for scheme in ("light", "dark") if given.dark else ("light",):
                    size = {"width": width, "height": SIZES.get(width, 900)}
                    opened = browser.new_page(viewport=size, color_scheme=scheme)
                    opened.goto(page.resolve().as_uri())
                    name = f"{page.stem}-{width}{'-dark' if scheme == 'dark' else ''}"
                    picture = opened.screenshot(full_page=given.whole)
                    (given.out / f"{name}.webp").write_bytes(to_webp(browser, picture))
                    opened.close()
            if given.paper:
                opened = browser.new_page()
                opened.goto(page.resolve().as_uri())
                content = opened.pdf(format="A4", path=given.out / f"{page.stem}.pdf")
                print(f"{page}: {pages_of(content)} pages of A4")
                opened.close()
        browser.close()


def to_webp(browser: Any, png: bytes) -> bytes:
    """A picture as WebP, a third of the size; the browser has the encoder."""
    page = browser.new_page()
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    encoded = page.evaluate(
        """async (source) => {
            const image = new Image();
            image.src = source;
            await image.decode();
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [image.width, image.height];
            canvas.getContext("2d").drawImage(image, 0, 0);
            return canvas.toDataURL("image/webp", 0.85);
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
