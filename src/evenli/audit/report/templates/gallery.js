"use strict";
// Rows whose text holds every word of the filter stay; nothing else happens here.
const box = document.querySelector("input[type=search]");
const count = document.querySelector("#count");
if (box) {
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of document.querySelectorAll("tbody tr")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} shown`;
  });
}
