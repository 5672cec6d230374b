"use strict";
// The pages of `triage site`. Text from outside is only ever set as textContent, so that it stays text.
const root = document.body.dataset.root;
const STATES = {p: "passed", f: "failed", u: "untestable", x: "known failure", y: "unexpected pass"};
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const element = (name, text, values = {}) => Object.assign(document.createElement(name), {textContent: text ?? ""}, values);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const caseAddress = name => `${root}case.html#${encodeURIComponent(name)}`;
const failing = letter => "fxFX".includes(letter);
const stateName = letter => STATES[letter.toLowerCase()] + (letter < "a" ? ", flaky" : "");
const stateColour = letter => colour(letter < "a" ? "fl" : letter);
const day = seconds => new Date(seconds * 1000).toISOString().slice(0, 10);

// Data files call triageData(name, value); a script element is the only way to read a file beside a page at file://.
const waiting = {}, loaded = {};
window.triageData = (name, value) => waiting[name](value);
function load(name) {
  return loaded[name] ??= new Promise((done, failed) => {
    waiting[name] = done;
    document.head.append(element("script", "", {src: `${root}data/${name}.js`, onerror: () => failed(new Error(`data/${name}.js is missing`))}));
  });
}
let charts;
function loadCharts() {
  return charts ??= new Promise((done, failed) => {
    document.head.append(element("script", "", {src: `${root}assets/uPlot.iife.js`, onload: () => done(window.uPlot), onerror: failed}));
  });
}
const readNights = async () => (await load("nights")).map(([number, at, toolchain, commit, baseline, partial]) =>
  ({number, at, toolchain, commit, baseline, partial, name: `${day(at)}, ${toolchain}${commit ? ` (${commit.slice(0, 10)})` : ""}`}));
const readRuns = flat => Array.from({length: flat.length / 4}, (_, i) => ({first: flat[4 * i], last: flat[4 * i + 1], letter: flat[4 * i + 2], signature: flat[4 * i + 3]}));

function sortable(table) {
  $$("th", table).forEach((head, column) => {
    const cells = [head, ...[...table.tBodies[0].rows].map(row => row.cells[column])];
    if (cells.slice(1).every(cell => !cell.textContent.trim())) cells.forEach(cell => { cell.hidden = true; });
    if (cells.slice(1).every(cell => /^-?[\d.]+$/.test(cell.textContent.trim()))) head.dataset.type = "number";
    for (const row of table.tBodies[0].rows) row.cells[column].dataset.label = head.textContent;
    const button = element("button", head.textContent, {type: "button"});
    head.replaceChildren(button);
    button.onclick = () => {
      const down = head.ariaSort === "ascending" || (!head.ariaSort && head.dataset.type === "number");
      $$("th", table).forEach(other => other.removeAttribute("aria-sort"));
      head.ariaSort = down ? "descending" : "ascending";
      const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const order = (a, b) => head.dataset.type === "number" ? parseFloat(a) - parseFloat(b) : a.localeCompare(b, "en", {numeric: true});
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * order(key(a), key(b))));
    };
  });
}

