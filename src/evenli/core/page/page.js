"use strict";
// Strings from models and data enter the page through textContent only; nothing here builds markup from text.
const evenli = {
  make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  },
  // A number as text sorts by its value; what is no number, such as n/a, comes last.
  key(cell) {
    const text = cell.dataset.v ?? cell.textContent.trim();
    const value = Number.parseFloat(text.replace(/^[^\d+-]*(?=[+-]?\d)/, "").replaceAll(",", ""));
    return Number.isNaN(value) ? -Infinity : value;
  },
  // Turns column heads into buttons. rows are sorted in place; after() puts what belongs to a row below it.
  sortable(table, rows, after) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return; // remarks have no title, and a button without one has no name
      const button = evenli.make("button", head.textContent.trim());
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const numeric = head.classList.contains("n");
        const before = head.getAttribute("aria-sort");
        const order = before ? (before === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const text = (row) => row.cells[column]?.textContent ?? "";
        rows.sort((a, b) => {
          if (!a.cells[column] || !b.cells[column]) return 0;
          return sign * (numeric ? evenli.key(a.cells[column]) - evenli.key(b.cells[column]) || 0 : text(a).localeCompare(text(b)));
        });
        for (const row of rows) {
          body.append(row);
          if (after) after(row, body);
        }
      });
    });
  },
  // A field above a table that hides the rows without the words typed.
  filterable(table, rows) {
    const box = evenli.make("div", undefined, "controls");
    const label = evenli.make("label", "Search this table");
    const search = evenli.make("input");
    search.type = "search";
    search.autocomplete = "off";
    label.append(search);
    const status = evenli.make("p", undefined, "meta");
    status.setAttribute("role", "status");
    box.append(label, status);
    table.parentElement.before(box);
    const update = () => {
      const wanted = search.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      status.textContent = shown + " of " + rows.length + " rows";
    };
    search.addEventListener("input", update);
    update();
  },
};
for (const table of document.querySelectorAll("table[data-sort]")) {
  const rows = [...table.tBodies[0].rows];
  if (table.hasAttribute("data-filter")) evenli.filterable(table, rows);
  evenli.sortable(table, rows);
}
// The link of the part that is read is marked, so that the bar shows where one is.
(() => {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = links.get(entry.target.id);
      if (!entry.isIntersecting || !link) continue;
      links.forEach((other) => other.removeAttribute("aria-current"));
      link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "0px 0px -70% 0px" });
  for (const id of links.keys()) {
    const part = document.getElementById(id);
    if (part) seen.observe(part);
  }
})();
