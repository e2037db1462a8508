"use strict";
// Questions are listed from #rows; what is below a question is unpacked when it is opened.
const rows = JSON.parse(document.getElementById("rows").textContent);
const size = Number(document.getElementById("questions").dataset.chunk);
const list = document.getElementById("questions");
const more = document.getElementById("more");
const count = document.getElementById("count");
const PAGE = 100;
const FILTERS = ["text", "verdict", "stage", "hops", "kind", "order"];
const field = (name) => document.getElementById(name);
let shown = [];
let placed = 0;

const unpacked = new Map();
function chunk(number) {
  if (!unpacked.has(number)) unpacked.set(number, unpack(number));
  return unpacked.get(number);
}
async function unpack(number) {
  const held = document.querySelector(`script[data-chunk="${number}"]`).textContent;
  const bytes = Uint8Array.from(atob(held), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

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
  summary.append(element("span", `status ${row.verdict}`, row.verdict), " ");
  if (row.stage) {
    summary.append(element("span", "status", row.hop ? `${row.stage}, hop ${row.hop}` : row.stage), " ");
  }
  summary.append(element("span", "asked", row.question));
  const said = row.answer === null ? "no answer" : row.answer;
  const gold = row.gold === null ? "no answer in the corpus" : row.gold;
  const line = [`said: ${said}`, `gold: ${gold}`, row.kind, ...row.told];
  summary.append(element("span", "line", line.filter(Boolean).join(" · ")));
  const body = element("div", "body");
  details.append(summary, body);
  details.addEventListener("toggle", () => { if (details.open) fill(details, body, row); });
  const holder = element("li");
  holder.append(details);
  return holder;
}

async function fill(details, body, row) {
  if (body.dataset.filled) return;
  body.dataset.filled = "yes";
  try {
    const { bodies, passages } = await chunk(Math.floor(row.place / size));
    body.innerHTML = bodies[row.place % size];
    for (const held of body.querySelectorAll("details[data-passage]")) {
      held.addEventListener("toggle", () => {
        if (held.open && held.children.length === 1) {
          held.append(element("p", "", passages[held.dataset.passage] || ""));
        }
      });
    }
  } catch (fault) {
    body.textContent = `This browser can't unpack the question (${fault}).`;
  }
}

const ORDERS = {
  file: null,
  f1: (a, b) => (a.f1 ?? 2) - (b.f1 ?? 2),
  calls: (a, b) => b.calls - a.calls,
  seconds: (a, b) => b.seconds - a.seconds,
};

function matches(row, wanted) {
  const { text, verdict, stage, hops, kind } = wanted;
  if (verdict === "wrong" ? row.verdict === "right" : verdict && row.verdict !== verdict) return false;
  if ((stage && row.stage !== stage) || (hops && String(row.hops) !== hops)) return false;
  if (kind && row.kind !== kind) return false;
  const all = `${row.id}\n${row.question}\n${row.answer ?? ""}\n${row.gold ?? ""}`.toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

function draw() {
  const wanted = Object.fromEntries(FILTERS.map((name) => [name, field(name).value]));
  shown = rows.filter((row) => matches(row, wanted));
  if (ORDERS[wanted.order]) shown.sort(ORDERS[wanted.order]);
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

function keep() {
  const told = new URLSearchParams();
  for (const name of FILTERS) if (field(name).value && field(name).value !== "file") told.set(name, field(name).value);
  history.replaceState(null, "", `#${told}`);
}

function read() {
  const told = new URLSearchParams(location.hash.slice(1));
  for (const name of FILTERS) field(name).value = told.get(name) ?? (name === "order" ? "file" : "");
  draw();
  if (told.has("q")) open_question(told.get("q"));
}

function open_question(id) {
  const at = shown.findIndex((row) => row.id === id);
  if (at < 0) return;
  while (placed <= at) draw_more();
  const details = list.children[at].firstElementChild;
  details.open = true;
  details.scrollIntoView();
}

for (const name of FILTERS) field(name).addEventListener("input", () => { keep(); draw(); });
document.querySelector("form.filters").addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", draw_more);
addEventListener("hashchange", read);
read();
