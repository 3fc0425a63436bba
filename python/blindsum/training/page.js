"use strict";
// Draws the charts of the page with Plotly, in the colours of page.css.

const { figures, span } = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const place = (figure) => document.getElementById(`chart-${figure.name}`);
const config = {
  responsive: true,
  displayModeBar: true,
  displaylogo: false,
  // These and no others: Plotly has one that sends a chart to its makers.
  modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  showSendToCloud: false,
  plotlyServerURL: "",
};

/** A trace in the colour of its role. */
function coloured({ role, ...trace }) {
  const paint = colour(role);
  if (trace.type === "bar") {
    return { ...trace, marker: { color: paint } };
  }
  return { ...trace, line: { ...trace.line, color: paint }, marker: { size: 5, color: paint }, fillcolor: paint };
}

/** The heat map of parties and rounds: 0 not in the round, 1 in the sum, 2 no sum, 3 lost. */
function heat({ parties, rounds, rows, lost, reasons, faults }) {
  const states = ["not in this round", "in the sum", "no sum", "lost"];
  const z = rows.map((row) => Array.from(row, (mark) => ".+o-".indexOf(mark)));
  const text = z.map((row, party) =>
    row.map((state, at) => {
      const why = state === 2 ? faults[rounds[at]] : undefined;
      return `<b>${parties[party]}</b>, round ${rounds[at]}<br>${states[state]}${why ? `: ${why}` : ""}`;
    }));
  lost.forEach((list, party) => list.forEach(([at, why]) => { text[party][at] += `: ${reasons[why]}`; }));
  const paints = ["absent", "in-sum", "no-sum", "lost"].map(colour);
  const gap = rounds.length > 150 || parties.length > 60 ? 0 : 2;
  return {
    type: "heatmap", x: rounds, z, text, zmin: 0, zmax: 3, showscale: false, xgap: gap, ygap: gap,
    colorscale: paints.flatMap((paint, at) => [[at / 4, paint], [(at + 1) / 4, paint]]),
    hovertemplate: "%{text}<extra></extra>",
  };
}

/** The layout of a chart: its own over what all have in common. */
function layout(figure) {
  const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
  return {
    margin: { l: 56, r: 12, t: figure.traces.length > 1 ? 34 : 10, b: 44 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("quiet"), activecolor: colour("test") },
    hovermode: "x unified",
    bargap: 0.15,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("quiet") },
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("text") }, align: "left" },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
    showlegend: figure.traces.length > 1,
    ...figure.layout,
    xaxis: { ...axis, title: { text: "round", standoff: 8 }, range: span && [...span], showgrid: false, hoverformat: "d", unifiedhovertitle: { text: "round %{x}" } },
    yaxis: { ...axis, ...figure.layout.yaxis },
    yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
  };
}

/** Draws all charts, from the top, one at a time: the page can be read meanwhile. */
let drawing = 0;
async function draw() {
  const mine = ++drawing;
  for (const figure of figures) {
    const traces = figure.strip ? [heat(figure.strip)] : figure.traces.map(coloured);
    const known = place(figure).data !== undefined;
    await Plotly.react(place(figure), traces, layout(figure), config);
    if (!known) {
      place(figure).on("plotly_relayout", (change) => follow(figure, change));
    }
    await new Promise((next) => setTimeout(next));
    if (mine !== drawing) {
      return;
    }
  }
  root.dataset.drawn = String(mine);
}

/** Shows the same rounds in all other charts. */
let following = false;
function follow(figure, change) {
  const [from, to] = change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
  if (following || (from === undefined && !change["xaxis.autorange"])) {
    return;
  }
  following = true;
  const range = from === undefined ? [...span] : [from, to];
  const others = figures.filter((other) => other !== figure && place(other).data);
  Promise.all(others.map((other) => Plotly.relayout(place(other), { "xaxis.range": range })))
    .finally(() => { following = false; });
}

const wantsDark = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : wantsDark.matches);

function show() {
  button.textContent = isDark() ? "Light" : "Dark";
  draw();
}

button.hidden = false;
button.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  show();
});
wantsDark.addEventListener("change", show);

// On paper everything is light, and open.
let before;
addEventListener("beforeprint", () => {
  before = root.dataset.theme;
  root.dataset.theme = "light";
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  show();
});
addEventListener("afterprint", () => {
  if (before === undefined) {
    delete root.dataset.theme;
  } else {
    root.dataset.theme = before;
  }
  show();
});
show();
