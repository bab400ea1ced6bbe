// The page as a whole: one search, where the reader is, words of variants, and what is printed.
const FOUND = 40; // places that a search names at the most
const LONGEST = 60; // rows of a table that is printed
const PRINTED = 1200; // CSS pixels of a table as on the screen that fit across a page of A4, turned, in small print

// A click on a heading's mark copies its address, where the browser lets a page do so.
for (const anchor of document.querySelectorAll("a.anchor")) {
  anchor.addEventListener("click", () => navigator.clipboard?.writeText(anchor.href).catch(() => {}));
}

// Where a link leads is unfolded, and so is the table there; what was folded is scrolled to, since it had no place.
function unfold(hash) {
  const target = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
  if (!target) return;
  const folds = [...target.querySelectorAll(":scope > details.fold")];
  for (let one = target.closest("details"); one; one = one.parentElement.closest("details")) folds.push(one);
  const closed = folds.filter((one) => !one.open);
  for (const one of closed) one.open = true;
  if (closed.length) target.scrollIntoView();
}
document.addEventListener("click", ({ target }) => unfold(target.closest?.('a[href^="#"]')?.hash ?? ""));
for (const event of ["hashchange", "load"]) addEventListener(event, () => unfold(location.hash));

// The entry of the section that is being read is marked, and its study opened.
const contents = document.getElementById("contents");
const fold = () => (contents.open = !NARROW.matches);
NARROW.addEventListener("change", fold);
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
    if (!NARROW.matches) link.scrollIntoView({ block: "nearest" });
  },
  { rootMargin: "-10% 0px -85% 0px" },
);
for (const id of entries.keys()) observer.observe(document.getElementById(id));

// One search: sections whose title, caption or rows have all of the words; a click filters the section's table by them.
const places = [];
for (const section of document.querySelectorAll("main section[id]")) {
  const head = section.querySelector(":scope > h2, :scope > h3");
  if (!head || section.querySelector("section")) continue;
  const study = section.parentElement.closest("section")?.querySelector("h2")?.firstChild.data.trim();
  const table = section.querySelector("table");
  const texts = [...section.querySelectorAll("h2, h3, p, dt, dd, details.caption")].map((part) => part.textContent);
  const title = `${study ? `${study}: ` : ""}${head.firstChild.data.trim()}`;
  const rows = [...(table?.tBodies[0].rows ?? [])].map((row) => row.textContent.toLowerCase());
  places.push({ id: section.id, title, table, text: texts.join(" ").toLowerCase(), rows });
}
const asked = make("input", { type: "search", placeholder: "search the page", ariaLabel: "Search the page" });
const told = make("output", {});
const found = make("ul", { className: "found" });
const all = make("button", { type: "button" });
const turn = (open) => {
  all.textContent = open ? "fold all" : "unfold all";
  all.onclick = () => {
    for (const one of document.querySelectorAll("main details.fold")) one.open = !open;
    turn(!open);
  };
};
turn(false);
contents.before(make("div", { className: "search", role: "search" }, asked, told, all, found));
asked.addEventListener("input", () => {
  const words = asked.value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (text) => words.every((word) => text.includes(word));
  const hits = places
    .map((place) => ({ ...place, count: place.rows.filter(has).length }))
    .filter((place) => words.length && (place.count || has(place.text)));
  told.value = words.length ? `${hits.length} places` : "";
  found.replaceChildren(
    ...hits.slice(0, FOUND).map((place) => {
      const rows = place.count ? ` (${place.count} ${place.count === 1 ? "row" : "rows"})` : "";
      const link = make("a", { href: `#${place.id}` }, place.title + rows);
      link.addEventListener("click", () => {
        const field = document.getElementById(place.id).querySelector(".controls input[type=search]");
        if (!field || !place.count) return;
        field.value = words.join(" ");
        field.dispatchEvent(new Event("input"));
      });
      return make("li", {}, link);
    }),
  );
});
asked.addEventListener("keydown", (event) => {
  if (event.key === "Enter") found.querySelector("a")?.click();
});

