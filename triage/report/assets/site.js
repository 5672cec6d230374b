"use strict";
// The pages of `triage site`. Text from outside is only ever set as textContent, so that it stays text.
const root = document.body.dataset.root;
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const element = (name, text, values = {}) => Object.assign(document.createElement(name), {textContent: text ?? ""}, values);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const caseAddress = name => `${root}case.html#${encodeURIComponent(name)}`;
const failing = letter => "fxFX".includes(letter);
const stateName = letter => NAMES[letter.toLowerCase()] + (letter < "a" ? ", flaky" : "");
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
const readNights = async () => (await load("nights")).map(([number, at, toolchain, commit, baseline, partial, kind]) =>
  ({number, at, toolchain, commit, baseline, partial, name: `${day(at)}, ${toolchain}${commit ? ` (${commit.slice(0, 10)})` : ""}`,
    version: kind === "nightly" && commit ? commit.slice(0, 7) : toolchain.replace(/^path:/, "")}));
const readRuns = flat => Array.from({length: flat.length / 4}, (_, i) => ({first: flat[4 * i], last: flat[4 * i + 1], letter: flat[4 * i + 2], failure: flat[4 * i + 3]}));

// What made a case untestable has no page.
const failureLink = (text, page, title) => page ? element("a", text, {href: `${root}failures/${page}.html`, title}) : element("span", text, {title});

