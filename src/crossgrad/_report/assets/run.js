// One run: its agents, its graph, who knows which class when, its settings and how to repeat it.

const runName = (run) => page.varying.map((number) => own(run.labels, page.data.axes[number])).concat(Object.hasOwn(run.labels, "seed") ? `seed ${run.labels.seed}` : []).filter(Boolean).join(", ") || run.name;

function showRunChoice() {
  const runs = page.data.runs;
  if (!runs.some((run) => run.name === choice.run)) choice.run = (runs.find((run) => run.detail) ?? runs[0])?.name ?? null;
  options($("run"), runs.map((run) => [run.name, runName(run)]), choice.run);
  $("run-label").hidden = page.data.kind === "run";
}

const chosenRun = () => page.data.runs.find((run) => run.name === choice.run);

function showRun() {
  const run = chosenRun();
  $("one").hidden = run === undefined;
  if (run === undefined) return;
  const at = last(run.curve.step);
  $("one-status").textContent = `${page.data.kind === "run" ? "" : `${runName(run)}. `}Folder ${run.name}: ${endOf([run])}${at === null ? "" : `, ${at} steps`}.`;
  $("one-left-out").hidden = run.detail !== null;
  $("one-details").hidden = run.detail === null;
  if (run.detail === null) {
    $("one-left-out").textContent = `The agents, classes and settings of this run and of ${count(page.data.left_out - 1, "other", "others")} would have made the page larger than 10 MB. A page of its own shows them: crossgrad report ${page.data.folder}/cells/${run.name}`;
    return;
  }
  showAgents(run);
  showGraph(run.detail);
  showHeat(run);
  showFacts(run);
}

function showAgents(run) {
  const x = run.curve[choice.axis] ?? [];
  const agents = run.detail.each[0]?.length ?? 0;
  const named = agents <= 10 && $("agents-plot").clientWidth > 600;
  const lines = Array.from({ length: agents }, (_, agent) => ({
    type: "scatter", mode: "lines", name: `agent ${agent}`, x, y: run.detail.each.map((row) => row[agent]), opacity: 0.75, showlegend: named,
    line: { width: 1.2, color: COLOURS[agent % 6], dash: DASHES[Math.floor(agent / 6) % DASHES.length] },
    hovertemplate: "%{y:.1f} % at %{x:.4~s}<extra>%{fullData.name}</extra>",
  }));
  const thick = (name, label, line) => ({ type: "scatter", mode: "lines+markers", name: label, x, y: run.curve[name] ?? [], line, marker: { size: 6, maxdisplayed: 12, color: line.color, symbol: line.dash ? "square" : "circle" }, hovertemplate: "%{y:.1f} % at %{x:.4~s}<extra>%{fullData.name}</extra>" });
  lines.push(thick("mean_agent", "mean agent", { width: 2.5, color: "#57606a", dash: "dash" }), thick("accuracy", "averaged model", { width: 3, color: "#000000" }));
  draw("agents-plot", lines, {
    uirevision: `${choice.run} ${choice.axis}`,
    xaxis: xAxis(), yaxis: { ...ticks, title: { text: "accuracy on the test set (%)" }, range: [0, 102] }, showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } },
  });
}

/** Two hexadecimal digits for each percentage; -- where there is none. */
const percents = (text) => (text.match(/../g) ?? []).map((two) => (two === "--" ? null : parseInt(two, 16)));