// What a mark of a figure says on hover is printed below the figure when the mark is touched or has the focus. The tab
// key stops once at each figure's marks, and the arrow keys go from one to the next.
for (const paper of document.querySelectorAll(".paper")) {
  const marks = [...paper.querySelectorAll("svg g title")].map((title) => title.parentElement);
  if (!marks.length) continue;
  const told = make("p", { className: "source told", ariaHidden: "true" }, "A touch or the arrow keys name the marks.");
  paper.after(told);
  paper.querySelector("svg").setAttribute("role", "group");
  for (const mark of marks) {
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", mark.querySelector("title").textContent.replaceAll("\n", ", "));
    mark.setAttribute("tabindex", mark === marks[0] ? 0 : -1);
  }
  paper.addEventListener("focusin", ({ target }) => {
    if (!marks.includes(target)) return;
    for (const mark of marks) mark.setAttribute("tabindex", mark === target ? 0 : -1);
    told.textContent = target.getAttribute("aria-label");
  });
  paper.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = marks.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault(); // else the page scrolls as well
    marks[(at + step + marks.length) % marks.length].focus();
  });
}

// The words of a variant, spelt out where the pointer is.
const legends = JSON.parse(document.getElementById("legends").textContent);
function spell(name, legend) {
  const said = [];
  for (const [pattern, words] of legend) {
    const match = name.match(new RegExp(`(?<![\\w])(?:${pattern})(?![\\w])`));
    if (match) said.push(`${match[0]}: ${words.replace(/\\(\d)/g, (_, at) => match[at] ?? "")}`);
  }
  return said.join("\n");
}
document.querySelector("main").addEventListener("mouseover", ({ target }) => {
  const cell = target.closest("td:not(.number), tbody th");
  const legend = legends[target.closest("section[data-study]")?.dataset.study];
  const name = cell?.firstChild?.data ?? "";
  if (!legend || cell.title || !/^\S*[-/]\S*$/.test(name)) return; // a variant's name has no blanks
  cell.title = spell(name, legend);
});

// In print all is open, and a table that is too wide comes in parts, each with the columns that name its rows. In place
// of a long table, and of environments but the first, it is said where they are.
const atRest = [];
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("main details:not([open])")) {
    folded.open = true;
    atRest.push(() => (folded.open = false));
  }
  const [, ...others] = document.querySelectorAll("#environment section");
  if (others.length) instead(others, make("p", { className: "part" }, `${others.length} more records: in the page.`));
  for (const table of document.querySelectorAll("main table")) {
    const box = table.closest(".scroll");
    const rows = table.tBodies[0].rows.length;
    if (rows > LONGEST) {
      instead([box], make("p", { className: "part" }, `${rows} rows: ${whereRowsAre(table)}.`));
      continue;
    }
    const before = table.showAllColumns?.(true);
    const widths = headsOf(table).map((head) => head.offsetWidth);
    const parts = before === undefined ? [] : cut(table, widths);
    if (parts.length > 1) {
      instead([box], ...parts.map((columns) => make("div", { className: "scroll part" }, part(table, columns))));
    }
    if (before !== undefined) atRest.push(() => table.showAllColumns(before));
  }
});
addEventListener("afterprint", () => {
  for (const undo of atRest.splice(0).reverse()) undo();
});

// Print some elements in place of others.
function instead(boxes, ...elements) {
  boxes[0].before(...elements);
  for (const box of boxes) box.classList.add("unprinted");
  atRest.push(() => {
    for (const element of elements) element.remove();
    for (const box of boxes) box.classList.remove("unprinted");
  });
}

const whereRowsAre = (table) => {
  const file = table.closest("section").querySelector(".source a[download]");
  return file ? `in the page, and in its file ${file.download}` : "in the page";
};

// Columns of each part: the leading ones of texts, and as many others as a page has room for.
function cut(table, widths) {
  const heads = headsOf(table);
  const numeric = heads.findIndex((head) => head.classList.contains("number"));
  const naming = [...Array(Math.max(1, Math.min(numeric, 3))).keys()];
  const room = PRINTED - naming.reduce((sum, column) => sum + widths[column], 0);
  const parts = [];
  let left = 0;
  for (let column = naming.length; column < heads.length; column++) {
    if (!heads[column].hidden && (left -= widths[column]) < 0) {
      parts.push([...naming]);
      left = room - widths[column];
    }
    if (!heads[column].hidden) parts.at(-1).push(column);
  }
  return parts;
}

function part(table, kept) {
  const copy = table.cloneNode(true);
  copy.removeAttribute("id");
  const groups = copy.querySelector(".groups");
  for (const row of copy.rows) {
    if (row !== groups) [...row.cells].forEach((cell, column) => kept.includes(column) || cell.remove());
  }
  let first = 0;
  for (const head of [...(groups?.cells ?? [])]) {
    const [from, end] = [first, (first += Number(head.dataset.span))];
    const count = kept.filter((column) => from <= column && column < end).length;
    if (count) head.colSpan = count;
    else head.remove();
  }
  return copy;
}