// Charts.
const redraws = [];
async function plot(box, series, data, options = {}) {
  const uPlot = await loadCharts();
  let chart;
  const draw = () => {
    chart?.destroy();
    const axis = {stroke: colour("faint"), grid: {stroke: colour("line"), width: 1}, ticks: {stroke: colour("line")}};
    const lines = series.map((one, i) => ({spanGaps: true, width: 1.5, stroke: colour(["link", "x", "y", "f", "p-text"][i % 5]), ...one}));
    chart = new uPlot({
      width: box.clientWidth, height: 230, axes: [axis, {...axis, size: 70, ...options.values && {values: (_, ticks) => ticks.map(options.values)}}],
      scales: {y: options.range ? {range: options.range} : {}}, series: [{value: "{YYYY}-{MM}-{DD}"}, ...lines], hooks: options.hooks ?? {},
    }, data, box);
  };
  draw();
  redraws.push(draw);
}
function plotMetric(box, nights, series, steps, unit) {
  const [first, ...values] = series;
  const times = values.map((_, i) => nights[first + i].at);
  const marks = {drawClear: [chart => {
    chart.ctx.strokeStyle = colour("f");
    for (const [, night] of steps) {
      const x = chart.valToPos(nights[night].at, "x", true);
      chart.ctx.strokeRect(x, chart.bbox.top, 0.5, chart.bbox.height);
    }
  }]};
  const text = value => value == null ? "-" : `${Number(value.toPrecision(4))} ${unit}`;
  return plot(box, [{label: unit || "value", value: (_, value) => text(value), points: {size: 4}}], [times, values], {hooks: marks});
}
let timer;
const redraw = () => { clearTimeout(timer); timer = setTimeout(() => redraws.forEach(draw => draw()), 100); };
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("print").addEventListener("change", () => redraws.forEach(draw => draw()));

async function overview() {
  const box = $("#rates");
  if (!box) return;
  const [nights, tracks] = await Promise.all([readNights(), load("tracks")]);
  const lines = tracks.map(([, own, rates]) => { const of = new Map(own.map((night, i) => [night, rates[i]])); return nights.map((_, night) => of.get(night) ?? null); });
  const percent = value => value == null ? "-" : `${Number(value.toFixed(2))} %`;
  await plot(box, tracks.map(([label]) => ({label, value: (_, value) => percent(value), points: {size: 4}})), [nights.map(night => night.at), ...lines],
    {values: percent, range: (_, low, high) => [Math.max(0, low - Math.max(0.1, (high - low) / 5)), Math.min(100, high + 0.05)]});
}