function showHeat(run) {
  const { each } = run.detail;
  const classes = run.detail.classes.map(percents), heat = run.detail.heat.map((rows) => rows.map(percents));
  const some = heat.some((table) => table.length) || classes.some((row) => row.length);
  $("heat").hidden = $("heat-controls").hidden = !some;
  if (!some) {
    $("heat-note").textContent = each[0]?.length > 100 ? "Accuracies by class are recorded of at most 100 agents." : "This run has no accuracies by class.";
    return;
  }
  const newest = heat.length - 1, when = Math.min(choice.when ?? newest, newest);
  $("when").max = newest;
  $("when").value = when;
  const step = run.curve.step[when], words = `step ${step}, epoch ${run.curve.epoch[when]}`;
  $("when-text").textContent = words;
  $("when").setAttribute("aria-valuetext", words);
  const agents = heat[when].length, wide = classes[when].length;
  const z = [classes[when], ...heat[when]];
  const texts = z.length * wide <= 400;
  const names = ["average", ...Array.from({ length: agents }, (_, agent) => String(agent))];
  const own = boxes(run.detail.holds.slice(0, agents));
  const every = Math.ceil(names.length / 40);
  const line = Math.max(10, Math.min(28, 420 / names.length));
  draw("heat", [
    { type: "heatmap", z, zmin: 0, zmax: 100, colorscale: "Cividis", xgap: 1, ygap: 1, text: texts ? z.map((row) => row.map((v) => (known(v) ? String(v) : ""))) : undefined, texttemplate: texts ? "%{text}" : undefined, textfont: { size: $("heat").clientWidth / wide < 34 ? 9 : 11 }, colorbar: { title: { text: "%" }, thickness: 12, outlinewidth: 0, len: 1 }, customdata: names.map((name) => Array(wide).fill(name === "average" ? "averaged model" : `agent ${name}`)), hovertemplate: "%{customdata}, class %{x}: %{z} %<extra></extra>" },
  ], {
    shapes: own, height: Math.round(line * names.length + 70), margin: { l: 64, r: 8, t: 8, b: 44 },
    xaxis: { title: { text: "class" }, dtick: wide > 20 ? Math.ceil(wide / 10) : 1, showgrid: false, zeroline: false, range: [-0.5, wide - 0.5] },
    yaxis: { title: { text: "agent" }, range: [names.length - 0.5, -0.5], tickvals: names.map((_, n) => n).filter((n) => n % every === 0), ticktext: names.filter((_, n) => n % every === 0), showgrid: false, zeroline: false },
  });
  $("heat-note").textContent = "Percent of the test set's samples of each class that are classified correctly." + (own.length ? " A box marks the classes of which an agent holds at least one and a half times an even share of its own samples." : "");
}

/** Around the classes that an agent holds much of. */
function boxes(holds) {
  const much = holds.flatMap((row, agent) => {
    const total = row.reduce((sum, n) => sum + n, 0);
    return row.map((n, number) => [n * row.length >= 1.5 * total, number, agent + 1]).filter(([yes]) => yes);
  });
  const line = { color: "#D55E00", width: 2.5 };
  return much.slice(0, 500).map(([, x, y]) => ({ type: "rect", x0: x - 0.46, x1: x + 0.46, y0: y - 0.44, y1: y + 0.44, line }));
}

const FACTS = { algorithm: "algorithm", graph: "graph", agents: "agents", data: "data", partition: "partition", model: "model", schedule: "step size", batch_size: "batch size", steps: "steps", epochs: "epochs", seed: "seed", device: "device" };

/** A button that saves a text as a file. */
function saver(name, text) {
  const save = () => {
    const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain" })), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return el("button", { type: "button", class: "button", "data-key": name, onclick: save }, `Save ${name}`);
}

function showFacts(run) {
  fill($("facts"), ...Object.entries(FACTS).filter(([key]) => run.about[key]).flatMap(([key, label]) => [el("dt", {}, label), el("dd", {}, run.about[key])]));
  $("toml").textContent = run.detail.toml;
  const versions = Object.entries(run.detail.versions).map(([name, version]) => `${name} ${version}`).join(", ");
  const commands = [...new Set((page.data.reproduction?.rows ?? []).map((row) => row.command).filter(Boolean))];
  const grid = page.data.grid;
  const all = commands.length ? [el("p", {}, "All of it:"), el("pre", { tabindex: 0 }, commands.join("\n"))] : [];
  if (grid && !commands.length) {
    all.push(
      el("p", {}, "The whole sweep: save its grid, and run it. What was changed on the command line is not in the grid, but in the settings of each run."),
      el("p", {}, saver("grid.toml", grid)),
      el("details", {}, el("summary", {}, "The grid"), el("pre", { tabindex: 0 }, grid)),
      el("pre", { tabindex: 0 }, "crossgrad sweep grid.toml --out again"));
  }
  fill($("repeat"), ...all,
    el("p", {}, "This run: save all its settings as experiment.toml, and run them. The page of the new run has the same curves."),
    el("p", {}, saver("experiment.toml", run.detail.toml)),
    el("pre", { tabindex: 0 }, `crossgrad run experiment.toml --out again\ncrossgrad report again/*`),
    el("p", { class: "note" }, versions ? `The same bits come out on the same machine with the same versions; this run had ${versions}.` : ""));
}
