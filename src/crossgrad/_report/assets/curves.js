// Curves of all groups that are chosen, and the same curves of consensus distance and diagnostics.

const ROUNDS = "In a round every agent waits once for messages of its neighbours. A step is one round, but two where gradients come back (CGA), as the paper counts.";

const occurs = (name) => page.data.runs.some((run) => Object.hasOwn(run.curve, name));
/** What the tables show comes first, the step size last. */
const measured = () => [...quantities((one) => one.in_table), ...quantities((one) => !one.in_table && !one.axis).filter((name) => name !== "lr"), "lr"].filter(occurs);

/** The options of a list; one that is the same is left alone, for a reader may just have opened it. */
function options(select, names, chosen) {
  const key = JSON.stringify(names);
  if (select.dataset.names !== key) {
    select.dataset.names = key;
    fill(select, ...names.map(([value, label]) => el("option", { value }, label)));
  }
  if (select.value !== chosen) select.value = chosen;
}

function showControls() {
  const names = measured();
  options($("metric"), names.map((name) => [name, quantity(name).label]), choice.metric);
  options($("axis"), quantities((one) => one.axis).map((name) => [name, quantity(name).label]), choice.axis);
  $("log").checked = choice.log ?? Boolean(quantity(choice.metric).log);
  fill($("filters"), ...page.varying.map((number) => {
    const axis = page.data.axes[number], shown = choice.shown.get(axis);
    const boxes = page.values[number].map((value) => {
      const turn = (event) => {
        if (event.target.checked) shown.off.delete(value);
        else shown.off.add(value);
        showCurves();
      };
      return el("label", {}, el("input", { type: "checkbox", "data-key": `${axis}=${value}`, checked: !shown.off.has(value), onchange: turn }), value || "(none)");
    });
    return el("fieldset", {}, el("legend", {}, axis), ...boxes);
  }));
}

/** Bands first, so that no band lies over a line. */
function traces(groups, shown, name, marked) {
  const bands = [], lines = [];
  for (const group of groups) {
    const curve = averaged(group, name, choice.axis);
    const look = style(group, shown);
    const common = { x: curve.x, hoverinfo: "skip", type: "scatter", mode: "lines", line: { width: 0 } };
    if (group.runs.length > 1) {
      bands.push({ ...common, y: curve.low }, { ...common, y: curve.high, fill: "tonexty", fillcolor: look.colour + "22" });
    }
    lines.push({
      type: "scatter", mode: marked ? "lines+markers" : "lines", name: plain(group.name), x: curve.x, y: curve.y,
      line: { color: look.colour, dash: DASHES[look.dash], width: 2 },
      marker: { symbol: MARKERS[look.mark], size: 7, color: look.colour, maxdisplayed: 12 },
      customdata: curve.low.map((low, at) => (curve.runs[at] > 1 ? `<br>${curve.runs[at]} seeds, ${low.toPrecision(4)} to ${curve.high[at].toPrecision(4)}` : "")),
      hovertemplate: "%{y:.4~g} at %{x:.4~s}%{customdata}<extra>%{fullData.name}</extra>",
    });
  }
  return [...bands, ...lines];
}

/** A logarithmic axis, with numbers at 1, 2 and 5 where there is room for them. */
function logarithmic(drawn) {
  const values = drawn.flatMap((trace) => trace.y).filter((value) => value > 0);
  const decades = Math.log10(Math.max(...values) / Math.min(...values));
  return { type: "log", tickformat: "~g", dtick: decades < 2.5 ? "D2" : undefined };
}

function showCurves() {
  const shown = shownGroups();
  const seen = shown.filter((group) => !choice.hidden.has(group.key));
  const log = choice.log ?? Boolean(quantity(choice.metric).log);
  const drawn = traces(seen, shown, choice.metric, true);
  const type = log ? logarithmic(drawn) : { type: "linear" };
  draw("plot", drawn, { uirevision: `${choice.metric} ${choice.axis} ${log}`, xaxis: xAxis(), yaxis: { ...ticks, ...type, title: { text: plain(quantity(choice.metric).short) } } });
  showLegend(shown);
  $("curves-choice").textContent = `${quantity(choice.metric).label} against ${quantity(choice.axis).label}`;
  const notes = [];
  if (!seen.length) notes.push("No curve is chosen.");
  if (choice.axis === "round") notes.push(ROUNDS);
  if (page.groups.some((group) => group.runs.length > 1)) notes.push("A line is the mean over seeds, its band reaches from the lowest to the highest; a run that diverged keeps its last value.");
  if (page.data.every > 1) notes.push(`Of each run one in ${page.data.every} evaluations is shown.`);
  $("curves-note").textContent = notes.join(" ");
  showAgreement(seen, shown);
}

function showLegend(shown) {
  const entries = shown.map((group) => {
    const look = style(group, shown);
    const press = () => {
      if (!choice.hidden.delete(group.key)) choice.hidden.add(group.key);
      showCurves();
    };
    const sample = el("svg", { width: 34, height: 14, "aria-hidden": "true" },
      el("line", { x1: 0, y1: 7, x2: 34, y2: 7, stroke: look.colour, "stroke-width": 2, "stroke-dasharray": STROKES[look.dash] }),
      el("text", { x: 17, y: 11.5, "text-anchor": "middle", "font-size": 12, fill: look.colour }, MARKS[look.mark]));
    const pressed = String(!choice.hidden.has(group.key));
    return el("li", {}, el("button", { type: "button", "data-key": group.key, "aria-pressed": pressed, onclick: press }, sample, group.name));
  });
  fill($("legend"), ...(page.groups.length > 1 ? entries : []));
}

function showAgreement(seen, shown) {
  const names = ["consensus", ...quantities((one) => one.diagnostic)].filter(occurs);
  const diagnosed = names.length > 1;
  if ($("agreement").dataset.names !== names.join()) {
    $("agreement").dataset.names = names.join();
    fill($("agreement"), ...names.map((name, number) => el("div", {}, el("h3", { id: `small-title-${number}` }, quantity(name).label), el("div", { id: `small-${number}`, class: "plot", role: "img", "aria-labelledby": `small-title-${number}` }))));
  }
  names.forEach((name, number) => {
    const some = seen.filter((group) => group.runs.some((run) => Object.hasOwn(run.curve, name)));
    const drawn = traces(some, shown, name, false);
    const type = quantity(name).log ? logarithmic(drawn) : { type: "linear", rangemode: "tozero" };
    draw(`small-${number}`, drawn, { uirevision: choice.axis, xaxis: xAxis({ nticks: 6 }), yaxis: { ...ticks, ...type, nticks: 6, title: { text: quantity(name).short } }, margin: { l: 52, r: 10, t: 8, b: 40 } });
  });
  $("agreement-note").textContent = "Colours, dashes and the horizontal axis are those of the curves above. The consensus distance is the root mean square distance of the agents' models from their average." + (diagnosed ? " Diagnostics are numbers that an algorithm reports of its steps: means over the agents, or counts summed over them." : "");
}