// The grid draws only the rows in sight: names as links, states on one canvas.
const ROW = 20, PRINTED = 500;
async function gridPage() {
  const form = $("#filters"), box = $("#grid"), canvas = $("canvas", box), list = $("ol", box), cell = $("#cell");
  const [nights, data, tracks] = await Promise.all([readNights(), load("grid"), load("tracks")]);
  const pages = new Map(data.pages.map(([row, signature, page]) => [`${row} ${signature}`, page]));
  const cases = data.cases.map(([name, track, flaky], number) => {
    const runs = readRuns(data.runs[number]), last = runs[runs.length - 1];
    const names = runs.filter(run => run.signature).map(run => data.signatures[run.signature]);
    return {number, name, suite: tracks[track][0], backend: tracks[track][3], flaky, runs, last, flips: runs.length - 1, classes: new Set(names.map(([, of]) => of)),
      text: [name, ...names.map(([signature]) => signature)].join("\n").toLowerCase()};
  });
  for (const [name, words] of [["suite", tracks.map(track => track[0])], ["backend", tracks.map(track => track[3])], ["class", data.signatures.map(([, of]) => of)]]) {
    const used = [...new Set(words)].filter(Boolean).sort();
    form[name].append(...used.map(word => element("option", word, {value: word})));
  }
  const newest = nights.length - 1;
  let shown = [], all = [], columns = [], width = 4, names = 300, at = {row: 0, column: 0}, active = false;

  function choose() {
    const wanted = Object.fromEntries(new FormData(form)), words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = {failing: one => failing(one.last.letter), ever: one => one.classes.size, flaky: one => one.flaky, changed: one => one.flips && one.last.first === one.last.last && one.last.last === newest};
    shown = cases.filter(one => (!wanted.suite || one.suite === wanted.suite) && (!wanted.backend || one.backend === wanted.backend)
      && (!wanted.class || one.classes.has(wanted.class)) && (!wanted.show || tests[wanted.show](one)) && words.every(word => one.text.includes(word)));
    const orders = {name: () => 0, changed: one => -one.last.first * (one.flips > 0), flips: one => -one.flips, "": one => failing(one.last.letter) ? -one.last.first - 1 : one.classes.size ? 0 : 1};
    const order = orders[wanted.sort];
    shown.sort((a, b) => order(a) - order(b) || (a.name < b.name ? -1 : 1));
    const ofTracks = new Set(tracks.filter(([name]) => shown.some(one => one.suite === name)).flatMap(([, own]) => own));
    all = nights.map((_, number) => number).filter(number => ofTracks.has(number));
    const from = all.length ? `, ${day(nights[all[0]].at)} to ${day(nights[all[all.length - 1]].at)}` : "";
    $("#shown").textContent = `${shown.length} of ${cases.length} cases${from}`;
    at = {row: Math.min(at.row, Math.max(0, shown.length - 1)), column: all.length - 1};
    $(".space", box).style.height = `${shown.length * ROW}px`;
    box.scrollTop = 0;
    layout();
  }
  function layout() {
    names = Math.min(340, Math.round(box.clientWidth * 0.42));
    box.style.setProperty("--names", `${names}px`);
    const space = box.clientWidth - names;
    box.style.setProperty("--paper", `${Math.min(shown.length, PRINTED) * ROW}px`);
    width = Math.max(3, Math.min(20, Math.floor(space / Math.max(1, all.length))));
    columns = all.slice(-Math.floor(space / width));
    at.column = Math.min(at.column, columns.length - 1);
    draw();
  }
  const place = new Map();
  function draw() {
    const ratio = devicePixelRatio || 1, height = box.clientHeight, top = box.scrollTop;
    canvas.width = box.clientWidth * ratio; canvas.height = height * ratio;
    canvas.style.width = `${box.clientWidth}px`; canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d"), colours = {}, first = Math.floor(top / ROW), rows = [];
    pen.scale(ratio, ratio);
    place.clear(); columns.forEach((night, column) => place.set(night, column));
    for (let row = first; row < Math.min(shown.length, first + height / ROW + 1); row++) {
      const y = row * ROW - top, one = shown[row];
      const item = element("li", "", {className: active && row === at.row ? "at" : ""});
      item.style.top = `${y}px`;
      item.append(element("a", one.name, {href: caseAddress(one.name), title: one.name, tabIndex: -1}));
      rows.push(item);
      for (const run of one.runs) {
        pen.fillStyle = colours[run.letter] ??= stateColour(run.letter);
        const low = failing(run.letter) || run.letter < "a" ? 1 : 5;
        let from = -1;
        columns.forEach((night, column) => { if (night >= run.first && night <= run.last) { if (from < 0) from = column; } });
        if (from < 0) continue;
        let to = from; while (to + 1 < columns.length && columns[to + 1] <= run.last) to++;
        pen.fillRect(names + from * width, y + low, (to - from + 1) * width, ROW - 2 * low);
      }
    }
    list.replaceChildren(...rows);
    if (active && shown.length) {
      pen.strokeStyle = colour("fg"); pen.lineWidth = 2;
      pen.strokeRect(names + at.column * width - 1, at.row * ROW - top, Math.max(width, 4) + 1, ROW);
    }
  }
  const runAt = (one, column) => one?.runs.find(run => run.first <= columns[column] && columns[column] <= run.last);
  function tell() {
    const one = shown[at.row], run = runAt(one, at.column);
    if (!one) return;
    const link = element("a", one.name, {href: caseAddress(one.name)}), parts = [link, element("br"), `${nights[columns[at.column]].name}: ${run ? stateName(run.letter) : "not run"}`];
    if (run?.signature) {
      const [text, kind, id] = data.signatures[run.signature];
      parts.push(", ", element("a", kind, {href: `${root}failures/${pages.get(`${one.number} ${run.signature}`) ?? id}.html`, title: text}), ` since ${day(nights[run.first].at)}`);
    }
    cell.replaceChildren(...parts);
  }
  function point(event) {
    const bounds = box.getBoundingClientRect(), column = Math.floor((event.clientX - bounds.left - names) / width);
    const row = Math.floor((event.clientY - bounds.top + box.scrollTop) / ROW);
    if (row < 0 || row >= shown.length || column < 0 || column >= columns.length) return false;
    at = {row, column}; active = true;
    return true;
  }
  box.addEventListener("mousemove", event => { if (point(event)) { draw(); tell(); } });
  box.addEventListener("click", event => { if (event.target.tagName !== "A" && point(event)) { tell(); location.href = caseAddress(shown[at.row].name); } });
  box.addEventListener("scroll", () => requestAnimationFrame(draw));
  box.addEventListener("focus", () => { active = true; draw(); tell(); });
  box.addEventListener("keydown", event => {
    const page = Math.floor(box.clientHeight / ROW) - 1;
    const moves = {ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageDown: [page, 0], PageUp: [-page, 0], Home: [-1e9, 0], End: [1e9, 0]};
    if (event.key === "Enter" && shown[at.row]) location.href = caseAddress(shown[at.row].name);
    if (!moves[event.key]) return;
    event.preventDefault();
    at.row = Math.max(0, Math.min(shown.length - 1, at.row + moves[event.key][0]));
    at.column = Math.max(0, Math.min(columns.length - 1, at.column + moves[event.key][1]));
    const y = at.row * ROW;
    if (y < box.scrollTop) box.scrollTop = y;
    if (y + ROW > box.scrollTop + box.clientHeight) box.scrollTop = y + ROW - box.clientHeight;
    draw(); tell();
  });
  const write = () => {
    const wanted = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    history.replaceState(null, "", `${location.pathname}${wanted.size ? `?${wanted}` : ""}`);
    choose();
  };
  form.addEventListener("input", write);
  form.addEventListener("reset", () => setTimeout(write));
  form.addEventListener("submit", event => event.preventDefault());
  for (const [name, value] of new URLSearchParams(location.search)) if (form[name]) form[name].value = value;
  redraws.push(layout);
  choose();
}

