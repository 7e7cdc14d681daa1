// The table of occupations: search, filter, sentences of a row.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const labels = data.labels;
  const make = evenli.make;
  const percent = (thousandth) => (thousandth / 10).toFixed(1) + "%";
  const winner = (row) => [0, 1, 2].reduce((best, i) => (row[4 + i] > row[4 + best] ? i : best), 0);

  const sentences = (rows, lang, name) => {
    const table = make("table");
    table.append(make("caption", "Sentences about " + name + " with the model's probabilities; its answer is underlined"));
    const head = make("tr");
    for (const title of ["premise → hypothesis", "set", "group", ...labels]) {
      const cell = make("th", title, labels.includes(title) ? "n" : "");
      cell.scope = "col";
      head.append(cell);
    }
    const top = make("thead");
    top.append(head);
    const body = make("tbody");
    for (const row of rows) {
      const line = make("tr");
      const text = make("td", undefined, "text");
      if (lang) text.lang = lang;
      text.append(make("div", data.texts[row[0]]), make("div", "→ " + data.texts[row[1]]));
      line.append(text, make("td", data.names[row[2]]), make("td", data.names[row[3]]));
      labels.forEach((label, i) => {
        const cell = make("td", percent(row[4 + i]), winner(row) === i ? "n answer" : "n");
        cell.dataset.label = label; // shown on phones, where the head does not fit
        line.append(cell);
      });
      body.append(line);
    }
    table.append(top, body);
    return table;
  };

  for (const section of document.querySelectorAll("[data-run]")) {
    const run = data.runs[Number(section.dataset.run)];
    const table = section.querySelector(".tall > table");
    const rows = [...table.tBodies[0].rows];
    const search = section.querySelector("input");
    const filter = section.querySelector("select");
    const status = section.querySelector("[role=status]");
    section.querySelector(".controls").hidden = false;

    // A preview in a place of its own below the table: a card at the pointer hides the columns one is reading.
    const peek = make("div", undefined, "peek");
    peek.setAttribute("aria-hidden", "true"); // the same sentences, for every reader, are in the row that opens
    table.parentElement.after(peek);
    const empty = () => peek.replaceChildren(make("p", "Point at an occupation to preview its sentences here; choose it to read all of them."));
    empty();
    const preview = (asked, name) => {
      peek.replaceChildren(make("strong", name));
      for (const row of [...asked].sort((a, b) => a[5] - b[5]).slice(0, 2)) {
        const answer = winner(row);
        peek.append(make("p", data.texts[row[0]] + " → " + data.texts[row[1]] + " " + labels[answer] + " " + percent(row[4 + answer])));
      }
    };
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") empty();
    });

    const details = new Map();
    const close = (row) => {
      const detail = details.get(row);
      if (!detail) return;
      detail.remove();
      details.delete(row);
      row.querySelector("button").setAttribute("aria-expanded", "false");
    };
    const open = (row) => {
      const asked = run.rows[Number(row.dataset.o)] || [];
      const name = row.querySelector("button").textContent;
      const detail = make("tr", undefined, "detail");
      const cell = make("td");
      cell.colSpan = row.cells.length;
      const missing = "The sentences of this occupation were left out to keep the file small; they are in predictions.parquet.";
      const box = make("div");
      box.append(asked.length ? sentences(asked, run.lang, name) : make("p", missing));
      cell.append(box);
      detail.append(cell);
      row.after(detail);
      details.set(row, detail);
      row.querySelector("button").setAttribute("aria-expanded", "true");
    };
    for (const row of rows) {
      const first = row.cells[0];
      const button = make("button", first.textContent.trim());
      button.type = "button";
      button.setAttribute("aria-expanded", "false");
      first.replaceChildren(button);
      row.addEventListener("click", () => (details.has(row) ? close(row) : open(row)));
      row.addEventListener("mouseenter", () => preview(run.rows[Number(row.dataset.o)] || [], button.textContent));
    }
    table.addEventListener("mouseleave", empty);

    const update = () => {
      const wanted = search.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) {
        const fits = (!wanted || row.cells[0].textContent.toLowerCase().includes(wanted)) && (!filter.value || row.dataset.s === filter.value);
        row.hidden = !fits;
        if (!fits) close(row);
        shown += fits ? 1 : 0;
      }
      status.textContent = shown + " of " + rows.length + " occupations";
    };
    search.addEventListener("input", update);
    filter.addEventListener("change", update);
    update();
    evenli.sortable(table, rows, (row, body) => {
      if (details.has(row)) body.append(details.get(row));
    });
  }
})();