function copyButton(of) {
  const button = element("button", "Copy", {type: "button", className: "copy"});
  const select = () => getSelection().selectAllChildren(of);
  button.onclick = () => (navigator.clipboard?.writeText(of.textContent) ?? Promise.reject()).then(() => { button.textContent = "Copied"; }, select);
  return button;
}
// A block of text with its button inside.
function block(pre) {
  const box = element("div", "", {className: "block"});
  pre.replaceWith(box);
  box.append(pre, copyButton(pre));
  return box;
}
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
const redraws = [], charted = new Map();
async function plot(box, series, data, options = {}) {
  const uPlot = await loadCharts();
  let chart;
  const draw = () => {
    chart?.destroy();
    const axis = {stroke: colour("faint"), grid: {stroke: colour("line"), width: 1}, ticks: {stroke: colour("line")}};
    const lines = series.map((one, i) => ({spanGaps: true, width: 1.5, stroke: colour(["link", "d-x", "d-y", "d-f", "d-p"][i % 5]), ...one}));
    chart = new uPlot({
      width: box.clientWidth, height: 230, axes: [{...axis, space: 90, values: (_, ticks) => ticks.map(day).map((text, at, all) => text === all[at - 1] ? "" : text)}, {...axis, size: 70, ...options.values && {values: (_, ticks) => ticks.map(options.values)}}],
      scales: {y: options.range ? {range: options.range} : {}}, series: [{value: "{YYYY}-{MM}-{DD}"}, ...lines], hooks: options.hooks ?? {},
    }, data, box);
    charted.set(box, chart);
  };
  draw();
  redraws.push(draw);
}
// A metric is a strip chart: a dot for each night, its interval where one was measured, a line at each step.
function plotMetric(box, nights, series, intervals, steps, unit) {
  const [first, ...values] = series, text = value => value == null ? "-" : `${Number(value.toPrecision(4))} ${unit}`;
  const times = values.map((_, i) => nights[first + i].at), ends = new Map(intervals.map(([night, low, high]) => [nights[night].at, [low, high]]));
  const lows = times.map((at, i) => ends.get(at)?.[0] ?? values[i]), highs = times.map((at, i) => ends.get(at)?.[1] ?? values[i]);
  const marks = {drawClear: [chart => {
    const {ctx, bbox} = chart, at = (value, scale) => chart.valToPos(value, scale, true);
    ctx.lineWidth = 1;
    ctx.strokeStyle = colour("link");
    for (const [time, [low, high]] of ends) ctx.strokeRect(at(time, "x"), at(high, "y"), 0, at(low, "y") - at(high, "y"));
    ctx.strokeStyle = colour("d-f");
    ctx.setLineDash([4, 3]);
    for (const step of steps) ctx.strokeRect(at(nights[step.at].at, "x"), bbox.top, 0, bbox.height);
    ctx.setLineDash([]);
  }]};
  const span = [Math.min(...lows.filter(Number.isFinite)), Math.max(...highs.filter(Number.isFinite))], margin = (span[1] - span[0]) * 0.1 || span[1] * 0.1 || 1;
  const range = () => [Math.max(0, span[0] - margin), span[1] + margin];
  return plot(box, [{label: unit || "value", paths: () => null, value: (_, value) => text(value), points: {show: true, size: 5, fill: colour("link")}}], [times, values], {hooks: marks, range});
}
const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
// What is said of a step when it is chosen: between which nights it lies, and how to find its commit.
function showSteps(section, nights, one, metric, unit) {
  const box = $(".steps", section), steps = one.steps.filter(step => step.metric === metric);
  const choose = step => {
    const [before, after] = [nights[step.before], nights[step.at]], words = [one.source || "RECIPE", "--case", one.case, "--metric", metric, "--good", before.toolchain, "--bad", after.toolchain];
    const range = element("p", `Between ${before.name} and ${after.name}. `), parts = [range];
    if (step.url) range.append(element("a", "compare", {href: step.url, rel: "noreferrer"}));
    if (step.now > step.old) parts.push(block(element("pre", `triage bisect ${words.map(quoted).join(" ")}`, {tabIndex: 0})));
    $(".step", box).replaceChildren(...parts);
    $$("button[aria-pressed]", box).forEach((button, number) => { button.ariaPressed = String(steps[number] === step); });
  };
  const buttons = steps.map(step => element("button", `${day(nights[step.at].at)}: ${step.old} to ${step.now} ${unit}, ${(100 * (step.now / step.old - 1)).toFixed(1)} %`, {type: "button", ariaPressed: "false", onclick: () => choose(step)}));
  box.replaceChildren(...buttons, element("div", "", {className: "step"}));
  const chart = $(".chart", section);
  chart.onclick = event => {
    const plotted = $(".u-over", chart).getBoundingClientRect(), at = charted.get(chart).posToVal(event.clientX - plotted.left, "x");
    const near = [...steps].sort((a, b) => Math.abs(nights[a.at].at - at) - Math.abs(nights[b.at].at - at))[0];
    if (near) choose(near);
  };
  return plotMetric(chart, nights, one.metrics[metric], one.intervals[metric] ?? [], steps, unit);
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

// A state is a shape and a colour, the same in the grid and in strips. Paths are in a square of 12.
const SHAPES = {
  p: "M6 3a3 3 0 1 1 0 6a3 3 0 1 1 0-6z", f: "M1 1h10v10h-10z", o: "M1 1h10v10h-10zM3.5 3.5v5h5v-5z", x: "M6 1l5.5 10h-11z",
  y: "M4.5 1h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z", u: "M1 4.7h10v2.6h-10z", l: "M1 1h10l-10 10h10z", "-": "M6 5a1 1 0 1 1 0 2a1 1 0 1 1 0-2z",
};
const NAMES = {p: "passed", f: "failed", o: "failed in another way", x: "known failure", y: "unexpected pass", u: "untestable", l: "flaky", "-": "not run"};
const shapeOf = letter => letter < "a" && letter !== "-" ? "l" : letter;
function dot(letter, text) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 12 12");
  svg.setAttribute("class", `dot d-${shapeOf(letter) === "-" ? "none" : shapeOf(letter)}`);
  if (text) { svg.setAttribute("role", "img"); svg.setAttribute("aria-label", text); } else svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", SHAPES[shapeOf(letter)]);
  path.setAttribute("fill-rule", "evenodd");
  svg.append(path);
  return svg;
}