// One case.
function hash(name) {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}
const readCase = async name => (await load(`cases-${hash(name) % document.body.dataset.files}`))[name];
const fill = (section, rows) => {
  const heads = $$("th", section);
  section.hidden = false;
  $("tbody", section).replaceChildren(...rows.map(cells => { const row = element("tr"); row.append(...cells.map((cell, column) => { const td = element("td"); td.dataset.label = heads[column].textContent; td.append(...[cell].flat()); return td; })); return row; }));
};
const stateText = letter => element("span", stateName(letter), {className: `s-${letter.toLowerCase()}`});
const failureText = failure => failure ? [element("a", failure.class, {href: `${root}failures/${failure.id}.html`}), " ", element("span", failure.headline, {className: "headline"})] : "";

async function casePage() {
  const name = decodeURIComponent(location.hash.slice(1)), nights = await readNights(), one = await readCase(name);
  document.title = `${name} · ${document.title.split(" · ").pop()}`;
  $("#case").textContent = name;
  if (!one) { $("#state").textContent = "No stored night has this case."; return; }
  const runs = readRuns(one.runs), last = runs[runs.length - 1];
  $("#state").replaceChildren(stateText(last.letter), element("span", `since ${day(nights[last.first].at)}`), ...one.flaky ? [element("span", `flaky, ${one.flaky} changes without a change of the compiler`, {className: "s-fl"})] : []);
  $("#facts").replaceChildren(...Object.entries(one.facts).flatMap(([key, value]) => [element("dt", key), element("dd", value)]));
  const columns = nights.map((_, number) => number).filter(number => number >= runs[0].first);
  const strip = () => {
    const canvas = $("#strip canvas"), width = Math.max(3, Math.min(24, Math.floor($("#strip").clientWidth / columns.length)));
    canvas.width = width * columns.length; canvas.height = 34;
    const pen = canvas.getContext("2d");
    columns.forEach((night, column) => {
      const run = runs.find(other => other.first <= night && night <= other.last);
      if (!run) return;
      pen.fillStyle = stateColour(run.letter);
      pen.fillRect(column * width, failing(run.letter) ? 0 : 8, Math.max(1, width - 1), failing(run.letter) ? 34 : 18);
    });
  };
  strip();
  redraws.push(strip);
  const between = run => day(nights[run.first].at) + (run.last > run.first ? ` to ${day(nights[run.last].at)} (${run.last - run.first + 1})` : "");
  fill($("#nights"), [...runs].reverse().map(run => [between(run), nights[run.first].name.split(", ").slice(1).join(", "), stateText(run.letter), failureText(one.failures[run.signature])]));
  if (one.states?.length) {
    const letters = {passed: "p", failed: "f", untestable: "u"};
    fill($("#releases"), one.states.map(state => [state.toolchain, stateText(letters[state.status]), state.failure ? `${state.failure.class}: ${state.failure.headline}` : ""]));
  }
  if (one.log) showLog($("#log"), one.log);
  for (const section of $$(".metric")) {
    const series = one.metrics[section.dataset.metric], steps = one.steps.filter(([metric]) => metric === section.dataset.metric).map(step => step.slice(1));
    if (!series || series.length < 3) continue;
    section.hidden = false;
    const unit = section.dataset.unit;
    $(".steps", section).replaceChildren(...steps.map(([night, old, now]) => element("li", `${day(nights[night].at)}: ${old} → ${now} ${unit} (${(100 * (now / old - 1)).toFixed(1)} %), commits ${nights[night - 1].commit.slice(0, 10)}..${nights[night].commit.slice(0, 10)}`)));
    await plotMetric($(".chart", section), nights, series, steps.map(([night]) => [0, night]), unit).catch(() => { section.hidden = true; });
  }
}
function showLog(section, log) {
  section.hidden = false;
  $("p", section).textContent = `On ${log.toolchain}.${log.left_out ? ` ${log.left_out} lines are left out.` : ""}`;
  $(".command", section).textContent = log.command;
  $(".command", section).hidden = !log.command;
  const marked = log.root === null ? null : element("mark", log.lines[log.root], {id: "root-cause"});
  $(".to-root", section).parentElement.hidden = !marked;
  $(".to-root", section).onclick = event => { event.preventDefault(); marked.scrollIntoView({block: "center"}); };
  const text = (from, to) => log.lines.slice(from, to).join("\n");
  $(".log", section).replaceChildren(...marked ? [`${text(0, log.root)}${log.root ? "\n" : ""}`, marked, text(log.root + 1)] : [text(0)]);
}

