"use strict";
// One line a question, and below it what each run answered.
const rows = JSON.parse(document.getElementById("rows").textContent);
const runs = JSON.parse(document.getElementById("runs").textContent);
const list = document.getElementById("questions");
const more = document.getElementById("more");
const count = document.getElementById("count");
const PAGE = 100;
const FILTERS = ["text", "right", "wrong", "hops"];
const field = (name) => document.getElementById(name);
let shown = [];
let placed = 0;

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function item(row) {
  const details = element("details", "question");
  details.dataset.id = row.id;
  const summary = element("summary");
  summary.append(element("span", "asked", row.question));
  const line = element("span", "line", `gold: ${row.gold ?? "no answer in the corpus"} · ${row.kind} · `);
  row.runs.forEach((told, n) => {
    const what = told.stage ? `${runs[n].label}: ${told.stage}` : `${runs[n].label}: right`;
    line.append(element("span", `status ${told.verdict}`, what), " ");
  });
  summary.append(line);
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(answers(row));
  });
  const holder = element("li");
  holder.append(details);
  return holder;
}

function answers(row) {
  const told = element("ul");
  row.runs.forEach((one, n) => {
    const entry = element("li");
    const name = runs[n].link ? element("a", "", runs[n].label) : element("span", "", runs[n].label);
    if (runs[n].link) name.href = `${runs[n].link}#q=${encodeURIComponent(row.id)}`;
    const f1 = one.f1 === null ? "" : ` (F1 ${one.f1.toFixed(2)})`;
    const said = element("span", one.answer === null ? "none" : "answer", one.answer ?? "no answer");
    entry.append(name, " → ", said, f1);
    told.append(entry);
  });
  return told;
}

function matches(row, wanted) {
  const right = (n) => row.runs[n].verdict === "right";
  if (wanted.right && !right(Number(wanted.right))) return false;
  if (wanted.wrong && right(Number(wanted.wrong))) return false;
  if (wanted.hops && String(row.hops) !== wanted.hops) return false;
  const all = `${row.id}\n${row.question}\n${row.gold ?? ""}`.toLowerCase();
  return wanted.text.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

function draw() {
  const wanted = Object.fromEntries(FILTERS.map((name) => [name, field(name).value]));
  shown = rows.filter((row) => matches(row, wanted));
  list.replaceChildren();
  placed = 0;
  count.textContent = `${shown.length} of ${rows.length} questions`;
  draw_more();
}

function draw_more() {
  const next = shown.slice(placed, placed + PAGE);
  list.append(...next.map(item));
  placed += next.length;
  more.hidden = placed >= shown.length;
}

for (const name of FILTERS) field(name).addEventListener("input", draw);
document.querySelector("form.filters").addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", draw_more);
draw();