// A strip has a dot for each night, the newest first. The pointer or the arrow keys choose the night that the line below it names.
function strip(list, states) {
  const told = element("p", "", {className: "cell"}), failed = states.filter(one => "foFX".includes(one.letter)).length;
  const items = states.map(one => { const item = element("li", "", {title: one.text}); item.append(dot(one.letter, one.text)); return item; });
  let at = -1;
  const tell = to => {
    if (!items[to]) return;
    items[at]?.classList.remove("at");
    items[at = to].classList.add("at");
    told.textContent = states[at].text;
  };
  list.replaceChildren(...items);
  list.tabIndex = 0;
  list.ariaLabel = `${states.length} nights, the newest first; it fails in ${failed}`;
  told.setAttribute("aria-live", "polite");
  list.after(told);
  items.forEach((item, number) => item.addEventListener("mouseenter", () => tell(number)));
  list.addEventListener("focus", () => tell(Math.max(0, at)));
  list.addEventListener("keydown", event => {
    const step = {ArrowLeft: -1, ArrowRight: 1, Home: -items.length, End: items.length}[event.key];
    if (!step) return;
    event.preventDefault();
    tell(Math.max(0, Math.min(items.length - 1, at + step)));
    items[at].scrollIntoView({block: "nearest", inline: "nearest"});
  });
  told.textContent = states[0]?.text ?? "";
}
const letterIn = (runs, gaps, night) => gaps.has(night) ? "-" : runs.find(run => run.first <= night && night <= run.last)?.letter ?? "-";
const nightText = (night, letter) => `${night.name}: ${NAMES[shapeOf(letter)]}`;

async function failurePage() {
  const list = $("ol.strip[data-states]"), [nights, tracks] = await Promise.all([readNights(), load("tracks")]);
  const own = tracks[list.dataset.track][1];
  strip(list, [...list.dataset.states].map((letter, at) => ({letter, text: nightText(nights[own[at]], letter)})).reverse());
}

