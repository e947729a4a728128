// The table of the benchmark: filters by label, sorted by a click on a heading.

const rows = JSON.parse(document.getElementById("data").textContent);
const AXES = [...new Set(rows.flatMap((row) => Object.keys(row.labels)))];
const interval = (name) => (row) => ({ value: row[name].mean, text: `${row[name].mean.toFixed(1)} \u00b1 ${row[name].half_width.toFixed(1)}` });
const number = (name) => (row) => ({ value: row[name], text: row[name] === null ? "\u2013" : String(row[name]) });
const COLUMNS = [
  ...AXES.map((axis) => ({ name: axis, of: (row) => ({ value: row.labels[axis] ?? "", text: row.labels[axis] ?? "" }), word: true })),
  { name: "averaged", of: interval("averaged") },
  { name: "mean agent", of: interval("mean_agent") },
  { name: "worst agent", of: interval("worst_agent") },
  { name: "MB per agent", of: number("megabytes") },
  { name: "simulated s", of: number("simulated_seconds") },
  { name: "rounds", of: number("rounds") },
  { name: "gradients", of: number("gradients") },
  { name: "step size", of: (row) => ({ value: row.lr, text: `${row.lr}${row.at_edge ? " (edge)" : ""}` }) },
  { name: "momentum", of: number("momentum") },
  { name: "trials", of: number("trials") },
  { name: "seeds", of: (row) => ({ value: row.seeds.length, text: row.seeds.join(", ") + (row.diverged ? ` (${row.diverged} diverged)` : "") }) },
  { name: "commit", of: (row) => ({ value: row.commit, text: row.commit }), word: true },
];
const chosen = {};
let sorted = { column: COLUMNS.findIndex((column) => column.name === "mean agent"), down: true };

const $ = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null) return 1;
  if (b === null) return -1;
  const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return sorted.down ? -order : order;
}

function showFilters() {
  $("filters").replaceChildren(...AXES.map((axis) => {
    const values = [...new Set(rows.map((row) => row.labels[axis] ?? ""))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const change = (event) => { chosen[axis] = event.target.value; showRows(); };
    const options = values.map((value) => el("option", { value: `=${value}` }, value));
    return el("label", {}, axis, el("select", { name: axis, onchange: change }, el("option", { value: "" }, "all"), ...options));
  }));
}

function showHead() {
  $("head").replaceChildren(...COLUMNS.map((column, at) => {
    const press = () => { sorted = { column: at, down: sorted.column === at ? !sorted.down : !column.word }; showHead(); showRows(); };
    const sort = sorted.column === at ? (sorted.down ? "descending" : "ascending") : null;
    return el("th", { scope: "col", class: column.word ? null : "number", "aria-sort": sort }, el("button", { type: "button", onclick: press }, column.name));
  }));
}

function showRows() {
  const shown = rows.filter((row) => AXES.every((axis) => !chosen[axis] || `=${row.labels[axis] ?? ""}` === chosen[axis]));
  shown.sort((a, b) => compare(COLUMNS[sorted.column].of(a).value, COLUMNS[sorted.column].of(b).value));
  $("body").replaceChildren(...shown.map((row) => el("tr", {}, ...COLUMNS.map((column) => el("td", { class: column.word ? null : "number" }, column.of(row).text)))));
  $("count").textContent = `${shown.length} of ${rows.length} rows.`;
}

showFilters();
showHead();
showRows();
