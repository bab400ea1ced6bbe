"use strict";
// Tables: controls are made here, so that a page without scripts has none that do nothing.
const FILTERED_FROM = 9; // rows
const AT_FIRST = 12; // columns
const NARROW = matchMedia("(max-width: 60rem)"); // as in the style sheet
// statistics that a summary line can have, by the first words of its title
const STATISTICS = {
  "geometric mean": (values) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length),
  mean: (values) => values.reduce((sum, value) => sum + value, 0) / values.length,
  median: (values) => {
    const [sorted, half] = [values.toSorted((a, b) => a - b), values.length >> 1];
    return values.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  },
};

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const headsOf = (table) => [...table.tHead.rows[table.tHead.rows.length - 1].cells];
const valueOf = (cell) => cell.dataset.value ?? cell.firstChild?.data ?? "";

// A click on a column's head sorts the rows by their values, numbers as numbers and empty values last; the second one
// turns the order round, and the third brings back the order in which the rows came.
function sortable(table) {
  const body = table.tBodies[0];
  const heads = headsOf(table);
  const asTheyCame = [...body.rows];
  heads.forEach((head, column) => {
    const button = make("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (order === null) return body.append(...asTheyCame);
      head.setAttribute("aria-sort", order);
      const compare = (a, b) => {
        const [x, y] = [valueOf(a.cells[column]), valueOf(b.cells[column])];
        if (x === "" || y === "") return (x === "") - (y === "");
        const sign = order === "descending" ? -1 : 1;
        return sign * (head.classList.contains("number") ? x - y : x.localeCompare(y, "en", { numeric: true }));
      };
      body.append(...asTheyCame.toSorted(compare));
    });
  });
}

function threeDigits(value) {
  if (Math.abs(value) >= 99.95) return String(Math.round(value));
  return value.toPrecision(Math.abs(value) < 1 ? 2 : 3);
}

// Lines below a filtered table: its own statistics over the rows that are left, or else their medians.
function summarize(table, rows) {
  table.querySelectorAll("tr.of-shown").forEach((line) => line.remove());
  if (!rows.length || rows.length === table.tBodies[0].rows.length) return;
  const named = (line) => Object.keys(STATISTICS).find((name) => line.cells[0].textContent.startsWith(name));
  const own = [...(table.tFoot?.rows ?? [])].filter((line) => named(line) && !line.cells[0].textContent.includes(","));
  const foot = table.tFoot ?? table.createTFoot();
  const heads = headsOf(table);
  const wanted = own.length ? own.map((line) => [named(line), line]) : [["median", null]];
  for (const [name, line] of wanted.reverse()) {
    const cells = heads.map((head, column) => {
      if (column === 0) return make("th", { scope: "row" }, `${name} of ${rows.length} shown`);
      const values = rows.map((row) => valueOf(row.cells[column])).filter((value) => value !== "").map(Number);
      const told = head.classList.contains("number") && (!line || valueOf(line.cells[column]) !== "");
      const number = told && values.length ? STATISTICS[name](values) : NaN;
      const unit = line?.cells[column].textContent.includes("%") ? " %" : "";
      const text = Number.isFinite(number) ? (unit ? Math.round(number) : threeDigits(number)) + unit : "";
      return make("td", { className: head.classList.contains("number") ? "number" : "" }, text);
    });
    foot.prepend(make("tr", { className: "of-shown" }, ...cells));
  }
}

// Rows that have all of the words stay.
function filter(table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FILTERED_FROM) return [];
  const field = make("input", { type: "search", placeholder: "filter rows", ariaLabel: "Filter rows" });
  const count = make("output", {}, `${rows.length} rows`);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const left = rows.filter((row) => !row.hidden);
    count.value = left.length === rows.length ? `${rows.length} rows` : `${left.length} of ${rows.length} rows`;
    summarize(table, left);
    table.showColumns?.();
  });
  return [field, count];
}

// How many columns are shown at first: on a narrow screen as many as fit, so that none is cut off.
function columnsAtFirst(table) {
  if (!NARROW.matches) return AT_FIRST;
  let left = table.closest(".scroll").clientWidth;
  const beyond = headsOf(table).findIndex((head) => (left -= head.offsetWidth) < 0);
  return beyond < 0 ? AT_FIRST : Math.max(3, Math.min(beyond, AT_FIRST));
}

// Of a wide table the first columns are shown, and a switch brings the others; a box hides those of a group.
function columns(table, atFirst) {
  const groups = table.tHead.querySelector(".groups");
  const count = headsOf(table).length;
  if (count <= atFirst) return [];
  const spans = [];
  let first = 0;
  for (const head of groups?.cells ?? []) head.dataset.span = head.colSpan;
  for (const head of groups?.cells ?? []) spans.push({ head, from: first, end: (first += head.colSpan), shown: true });
  let all = false;
  const visible = (column) =>
    (all || column < atFirst) && !spans.some((one) => !one.shown && one.from <= column && column < one.end);
  table.showColumns = () => {
    for (const row of table.rows) {
      if (row !== groups) [...row.cells].forEach((cell, column) => (cell.hidden = !visible(column)));
    }
    for (const { head, from, end } of spans) {
      const left = Array.from({ length: end - from }, (_, at) => from + at).filter(visible).length;
      head.hidden = !left;
      head.colSpan = Math.max(left, 1);
    }
  };
  const boxes = spans.filter(({ head }) => head.textContent).map((one) => {
    const box = make("input", { type: "checkbox", checked: true });
    box.addEventListener("change", () => {
      one.shown = box.checked;
      table.showColumns();
    });
    return make("label", { hidden: true }, box, ` ${one.head.textContent}`);
  });
  const button = make("button", { type: "button", className: "columns" });
  const turn = (to) => {
    all = to;
    button.textContent = all ? `first ${atFirst} columns` : `all ${count} columns`;
    for (const box of boxes) box.hidden = !all;
    table.showColumns();
  };
  button.addEventListener("click", () => turn(!all));
  table.showAllColumns = (to) => {
    const before = all;
    turn(to);
    return before;
  };
  turn(false);
  return [button, ...boxes];
}

const tables = [...document.querySelectorAll("table.sortable")];
tables.forEach(sortable);
// What is folded has no widths: all is opened for them, and folded again.
const folded = [...document.querySelectorAll("main details:not([open])")];
for (const one of folded) one.open = NARROW.matches;
const atFirst = tables.map(columnsAtFirst); // of all before the first is changed: widths are taken from one layout
for (const one of folded) one.open = false;
for (const [at, table] of tables.entries()) {
  const controls = [...filter(table), ...columns(table, atFirst[at])];
  const box = table.closest(".scroll");
  if (controls.length) box.before(make("div", { className: "controls" }, ...controls));
  // a letter's note, without a way down and back
  const notes = {};
  const below = box.nextElementSibling;
  const items = below && (below.matches(".notes") || below.querySelector(":scope > .notes")) ? below : null;
  for (const item of items ? items.querySelectorAll("li") : []) {
    const [letter, ...text] = item.textContent.trim().split(" ");
    notes[letter] = text.join(" ");
  }
  for (const mark of table.querySelectorAll("sup")) {
    mark.title = mark.textContent.split(",").map((letter) => notes[letter] || "").join("\n");
  }
}
