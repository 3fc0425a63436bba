// Shows how the jobs of a coordinator stand. It asks /events with the token and shows what comes; it changes nothing.
// Names and reasons come from parties: they are only ever set as text.
"use strict";

const TOKEN = "blindsum-token";
const THEME = "blindsum-theme";
const RETRY_MS = 2000;

const at = (id) => document.getElementById(id);
/** When the latest state was true by the server's clock, and when it came by ours. */
let clock = { server: 0, here: 0 };
/** What each part of the page shows, so that only what has changed is drawn again. */
const shown = new Map();

/** An element with attributes and children; text is set as text. */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) {
      made.setAttribute(name, value);
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/* ---------- numbers as people read them ---------- */

function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let value = count;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

function seconds(value) {
  if (value < 10) {
    return `${value.toFixed(value < 1 ? 2 : 1)} s`;
  }
  if (value < 120) {
    return `${Math.round(value)} s`;
  }
  const [days, rest] = [Math.floor(value / 86400), value % 86400];
  const [hours, minutes] = [Math.floor(rest / 3600), Math.floor((rest % 3600) / 60)];
  if (days > 0) {
    return `${days} d ${hours} h`;
  }
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${Math.floor(rest % 60)} s`;
}

function axisBytes(value) {
  const [number, unit] = bytes(value).split(" ");
  return `${Number(number)} ${unit}`;
}

function axisSeconds(value) {
  return value >= 120 ? `${+(value / 60).toFixed(1)} min` : `${+value.toPrecision(3)} s`;
}

/* ---------- one job ---------- */

const STATES = { running: "busy", done: "good", failed: "bad", stopped: "bad" };
const ROUNDS = { joining: "waiting for parties", running: "running", done: "has a sum", aborted: "no result" };

function pill(text, kind = "") {
  return make("span", { class: `pill ${kind}` }, text);
}

function fact(name, value, small) {
  const note = small ? make("small", {}, ` ${small}`) : null;
  return make("div", {}, make("dt", {}, name), make("dd", {}, value, note));
}

function facts(job) {
  const { status } = job;
  const done = status.rounds ? `of ${status.rounds}` : "";
  return make(
    "dl",
    { class: "facts" },
    fact("Rounds done", String(status.rounds_done), done),
    fact("Parties connected", String(status.connected.length), `${status.min_parties} needed`),
    fact("Ready", String(job.ready)),
    fact("Failed rounds in a row", String(job.failed_in_row)),
    fact("Model version", String(status.model_version)),
    status.privacy ? fact("Privacy", `ε ${+status.privacy.epsilon.toPrecision(4)}`, privacySpent(status.privacy)) : null,
    status.best ? fact(`Best ${status.best.metric}`, String(+status.best.value.toPrecision(4)), `model version ${status.best.version}`) : null,
  );
}

function privacySpent({ target, delta, releases, lacking }) {
  const limit = target === null ? "" : `of ${target} `;
  const missing = lacking ? `; ${lacking} rounds that the store lacks are not counted` : "";
  return `${limit}at δ ${delta}, ${releases} releases${missing}`;
}

function since(startedMs) {
  return make("span", { "data-since": String(startedMs) }, seconds(elapsed(startedMs)));
}

function elapsed(startedMs) {
  const now = clock.server + (Date.now() - clock.here);
  return Math.max(0, (now - startedMs) / 1000);
}

/** The stages of the latest round: what is over, what goes on, what comes. */
function stages(job) {
  const round = job.status.round;
  if (!round) {
    return make("div", { class: "block" }, make("h3", {}, "Round"), make("p", { class: "quiet" }, "No round yet."));
  }
  const ended = round.state === "done" || round.state === "aborted";
  const name = round.key_setup ? "Key set-up, round" : "Round";
  const kind = { done: "good", aborted: "bad", running: "busy" }[round.state] ?? "";
  const time = ended ? seconds(round.seconds) : since(round.started_ms);
  const head = make("p", {}, make("b", {}, `${name} ${round.number} `), pill(ROUNDS[round.state] ?? round.state, kind), " ", time);
  const list = make("ol", { class: "stages" });
  // The stages to come are known where the round gives a sum.
  const planned = ended || round.state === "joining" || round.key_setup ? [] : job.stages;
  const names = round.stages.map((stage) => stage.name);
  planned.forEach((stage, i) => names[i] === undefined && names.push(stage));
  names.forEach((stage, i) => {
    const report = round.stages[i];
    const goesOn = !ended && i === round.stages.length - 1;
    const over = report && !goesOn;
    const mark = over ? "✓" : goesOn ? "▸" : "·";
    const time = over ? seconds(report.seconds) : goesOn ? `${job.status.waiting_for.length} awaited` : "";
    const row = make(
      "li",
      { class: over ? "over" : goesOn ? "now" : "" },
      make("span", { class: "mark", "aria-hidden": "true" }, mark),
      make("span", { class: "name" }, stage),
      make("span", { class: "time" }, time),
    );
    if (goesOn) {
      const all = round.parties.length;
      const bar = make("progress", { max: String(Math.max(all, 1)), "aria-label": "answers" });
      bar.value = Math.max(0, all - job.status.waiting_for.length);
      row.append(bar);
    }
    list.append(row);
  });
  const why = round.reason ? make("p", { class: "bad" }, round.reason) : null;
  const faults = round.faults.map((fault) => make("p", { class: "bad" }, fault));
  return make("div", { class: "block" }, make("h3", {}, "Round"), head, why, list, ...faults);
}

/** The kinds of loss of parties that had no update by their own word. */
const SITTING_OUT = ["sat_out", "not_accepted"];

/** Who is here, who is waited for, who was lost and why. */
function people(status) {
  const round = status.round;
  const lost = new Map();
  const satOut = new Map();
  for (const stage of round?.stages ?? []) {
    for (const [name, reason] of Object.entries(stage.dropped)) {
      if (SITTING_OUT.includes(stage.causes?.[name])) {
        satOut.set(name, reason);
      } else {
        lost.set(name, `lost in ${stage.name}: ${reason}`);
      }
    }
  }
  const here = new Set(status.connected);
  const awaited = new Set(status.waiting_for);
  const members = new Set(round?.parties ?? []);
  const running = round?.state === "running";
  const names = new Set([...here, ...members, ...awaited, ...status.lost, ...Object.keys(status.left), ...Object.keys(status.banned), ...lost.keys(), ...satOut.keys()]);
  const found = [...names].sort().map((name) => {
    const left = status.left[name];
    if (lost.has(name)) {
      return { name, state: "lost", kind: "bad", why: lost.get(name), order: 0 };
    }
    if (satOut.has(name)) {
      return { name, state: "sat out", kind: "warn", why: satOut.get(name), order: 2 };
    }
    if (name in status.banned) {
      const until = status.banned[name];
      const why = until === null ? "by an operator, until that is taken back" : `by an operator, until ${new Date(until).toLocaleString()}`;
      return { name, state: "banned", kind: "bad", why, order: 1 };
    }
    if (left !== undefined) {
      return { name, state: "left", kind: "bad", why: left, order: 1 };
    }
    if (status.lost.includes(name)) {
      return { name, state: "away", kind: "warn", why: "its connection was lost; it may come back", order: 2 };
    }
    if (status.ready.includes(name)) {
      return { name, state: "ready", kind: "good", why: "", order: 4 };
    }
    if (awaited.has(name)) {
      return { name, state: "awaited", kind: "warn", why: "", order: 3 };
    }
    if (running && members.has(name)) {
      return { name, state: "has answered", kind: "good", why: "", order: 4 };
    }
    return here.has(name)
      ? { name, state: "connected", kind: "good", why: "", order: 5 }
      : { name, state: "not here", kind: "", why: "", order: 6 };
  });
  return found.sort((one, other) => one.order - other.order);
}

function traffic(status, name) {
  const wire = status.round?.wire[name];
  const count = { up: wire?.up ?? 0, down: wire?.down ?? 0 };
  if (!wire) {
    for (const stage of status.round?.stages ?? []) {
      count.up += stage.bytes[name]?.up ?? 0;
      count.down += stage.bytes[name]?.down ?? 0;
    }
  }
  return count;
}

function parties(status) {
  const rows = people(status).map((party) => {
    const count = traffic(status, party.name);
    return make(
      "tr",
      {},
      make("td", { class: "name" }, party.name),
      make("td", {}, pill(party.state, party.kind)),
      make("td", { class: "why" }, party.why),
      make("td", { class: "number" }, bytes(count.up)),
      make("td", { class: "number" }, bytes(count.down)),
      make("td", { class: "why" }, status.key_exchange[party.name] ?? ""),
    );
  });
  const head = make(
    "tr",
    {},
    make("th", { scope: "col" }, "Party"),
    make("th", { scope: "col" }, "State"),
    make("th", { scope: "col" }, "Why"),
    make("th", { scope: "col", class: "number" }, "Received"),
    make("th", { scope: "col", class: "number" }, "Sent"),
    make("th", { scope: "col" }, "Key exchange"),
  );
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
  const none = rows.length ? null : make("p", { class: "quiet" }, "Nobody is here yet.");
  return make("div", { class: "block wide" }, make("h3", {}, "Parties"), make("div", { class: "scroll" }, table), none);
}

/* ---------- the last rounds ---------- */

function key(entries) {
  return make("p", { class: "key" }, ...entries.map(([kind, text]) => make("span", {}, make("i", { class: kind }), text)));
}

function charts(rounds) {
  if (rounds.length === 0) {
    return [];
  }
  const of = (round, parts, text) => ({ name: String(round.number), parts, title: `Round ${round.number}: ${text}` });
  const told = (round) => (round.state === "done" ? "" : `, ${round.reason || "no result"}`);
  const time = rounds.map((round) =>
    of(round, [{ value: round.seconds, kind: round.state === "done" ? "first" : "failed" }], `${seconds(round.seconds)}${told(round)}`),
  );
  const people = rounds.map((round) =>
    of(
      round,
      [
        { value: round.survivors, kind: "first" },
        { value: round.parties - round.survivors, kind: "failed" },
      ],
      `${round.survivors} of ${round.parties} parties in the sum${told(round)}`,
    ),
  );
  const sizes = rounds.map((round) =>
    of(
      round,
      [
        { value: round.up, kind: "first" },
        { value: round.down, kind: "second" },
      ],
      `${bytes(round.up)} received, ${bytes(round.down)} sent`,
    ),
  );
  const block = (title, chart, entries) => make("div", { class: "block" }, make("h3", {}, title), chart, key(entries));
  return [
    block("Time of the last rounds", Charts.bars("Seconds of the last rounds", time, axisSeconds), [["first", "with a result"], ["failed", "without"]]),
    block("Parties in the sum", Charts.bars("Parties of the last rounds", people, (value) => (Number.isInteger(value) ? String(value) : "")), [["first", "in the sum"], ["failed", "not in it"]]),
    block("Bytes of the last rounds", Charts.bars("Bytes of the last rounds", sizes, axisBytes), [["first", "received"], ["second", "sent"]]),
  ];
}

/** The metrics of training in the last rounds that have some, the newest first. */
function metrics(rounds) {
  const told = [...rounds].reverse().filter((round) => Object.keys(round.metrics).length > 0);
  if (told.length === 0) {
    return null;
  }
  const names = Object.keys(told[0].metrics);
  const rows = told.slice(0, 20).map((round) => {
    const cells = names.map((name) => {
      const { value, share } = round.metrics[name];
      const part = share < 1 && value !== null ? make("small", {}, ` of ${Math.floor(100 * share)} %`) : null;
      return make("td", { class: "number" }, value === null ? "–" : String(+value.toPrecision(4)), part);
    });
    return make("tr", {}, make("td", { class: "round" }, String(round.number)), ...cells);
  });
  const titles = names.map((name) => make("th", { scope: "col", class: "number" }, name));
  const head = make("tr", {}, make("th", { scope: "col", class: "round" }, "Round"), ...titles);
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
  return make("div", { class: "block wide" }, make("h3", {}, "Metrics of the last rounds"), make("div", { class: "scroll" }, table));
}

/** The parties that the last rounds have lost, the newest first. */
function losses(rounds) {
  const rows = [...rounds].reverse().flatMap((round) =>
    round.lost.map((loss) =>
      make(
        "tr",
        {},
        make("td", { class: "round" }, String(round.number)),
        make("td", { class: "name" }, loss.name),
        make("td", {}, loss.stage),
        make("td", { class: "why" }, SITTING_OUT.includes(loss.cause) ? `sat out: ${loss.reason}` : loss.reason),
      ),
    ),
  );
  if (rows.length === 0) {
    return null;
  }
  const titles = ["Round", "Party", "Stage", "Why"];
  const head = make("tr", {}, ...titles.map((title, i) => make("th", { scope: "col", class: i === 0 ? "round" : undefined }, title)));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows.slice(0, 50)));
  return make("div", { class: "block wide" }, make("h3", {}, "Lost in the last rounds, or sat out"), make("div", { class: "scroll" }, table));
}

function card(job) {
  const { status } = job;
  const title = make("div", { class: "title" }, make("h2", {}, status.job), pill(status.state, STATES[status.state]), make("span", { class: "quiet" }, status.protocol));
  if (status.state === "done" && status.reason) {
    title.append(make("span", { class: "quiet" }, status.reason));
  }
  if (status.held) {
    title.append(pill("held", "warn"), make("span", { class: "quiet" }, status.held));
  }
  const blocks = [stages(job), ...charts(job.rounds), metrics(job.rounds), parties(status), losses(job.rounds)];
  const grid = make("div", { class: "grid" }, ...blocks.filter((block) => block !== null));
  return make("section", { class: "card", "aria-label": `job ${status.job}` }, title, facts(job), grid);
}

/* ---------- the page ---------- */

/** Draws a part again if what it shows has changed. */
function draw(name, value, place) {
  const text = JSON.stringify(value);
  if (shown.get(name) !== text) {
    shown.set(name, text);
    place();
  }
}

function show(state) {
  clock = { server: state.now_ms, here: Date.now() };
  at("version").textContent = `version ${state.version}`;
  draw("alerts", state.alerts, () => {
    const alerts = state.alerts.map((alert) =>
      make("div", { class: `alert ${alert.severity}`, role: "alert" }, make("b", {}, alert.job || "server"), alert.text),
    );
    at("alerts").replaceChildren(...alerts);
  });
  const jobs = at("jobs");
  state.jobs.forEach((job, i) => {
    draw(`job ${i}`, job, () => {
      const made = card(job);
      jobs.children[i] ? jobs.children[i].replaceWith(made) : jobs.append(made);
    });
  });
  while (jobs.children.length > state.jobs.length) {
    shown.delete(`job ${jobs.children.length - 1}`);
    jobs.lastElementChild.remove();
  }
  const ends = state.certificates.map(({ whose, seconds: left }) => make("span", {}, `${whose}: ${left > 0 ? seconds(left) : "ended"}`));
  const total = `all connections: ${bytes(state.bytes.received)} received, ${bytes(state.bytes.sent)} sent`;
  at("server").replaceChildren(...ends, make("span", {}, total));
  at("main").hidden = false;
}

function link(text, kind) {
  at("link").textContent = text;
  at("link").className = `pill ${kind}`;
}

function askForToken(why) {
  sessionStorage.removeItem(TOKEN);
  link("not connected", "");
  at("main").hidden = true;
  at("forget").hidden = true;
  at("login").hidden = false;
  at("refused").textContent = why;
  at("token").focus();
}

/** Reads events until the stream ends. */
async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data: "));
      if (data.length) {
        show(JSON.parse(data.map((line) => line.slice(6)).join("\n")));
      }
    }
  }
}

async function follow() {
  const token = sessionStorage.getItem(TOKEN);
  if (!token) {
    return askForToken("");
  }
  try {
    const answer = await fetch("/events", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
    if (answer.status === 401) {
      return askForToken("This is not the token of this coordinator.");
    }
    if (!answer.ok) {
      throw new Error(await answer.text());
    }
    at("login").hidden = true;
    at("forget").hidden = false;
    link("live", "good");
    await read(answer.body);
    link("connection lost, trying again", "warn");
  } catch (error) {
    link("connection lost, trying again", "warn");
    console.warn(error);
  }
  setTimeout(follow, RETRY_MS);
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, at("token").value.trim());
  at("token").value = "";
  follow();
});

at("forget").addEventListener("click", () => {
  sessionStorage.removeItem(TOKEN);
  location.reload();
});

at("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem(THEME, root.dataset.theme);
});

if (localStorage.getItem(THEME)) {
  document.documentElement.dataset.theme = localStorage.getItem(THEME);
}

setInterval(() => {
  for (const place of document.querySelectorAll("[data-since]")) {
    place.textContent = seconds(elapsed(Number(place.dataset.since)));
  }
}, 1000);

follow();
