// One choice for each attribute of the rows, on top of the search field that the table has already.
(() => {
  const box = document.getElementById("filters");
  const rows = [...document.getElementById("models").tBodies[0].rows];
  const chosen = new Map();
  const search = document.querySelector("main input[type=search]");
  // Runs after the search, which shows and hides every row by its words.
  search.addEventListener("input", () => {
    for (const row of rows) {
      const fits = [...chosen].every(([name, value]) => value === "" || row.dataset[name] === value);
      if (!fits) row.hidden = true;
    }
    const status = document.querySelector("main [role=status]");
    status.textContent = rows.filter((row) => !row.hidden).length + " of " + rows.length + " rows";
  });
  for (const name of ["language", "size", "data", "source"]) {
    const values = [...new Set(rows.map((row) => row.dataset[name]).filter((value) => value))].sort();
    const label = evenli.make("label", name + " ");
    const select = evenli.make("select");
    for (const value of ["", ...values]) {
      const option = evenli.make("option", value || "all");
      option.value = value;
      select.append(option);
    }
    select.addEventListener("change", () => {
      chosen.set(name, select.value);
      search.dispatchEvent(new Event("input"));
    });
    label.append(select);
    box.append(label);
  }
})();
