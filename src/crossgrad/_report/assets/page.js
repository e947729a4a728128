// Puts the parts together, handles the controls, and on a live page asks for new data.

const KINDS = { run: "A run", sweep: "A sweep", reproduction: "A reproduction" };
const live = () => document.body.dataset.live === "yes";
const PLOTS = () => [...document.querySelectorAll(".js-plotly-plot")];

function showHead() {
  const { data, groups } = page;
  $("kind").textContent = KINDS[data.kind];
  $("title").textContent = data.title;
  const about = data.runs[0]?.about ?? {};
  const axes = page.varying.map((number) => `${data.axes[number]} (${page.values[number].length})`).join(" \u00d7 ");
  const seeds = Math.max(0, ...groups.map((group) => group.runs.length));
  const shared = ["data", "model"].filter((key) => new Set(data.runs.map((run) => run.about[key])).size === 1 && about[key]).map((key) => `${key} ${about[key]}`);
  const many = [`${count(data.runs.length, "run", "runs")}${axes ? `: ${axes}` : ""}`, ...(seeds > 1 ? [`up to ${seeds} seeds each`] : []), ...shared].join(", ") + ".";
  const one = `${about.algorithm} with ${about.agents} agents on a ${about.graph} graph; ${about.data}, divided by ${about.partition}; model ${about.model}.`;
  $("about").textContent = data.kind === "run" ? one : many;
  const ended = data.runs.filter((run) => ["finished", "diverged"].includes(run.ended)).length;
  $("status").textContent = data.kind === "run" ? `Status: ${endOf(data.runs)}.` : `Status: ${ended} of ${data.runs.length} begun runs have ended.`;
  const share = data.runs.length ? mean(data.runs.map((run) => run.progress)) : 0;
  $("progress").hidden = share >= 1;
  $("progress").setAttribute("aria-valuenow", Math.round(100 * share));
  $("progress").firstElementChild.style.width = `${100 * share}%`;
  const version = data.runs.map((run) => run.detail?.versions.crossgrad).find(Boolean);
  const left = data.left_out ? ` Of ${count(data.left_out, "run", "runs")} only the curves are here, so that the page stays under 10 MB.` : "";
  $("footer").textContent = `Made by crossgrad report${version ? ` from runs of crossgrad ${version}` : ""}. ${live() ? "It asks for new data every two seconds." : "This file needs no network."}${left}`;
}

function showAll() {
  makeGroups();
  chooseShown();
  const names = measured();
  if (!names.includes(choice.metric)) choice.metric = names[0] ?? "accuracy";
  showHead();
  showTable();
  showControls();
  showCurves();
  showRunChoice();
  showRun();
}

function listen() {
  $("metric").addEventListener("change", () => { choice.metric = $("metric").value; choice.log = null; showControls(); showCurves(); });
  $("axis").addEventListener("change", () => { choice.axis = $("axis").value; showCurves(); if (chosenRun()?.detail) showAgents(chosenRun()); });
  $("log").addEventListener("change", () => { choice.log = $("log").checked; showCurves(); });
  $("run").addEventListener("change", () => { choice.run = $("run").value; choice.when = null; showRun(); });
  $("when").addEventListener("input", () => {
    const at = Number($("when").value);
    choice.when = at === Number($("when").max) ? null : at; // at the end of the slider it follows a run that goes on
    showHeat(chosenRun());
  });
}

/** On paper all is open, and plots are as wide as the paper. */
function listenToPrinter() {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => one.setAttribute("open", ""));
    for (const plot of PLOTS()) {
      const small = plot.closest(".small-plots");
      const height = plot.id === "heat" ? {} : { height: small ? 190 : 300 };
      Plotly.relayout(plot, { width: small ? 325 : 670, autosize: false, ...height });
    }
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((one) => one.removeAttribute("open"));
    PLOTS().forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true, ...(plot.id === "heat" ? {} : { height: null }) }));
  });
}

async function pollForChanges() {
  let problem = "";
  try {
    const answer = await fetch("data.json", { headers: page.tag ? { "If-None-Match": page.tag } : {}, cache: "no-store" });
    if (answer.status === 200) {
      page.tag = answer.headers.get("ETag");
      page.data = await answer.json();
      showAll();
    } else if (answer.status !== 304) problem = (await answer.json()).problem;
  } catch {
    problem = "The program that shows this page live has ended; what is seen here is the last it knew.";
  }
  $("status").classList.toggle("problem", Boolean(problem));
  if (problem) $("status").textContent = problem;
  setTimeout(pollForChanges, 2000);
}

showAll();
listen();
listenToPrinter();
if (live()) setTimeout(pollForChanges, 2000);