// The grid of one track draws only the rows in sight: names as links, states on one canvas, the newest night first.
const ROW = 22, PRINTED = 500, NARROW = 18, WIDE = 88;
async function gridPage() {
  const form = $("#filters"), box = $("#grid"), canvas = $("canvas", box), list = $("ol", box), cell = $("#cell"), heads = $(".heads ol");
  const [nights, data, tracks] = await Promise.all([readNights(), load("grid"), load("tracks")]);
  const cases = data.cases.map(([name, track, flaky], number) => {
    const runs = readRuns(data.runs[number]), last = runs[runs.length - 1];
    const names = runs.filter(run => run.failure).map(run => data.failures[run.failure]);
    const short = name.endsWith(` (${tracks[track][0]})`) ? name.slice(0, -tracks[track][0].length - 3) : name;
    return {number, name, short, track, flaky, runs, last, gaps: new Set(data.gaps[number]), flips: runs.length - 1, classes: new Set(names.map(([, of]) => of)),
      text: [name, ...names.map(([signature]) => signature)].join("\n").toLowerCase()};
  });
  const failed = tracks.map((_, track) => cases.filter(one => one.track === track && failing(one.last.letter)).length);
  const usual = tracks[failed.indexOf(Math.max(...failed))][0];
  form.suite.append(...tracks.map(([name]) => element("option", name, {value: name, defaultSelected: name === usual})));
  form.class.append(...[...new Set(data.failures.map(([, of]) => of))].filter(Boolean).sort().map(word => element("option", word, {value: word})));
  for (const letter of "pfxyul-") { const key = element("span", "", {className: "key"}); key.append(dot(letter), ` ${NAMES[letter]}`); $("#key").append(key); }
  let shown = [], all = [], columns = [], from = 0, width = NARROW, names = 300, at = {row: 0, column: 0}, active = false;

  function choose(night) {
    const wanted = Object.fromEntries(new FormData(form)), words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
    const track = Math.max(0, tracks.findIndex(([name]) => name === wanted.suite));
    all = [...tracks[track][1]].reverse();
    const owner = one => failing(one.last.letter) ? data.owners[data.failures[one.last.failure][2]] || "-" : null;
    const tests = {failing: one => failing(one.last.letter), ever: one => one.classes.size, flaky: one => one.flaky, changed: one => one.flips && one.last.first === all[0]};
    shown = cases.filter(one => one.track === track && (!wanted.class || one.classes.has(wanted.class)) && (!wanted.show || tests[wanted.show](one))
      && (!wanted.owner || owner(one) === wanted.owner) && words.every(word => one.text.includes(word)));
    const orders = {name: () => 0, changed: one => -one.last.first * (one.flips > 0), flips: one => -one.flips, "": one => failing(one.last.letter) ? -one.last.first - 1 : one.classes.size ? 0 : 1};
    const order = orders[wanted.sort];
    shown.sort((a, b) => order(a) - order(b) || (a.name < b.name ? -1 : 1));
    $("#shown").textContent = `${shown.length} of ${cases.filter(one => one.track === track).length} cases in ${all.length} nights`;
    from = Math.max(0, all.indexOf(night));
    at = {row: Math.min(at.row, Math.max(0, shown.length - 1)), column: 0};
    $(".space", box).style.height = `${shown.length * ROW}px`;
    box.scrollTop = 0;
    layout();
  }
  function layout() {
    box.style.setProperty("--all", `${shown.length * ROW + 2}px`);
    names = Math.min(340, Math.round(box.clientWidth * 0.42));
    for (const part of [box, heads.parentElement]) part.style.setProperty("--names", `${names}px`);
    box.style.setProperty("--paper", `${Math.min(shown.length, PRINTED) * ROW}px`);
    const space = box.clientWidth - names;
    width = Math.max(NARROW, Math.min(WIDE, Math.floor(space / Math.max(1, all.length))));
    turn(0);
  }
  function turn(by) {
    const count = Math.max(1, Math.floor((box.clientWidth - names) / width));
    from = Math.max(0, Math.min(all.length - count, from + by));
    columns = all.slice(from, from + count);
    at.column = Math.min(at.column, columns.length - 1);
    $("#newer").disabled = from === 0;
    $("#older").disabled = from + count >= all.length;
    $(".turn").hidden = count >= all.length;
    heads.className = width < WIDE ? "narrow" : "";
    heads.replaceChildren(...columns.map((night, column) => {
      const head = element("li", "", {title: nights[night].name});
      head.style.left = `${names + column * width}px`;
      head.style.width = `${width}px`;
      head.append(element("b", day(nights[night].at)), " ", element("span", nights[night].version));
      return head;
    }));
    draw();
  }
  const paths = Object.fromEntries(Object.entries(SHAPES).map(([letter, path]) => [letter, new Path2D(path)]));
  function draw() {
    const ratio = devicePixelRatio || 1, height = box.clientHeight, top = box.scrollTop, first = Math.floor(top / ROW), rows = [], colours = {};
    canvas.width = box.clientWidth * ratio; canvas.height = height * ratio;
    canvas.style.width = `${box.clientWidth}px`; canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    for (let row = first; row < Math.min(shown.length, first + height / ROW + 1); row++) {
      const y = row * ROW - top, one = shown[row];
      const item = element("li", "", {className: active && row === at.row ? "at" : ""});
      item.style.top = `${y}px`;
      item.append(element("a", one.short, {href: caseAddress(one.name), title: one.name, tabIndex: -1}));
      rows.push(item);
      columns.forEach((night, column) => {
        const shape = shapeOf(letterIn(one.runs, one.gaps, night));
        pen.setTransform(ratio, 0, 0, ratio, ratio * (names + (column + 0.5) * width - 6), ratio * (y + ROW / 2 - 6));
        pen.fillStyle = colours[shape] ??= colour(`d-${shape === "-" ? "none" : shape}`);
        pen.fill(paths[shape], "evenodd");
      });
    }
    list.replaceChildren(...rows);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (active && shown.length) {
      pen.strokeStyle = colour("fg"); pen.lineWidth = 2;
      pen.strokeRect(names + at.column * width + 1, at.row * ROW - top + 1, width - 2, ROW - 2);
    }
  }
  function tell() {
    const one = shown[at.row], night = columns[at.column];
    if (!one || night === undefined) return;
    const letter = letterIn(one.runs, one.gaps, night), run = letter === "-" ? null : one.runs.find(other => other.first <= night && night <= other.last);
    const parts = [element("a", one.short, {href: caseAddress(one.name)}), element("br"), nightText(nights[night], letter)];
    if (run?.failure) {
      const [text, kind, page] = data.failures[run.failure];
      parts.push(", ", failureLink(kind, page, text), ` since ${day(nights[run.first].at)}`);
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
  $("#newer").onclick = () => turn(-columns.length);
  $("#older").onclick = () => turn(columns.length);
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
    const column = at.column + moves[event.key][1];
    if (column < 0 || column >= columns.length) turn(moves[event.key][1]);
    at.column = Math.max(0, Math.min(columns.length - 1, column));
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
  const asked = new URLSearchParams(location.search);
  for (const [name, value] of asked) if (form[name]) form[name].value = value;
  form.addEventListener("input", write);
  form.addEventListener("reset", () => setTimeout(write));
  form.addEventListener("submit", event => event.preventDefault());
  redraws.push(layout);
  choose(Number(asked.get("night") ?? NaN));
  if (asked.has("night")) { active = true; draw(); tell(); }
}

// "Mine": the owner whose failures are shown is remembered in this browser.
function ownerFilter(select) {
  const store = {get: () => { try { return localStorage.getItem("triage-owner"); } catch { return null; } }, set: owner => { try { localStorage.setItem("triage-owner", owner); } catch { /* private window */ } }};
  const known = [...select.options].map(option => option.value), asked = new URLSearchParams(location.search).get("owner") ?? store.get();
  if (known.includes(asked)) select.value = asked;
  const show = () => $$("tr[data-owner]").forEach(row => { row.hidden = Boolean(select.value) && row.dataset.owner !== select.value; });
  select.addEventListener("input", () => { store.set(select.value); show(); });
  show();
}

async function searchPage() {
  const input = $(".find input"), data = await Promise.all([load("search"), load("grid")]), MOST = 50;
  const rows = [...data[1].cases.map(([name]) => ["case", name, `case.html#${encodeURIComponent(name)}`]), ...data[0]].map(row => [...row, row[1].toLowerCase()]);
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean), found = words.length ? rows.filter(row => words.every(word => row[3].includes(word))) : [];
    $("#found").textContent = words.length ? `${found.length} found for ${input.value}` : "Type a part of a case, failure, flag or commit above.";
    for (const section of $$("section[data-kind]")) {
      const own = found.filter(([kind]) => kind === section.dataset.kind);
      section.hidden = !own.length;
      $(".count", section).textContent = own.length;
      $("ul", section).replaceChildren(...own.slice(0, MOST).map(([, text, address]) => { const item = element("li"); item.append(element("a", text, {href: root + address})); return item; }),
        ...own.length > MOST ? [element("li", `and ${own.length - MOST} more; type more of it`)] : []);
    }
  };
  input.value = new URLSearchParams(location.search).get("text") ?? "";
  input.addEventListener("input", () => { history.replaceState(null, "", `?text=${encodeURIComponent(input.value)}`); show(); });
  $(".find").addEventListener("submit", event => { event.preventDefault(); $("section[data-kind]:not([hidden]) a")?.focus(); });
  show();
}