async function trends() {
  const rows = $$("#steps tbody tr");
  if (!rows.length) return;
  const box = $("#trend"), nights = await readNights();
  const choose = async row => {
    const {case: name, metric, unit} = row.dataset, one = await readCase(name);
    rows.forEach(other => other.classList.toggle("chosen", other === row));
    box.hidden = false;
    $("h2", box).textContent = `${name}, ${row.cells[1].textContent}`;
    redraws.length = 0;
    $(".chart", box).replaceChildren();
    await plotMetric($(".chart", box), nights, one.metrics[metric], one.steps.filter(([of]) => of === metric).map(([, night]) => [0, night]), unit);
  };
  rows.forEach(row => {
    const button = element("button", row.cells[1].textContent, {type: "button", onclick: () => choose(row)});
    row.cells[1].replaceChildren(button);
  });
  await choose(rows[0]);
}

$$("table.sortable").forEach(sortable);
$$("main pre[tabindex]:not([role])").forEach(pre => {
  const button = element("button", "Copy", {type: "button", className: "copy"});
  button.onclick = () => navigator.clipboard?.writeText(pre.textContent).then(() => { button.textContent = "Copied"; });
  pre.before(button);
});
const pages = [["#rates", overview], ["#grid", gridPage], ["#case", casePage], ["#steps", trends]];
for (const [selector, show] of pages) if ($(selector)) show().catch(error => { console.error(error); $("main").prepend(element("p", error.message, {className: "note", role: "alert"})); });
if ($("#case")) addEventListener("hashchange", () => location.reload());
