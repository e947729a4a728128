// Runs that differ only in their seed are one group: a line of the table, a curve with a band.

function makeGroups() {
  const groups = new Map();
  for (const run of page.data.runs) {
    const labels = page.data.axes.map((axis) => own(run.labels, axis) ?? "");
    const key = JSON.stringify(labels);
    if (!groups.has(key)) groups.set(key, { key, labels, runs: [] });
    groups.get(key).runs.push(run);
  }
  page.groups = [...groups.values()];
  page.values = page.data.axes.map((_, number) => inOrder([...new Set(page.groups.map((group) => group.labels[number]))]));
  page.varying = page.data.axes.map((_, number) => number).filter((number) => page.values[number].length > 1);
  const method = page.data.axes.indexOf("method");
  const most = page.varying.reduce((best, n) => (page.values[n].length > (page.values[best]?.length ?? 0) ? n : best), 0);
  page.main = page.varying.includes(method) ? method : most;
  for (const group of page.groups) {
    const words = page.varying.map((number) => group.labels[number]).filter(Boolean);
    group.name = words.join(", ") || (page.data.kind === "run" ? page.data.title : "all runs");
  }
}

const inOrder = (values) => (values.every((value) => value !== "" && isFinite(value)) ? values.sort((a, b) => a - b) : values);

/** At first a few curves that can be told apart: all of the main axis, and the first point of the others. */
function chooseShown() {
  const few = page.groups.length <= 10;
  page.data.axes.forEach((axis, number) => {
    const before = choice.shown.get(axis);
    const values = page.values[number];
    if (!before) choice.shown.set(axis, { all: few || number === page.main, off: new Set(few || number === page.main ? [] : values.slice(1)) });
    else if (!before.all) values.filter((value) => !before.seen.has(value)).forEach((value) => before.off.add(value));
    choice.shown.get(axis).seen = new Set(values);
  });
}

const shownGroups = () => page.groups.filter((group) => page.data.axes.every((axis, n) => !choice.shown.get(axis).off.has(group.labels[n])));

/** Colour and marker say which point of the main axis, dashes which of the others. */
function style(group, shown) {
  const rest = (one) => JSON.stringify(one.labels.filter((_, number) => number !== page.main));
  const rests = [...new Set(shown.map(rest))];
  const mains = new Set(shown.map((one) => one.labels[page.main]));
  const other = Math.max(0, rests.indexOf(rest(group)));
  const number = mains.size > 1 ? Math.max(0, page.values[page.main].indexOf(group.labels[page.main])) : other;
  const dash = mains.size > 1 ? other : 0;
  const turn = Math.floor(number / COLOURS.length);
  return { colour: COLOURS[number % COLOURS.length], mark: number % MARKERS.length, dash: (dash + turn) % DASHES.length };
}

/** Mean, lowest and highest of a group's runs at each step; a run that diverged keeps its last value. */
function averaged(group, name, axis) {
  const steps = [...new Set(group.runs.flatMap((run) => run.curve.step ?? []))].sort((a, b) => a - b);
  const curve = { x: [], y: [], low: [], high: [], runs: [] };
  const tables = group.runs.map((run) => new Map((run.curve.step ?? []).map((step, number) => [step, number])));
  for (const step of steps) {
    const xs = [], ys = [];
    group.runs.forEach((run, which) => {
      const at = tables[which].get(step);
      if (at === undefined) {
        const end = last(run.curve.step);
        if (run.ended === "diverged" && end !== null && step > end) ys.push(last(run.curve[name]));
        return;
      }
      ys.push(run.curve[name]?.[at]);
      xs.push(run.curve[axis]?.[at]);
    });
    const y = ys.filter(known), x = xs.filter(known);
    if (!y.length || !x.length) continue;
    curve.x.push(mean(x)); curve.y.push(mean(y)); curve.low.push(Math.min(...y)); curve.high.push(Math.max(...y));
    curve.runs.push(y.length);
  }
  return curve;
}
