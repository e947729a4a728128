// The table of results: the paper's numbers beside ours for a reproduction, else a line for each combination.

const ENDS = { finished: "finished", diverged: "diverged", interrupted: "interrupted", begun: "not ended" };

function spread(values, digits = 1) {
  const some = values.filter(known);
  if (!some.length) return { text: "\u2013", value: null };
  const band = some.length > 1 ? ` \u00b1 ${fixed(deviation(some), digits)}` : "";
  return { text: fixed(mean(some), digits) + band, value: mean(some), number: true };
}

function endOf(runs) {
  const ends = Object.keys(ENDS).filter((end) => runs.some((run) => run.ended === end));
  if (runs.length === 1) return [ENDS[runs[0].ended] ?? runs[0].ended, runs[0].ended === "begun" ? `at ${Math.round(100 * runs[0].progress)} %` : runs[0].reason].filter(Boolean).join(": ");
  return ends.map((end) => `${ENDS[end]} ${runs.filter((run) => run.ended === end).length} of ${runs.length}`).join(", ");
}

const finals = (group, name) => group.runs.map((run) => last(run.curve[name]));

function ownTable() {
  const axes = page.data.axes.map((axis, number) => [axis, (group) => labelled(group.labels[number])]);
  const tested = occurs("accuracy") || !quantities((one) => one.in_table).some(occurs);
  const accuracies = !tested ? [] : [
    ["averaged model", (group) => ({ ...spread(finals(group, "accuracy")), strong: true })],
    ["mean agent", (group) => spread(finals(group, "mean_agent"))],
    ["worst agent", (group) => spread(finals(group, "worst_agent"))],
  ];
  const others = quantities((one) => one.in_table).filter((name) => occurs(name) && !["accuracy", "mean_agent", "worst_agent"].includes(name));
  const columns = [
    ...axes,
    ...accuracies,
    ...others.map((name) => [quantity(name).label, (group) => spread(finals(group, name), quantity(name).percent ? 1 : 3)]),
    ["epochs", (group) => spread([mean(finals(group, "epoch").filter(known))].filter(isFinite))],
    ["sent", (group) => bytesSent(group)],
    ["seeds", (group) => ({ text: String(group.runs.length), value: group.runs.length, number: true })],
    ["status", (group) => ({ text: endOf(group.runs), value: endOf(group.runs), long: true })],
  ];
  const wanted = page.data.kind === "run" ? columns.filter(([name]) => name !== "seeds") : columns;
  return {
    names: wanted.map(([name]) => name),
    rows: page.groups.map((group) => wanted.map(([, cell]) => cell(group))),
    note: `${tested ? "Accuracy on the test set in percent" : "Metrics"}, at the last evaluation` + (page.groups.some((group) => group.runs.length > 1) ? "; mean and standard deviation over seeds." : "."),
  };
}

function bytesSent(group) {
  const bytes = finals(group, "bytes_sent").filter(known);
  return { text: bytes.length ? inBytes(mean(bytes)) : "\u2013", value: bytes.length ? mean(bytes) : null, number: true };
}

const labelled = (text) => ({ text, value: text !== "" && isFinite(text) ? Number(text) : text, number: text !== "" && isFinite(text) });

const PAPER = {
  split: "split", graph: "graph", agents: "agents", method: "method", variant: "variant", paper: "paper", averaged: "ours: averaged model",
  mean_agent: "mean agent", worst_agent: "worst agent", difference: "ours \u2212 paper", epochs: "epochs", seeds: "seeds", status: "status",
};

function paperTable(reproduction) {
  const splits = new Set(reproduction.rows.map((row) => row.split)); // one alone is named by the title
  const names = Object.keys(PAPER).filter((name) => name !== "split" || splits.size > 1);
  const cell = (row, name) => {
    const value = row[name];
    if (!known(value)) return { text: "\u2013", value: null, number: !["split", "graph", "method", "variant", "status"].includes(name) };
    if (typeof value === "string") return { ...labelled(value), number: name === "paper", long: name === "status", strong: name === "paper" };
    const band = name === "averaged" && known(row.spread) ? ` \u00b1 ${fixed(row.spread)}` : "";
    const sign = name === "difference" && value > 0 ? "+" : "";
    const digits = ["agents", "seeds"].includes(name) || (name === "epochs" && Number.isInteger(value)) ? 0 : 1;
    return { text: sign + fixed(value, digits) + band, value, number: true, strong: name === "averaged" };
  };
  const scale = { paper: "At the paper's scale.", digits: "On digits, a small stand-in for the paper's data: only the order of the methods can be compared." }[reproduction.scale];
  return {
    names: names.map((name) => PAPER[name]),
    rows: reproduction.rows.map((row) => names.map((name) => cell(row, name))),
    note: [reproduction.table && `Table ${reproduction.table}.`, reproduction.note ? "" : scale, "Accuracy on the test set in percent; \u00b1 is the standard deviation over seeds.", reproduction.note].filter(Boolean).join(" "),
  };
}

/** Numbers before words, and what is not known last, in either direction. */
function compare(a, b, down) {
  const rank = (value) => (!known(value) ? 2 : typeof value === "number" ? 0 : 1);
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  if (!known(a)) return 0;
  const order = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
  return down ? -order : order;
}

function showTable() {
  const table = page.data.reproduction ? paperTable(page.data.reproduction) : ownTable();
  const sort = choice.sort;
  const rows = sort === null ? table.rows : [...table.rows].sort((a, b) => compare(a[sort.column].value, b[sort.column].value, sort.down));
  const heads = table.names.map((name, column) => {
    const sorted = sort?.column === column;
    const number = table.rows.some((row) => row[column].number);
    const press = () => {
      choice.sort = sorted ? { column, down: !sort.down } : { column, down: number };
      showTable();
    };
    return el("th", { scope: "col", class: number ? "number" : null, "aria-sort": sorted ? (sort.down ? "descending" : "ascending") : null }, el("button", { type: "button", "data-key": name, onclick: press }, name));
  });
  const body = rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", { class: [cell.number && "number", cell.long && "long", cell.strong && "strong"].filter(Boolean).join(" ") || null }, cell.text))));
  fill($("table"), el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body));
  $("table-note").textContent = rows.length ? table.note : "No run has begun yet.";
  fill($("failed"), ...page.data.failed.map(([name, why]) => el("li", {}, `${name} could not be run: ${why}`)));
}
