"use strict";
// Controls are made here, so that a page without scripts has none that do nothing.
const FILTERED_FROM = 9; // rows
const PARTED_FROM = 12; // columns

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// A click on a column's head sorts the rows by their values: numbers as numbers, empty values always last.
function sortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => {
    const button = make("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].firstChild.data;
      const compare = (a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const order = head.classList.contains("number") ? x - y : x.localeCompare(y, "en", { numeric: true });
        return down ? -order : order;
      };
      body.append(...[...body.rows].sort(compare));
    });
  });
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
    const left = rows.filter((row) => !row.hidden).length;
    count.value = left === rows.length ? `${left} rows` : `${left} of ${rows.length} rows`;
  });
  return [field, count];
}

// A box for each group of columns of a wide table hides them.
function parts(table) {
  const groups = table.tHead.querySelector(".groups");
  const width = table.tHead.rows[table.tHead.rows.length - 1].cells.length;
  if (!groups || width < PARTED_FROM) return [];
  let first = 0;
  const boxes = [];
  for (const head of groups.cells) {
    const [from, end] = [first, (first += head.colSpan)];
    if (!head.textContent) continue;
    const box = make("input", { type: "checkbox", checked: true });
    box.addEventListener("change", () => {
      head.hidden = !box.checked;
      for (const row of table.rows) {
        if (row === groups) continue;
        for (const cell of [...row.cells].slice(from, end)) cell.hidden = !box.checked;
      }
    });
    boxes.push(make("label", {}, box, ` ${head.textContent}`));
  }
  return boxes;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const controls = [...filter(table), ...parts(table)];
  sortable(table);
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

// A click on a heading's mark copies its address, where the browser lets a page do so.
for (const anchor of document.querySelectorAll("a.anchor")) {
  anchor.addEventListener("click", () => navigator.clipboard?.writeText(anchor.href).catch(() => {}));
}

// The entry of the section that is being read is marked, and its study opened.
const contents = document.getElementById("contents");
const narrow = matchMedia("(max-width: 60rem)");
const fold = () => (contents.open = !narrow.matches);
narrow.addEventListener("change", fold);
fold();
const entries = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
const seen = new Set();
const observer = new IntersectionObserver(
  (changes) => {
    for (const { target, isIntersecting } of changes) isIntersecting ? seen.add(target) : seen.delete(target);
    // of a study and a table in it the table
    const here = [...seen].filter((one) => ![...seen].some((other) => other !== one && one.contains(other)))[0];
    if (!here) return;
    for (const link of entries.values()) link.removeAttribute("aria-current");
    const link = entries.get(here.id);
    link.setAttribute("aria-current", "location");
    const study = link.closest("li details");
    for (const other of contents.querySelectorAll("li details")) other.open = other === study;
    if (!narrow.matches) link.scrollIntoView({ block: "nearest" });
  },
  { rootMargin: "-10% 0px -85% 0px" },
);
for (const id of entries.keys()) observer.observe(document.getElementById(id));
