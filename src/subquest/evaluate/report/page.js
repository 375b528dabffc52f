"use strict";
// The list of episodes: filtered as you type, drawn a page at a time so that ten thousand rows stay quick.
const rows = JSON.parse(document.getElementById("rows").textContent);
const body = document.querySelector("#episodes tbody");
const count = document.getElementById("count");
const more = document.getElementById("more");
const fields = ["find", "set", "system", "outcome"].map((id) => document.getElementById(id));
const PAGE = 100;
let shown = PAGE;

function cell(row, text) {
  const td = row.insertCell();
  td.textContent = text;
  return td;
}

function draw() {
  const [find, set, system, outcome] = fields.map((field) => field.value);
  const words = find.toLowerCase();
  const found = rows.filter(
    (r) =>
      (!set || r.set === set) && (!system || r.system === system) && (!outcome || r.outcome === outcome) &&
      (!words || (r.question + " " + r.answer + " " + r.gold + " " + r.id).toLowerCase().includes(words)),
  );
  body.replaceChildren();
  for (const r of found.slice(0, shown)) {
    const row = body.insertRow();
    const state = cell(row, "");
    const pill = document.createElement("span");
    pill.className = "pill";
    const dot = document.createElement("i");
    dot.className = "o-" + r.outcome.replace(" ", "-");
    pill.append(dot, r.outcome + (r.forced ? ", forced" : ""));
    state.append(pill);
    cell(row, r.system);
    const question = cell(row, "");
    if (r.trace) {
      const link = document.createElement("a");
      link.href = "#" + r.trace;
      link.textContent = r.question;
      question.append(link);
    } else {
      question.textContent = r.question;
    }
    cell(row, r.answer || "–");
    cell(row, r.gold);
  }
  count.textContent = found.length + (found.length === 1 ? " episode" : " episodes");
  more.hidden = found.length <= shown;
}

function open() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.scrollIntoView();
  }
}

for (const field of fields) {
  field.addEventListener("input", () => {
    shown = PAGE;
    draw();
  });
}
more.addEventListener("click", () => {
  shown += 5 * PAGE;
  draw();
});
addEventListener("hashchange", open);
draw();
open();