// One case.
function hash(name) {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}
async function readCase(name) {
  const one = (await load(`cases-${hash(name) % document.body.dataset.files}`))[name];
  if (one) one.steps = one.steps.map(([metric, at, old, now, before, url]) => ({metric, at, old, now, before, url}));
  return one;
}
const fill = (section, rows) => {
  const heads = $$("th", section);
  section.hidden = false;
  $("tbody", section).replaceChildren(...rows.map(cells => { const row = element("tr"); row.append(...cells.map((cell, column) => { const td = element("td"); td.dataset.label = heads[column].textContent; td.append(...[cell].flat()); return td; })); return row; }));
};
const stateText = letter => element("span", stateName(letter), {className: `s-${letter.toLowerCase()}`});
const failureText = failure => failure ? [failureLink(failure.class, failure.id, ""), " ", element("span", failure.headline, {className: "headline"})] : "";

async function casePage() {
  const name = decodeURIComponent(location.hash.slice(1)), [nights, tracks, one] = await Promise.all([readNights(), load("tracks"), readCase(name)]);
  document.title = `${name} · ${document.title.split(" · ").pop()}`;
  $("#case").textContent = one?.case ?? name;
  if (!one) { $("#state").textContent = "No stored night has this case."; return; }
  const runs = readRuns(one.runs), last = runs[runs.length - 1], [track, own] = tracks[one.track], gaps = new Set(one.gaps);
  $("#state").replaceChildren(dot(last.letter), element("span", one.said, {className: `s-${last.letter.toLowerCase()}`}));
  const place = element("dd"), facts = [element("dt", "track"), place];
  place.append(element("a", track, {href: `${root}grid.html?suite=${encodeURIComponent(track)}`}));
  if (one.source) facts.push(element("dt", "recipe"), element("dd", one.source));
  $("#facts").replaceChildren(...facts);
  strip($("#strip"), own.filter(night => night >= runs[0].first).map(night => { const letter = letterIn(runs, gaps, night); return {letter, text: nightText(nights[night], letter)}; }).reverse());
  const between = run => [...new Set([day(nights[run.first].at), day(nights[run.last].at)])].join(" to ") + (run.last > run.first ? ` (${own.filter(night => run.first <= night && night <= run.last && !gaps.has(night)).length} nights)` : "");
  fill($("#nights"), [...runs].reverse().map(run => [between(run), nights[run.first].name.split(", ").slice(1).join(", "), stateText(run.letter), failureText(one.failures[run.failure])]));
  if (one.states?.length) fill($("#releases"), one.states.map(([toolchain, letter, failure]) => [toolchain, stateText(letter), failure]));
  if (one.log) showLog($("#log"), one.log);
  for (const section of $$(".metric")) {
    const metric = section.dataset.metric;
    if (!one.metrics[metric] || one.metrics[metric].length < 3) continue;
    section.hidden = false;
    await showSteps(section, nights, one, metric, section.dataset.unit).catch(() => { section.hidden = true; });
  }
}
function showLog(section, log) {
  section.hidden = false;
  $("p", section).textContent = `On ${log.toolchain}.${log.left_out ? ` ${log.left_out} lines are left out.` : ""}`;
  $(".command", section).textContent = log.command;
  $(".command", section).parentElement.hidden = !log.command;
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
    await showSteps(box, nights, one, metric, unit);
  };
  rows.forEach(row => {
    const button = element("button", row.cells[1].textContent, {type: "button", onclick: () => choose(row)});
    row.cells[1].replaceChildren(button);
  });
  await choose(rows[0]);
}

$$("table.sortable").forEach(sortable);
$$("main pre[tabindex]:not(.headline, .log)").forEach(block);
$$(".to-do code, .facts code").filter(code => code.textContent.startsWith("triage ")).forEach(code => code.after(copyButton(code)));
$$("select.owner").forEach(ownerFilter);
const pages = [["#rates", overview], ["#grid", gridPage], ["#case", casePage], ["#steps", trends], ["ol[data-states]", failurePage], ["#search", searchPage]];
for (const [selector, show] of pages) if ($(selector)) show().catch(error => { console.error(error); $("main").prepend(element("p", error.message, {className: "note", role: "alert"})); });
if ($("#case")) addEventListener("hashchange", () => location.reload());
