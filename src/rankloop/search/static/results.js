// The list of results: documents keep their element while they are in sight, so that one sees them move.

import { make } from "/page/format.js";
import { showReasons } from "./reasons.js";
import { counted, dateOf, marked, titleOf } from "./text.js";

const STEP = 10; // results at a time
const MOVING = { duration: 420, easing: "cubic-bezier(.2, .8, .2, 1)" };
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class ResultList {
  // `acts`: what happens on open(id), undo(id), and who knows clicksOf(id).
  constructor(list, more, acts) {
    this.list = list;
    this.more = more;
    this.acts = acts;
    this.found = { results: [], impression: "" };
    more.addEventListener("click", () => this.showMore());
    this.correction = make("p", { className: "correction", hidden: true });
    list.before(this.correction);
  }

  show(found) {
    const same = found.query === this.found.query && found.impression === this.found.impression;
    if (!same) this.visible = STEP;
    this.found = found;
    this.list.dataset.impression = found.impression;
    this.showCorrection(found.did_you_mean ?? "");
    this.draw();
  }

  showCorrection(text) {
    this.correction.hidden = !text;
    const made = make("button", { type: "button", className: "text" }, text);
    made.addEventListener("click", () => (location.hash = `q=${encodeURIComponent(text)}`));
    this.correction.replaceChildren("Did you mean ", made, "?");
  }

  showMore() {
    const first = this.visible;
    this.visible += STEP;
    this.draw();
    this.list.children[first]?.querySelector(".title").focus();
  }

  draw() {
    const shown = this.found.results.slice(0, this.visible);
    const before = new Map([...this.list.children].map((row) => [row.dataset.id, row]));
    const tops = new Map([...before].map(([id, row]) => [id, row.getBoundingClientRect().top]));
    const rows = shown.map((result, position) => this.row(before.get(result.id), result, position));
    this.place(rows);
    this.more.hidden = this.found.results.length <= this.visible;
    if (still.matches || !this.found.impression) return;
    for (const row of rows) {
      const by = (tops.get(row.dataset.id) ?? NaN) - row.getBoundingClientRect().top;
      if (Math.abs(by) > 1) row.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], MOVING);
    }
  }

  // Only what moves is taken out: a result that is being pressed stays where it is. The focus goes along.
  place(rows) {
    const held = this.list.contains(document.activeElement) ? document.activeElement : null;
    rows.forEach((row, i) => {
      if (this.list.children[i] !== row) this.list.insertBefore(row, this.list.children[i] ?? null);
    });
    while (this.list.children.length > rows.length) this.list.lastChild.remove();
    if (held === null || held === document.activeElement) return;
    const next = this.list.contains(held) ? held : rows[0]?.querySelector(".title");
    next?.focus({ preventScroll: true });
  }

  row(known, result, position) {
    const row = known ?? this.made(result.id);
    const part = (name) => row.querySelector(name);
    part(".position").textContent = position + 1;
    part(".title").textContent = titleOf(result);
    part(".path bdi").textContent = result.id;
    part(".snippet").replaceChildren(...marked(result.snippet, result.highlights));
    part(".date").hidden = !result.at;
    part(".date").textContent = result.at ? dateOf(result.at) : "";
    part(".meaning").hidden = !result.by_meaning;
    const logged = Boolean(this.found.impression);
    part(".why").hidden = !logged;
    const told = part(".reasons");
    if (told.dataset.impression !== this.found.impression) this.closeReasons(row);
    const moved = logged && !this.found.compared ? (result.moved ?? 0) : 0; // a mixture moves for other reasons
    part(".moved").hidden = moved === 0;
    part(".moved").dataset.direction = moved > 0 ? "up" : "down";
    part(".moved").replaceChildren(...wordsOfMove(moved, this.acts.clicksOf(result.id).length > 0));
    this.mark(row);
    return row;
  }

  made(id) {
    const button = (className, words, act) => {
      const made = make("button", { type: "button", className }, words);
      made.addEventListener("click", act);
      return made;
    };
    const why = button("text why", "Why here?", () => this.toggleReasons(row));
    why.setAttribute("aria-expanded", "false");
    const undo = button("text undo", "Undo", () => this.acts.undo(id));
    const actions = make("p", { className: "row-actions" }, why, make("span", { className: "clicked" }), undo);
    const row = make(
      "li",
      {},
      make("span", { className: "position" }),
      make(
        "div",
        { className: "result" },
        make(
          "h3",
          {},
          button("title", "", () => this.acts.open(id)),
        ),
        make(
          "p",
          { className: "path" },
          make("bdi"),
          make("span", { className: "date" }),
          make("span", { className: "meaning", title: "It has none of the words, but is near in meaning" }, "found by meaning"),
          make("span", { className: "moved" }),
        ),
        make("p", { className: "snippet" }),
        actions,
        make("div", { className: "reasons", hidden: true }),
      ),
    );
    row.dataset.id = id;
    return row;
  }

  // What was clicked is said at the result, with a way back.
  mark(row = null) {
    for (const one of row ? [row] : this.list.children) {
      const times = this.found.impression ? this.acts.clicksOf(one.dataset.id).length : 0;
      one.querySelector(".undo").hidden = times === 0;
      one.querySelector(".clicked").textContent = times ? `✓ opened ${times === 1 ? "once" : `${times} times`}` : "";
      one.classList.toggle("chosen", times > 0);
    }
  }

  async toggleReasons(row) {
    const box = row.querySelector(".reasons");
    if (!box.hidden) return this.closeReasons(row);
    box.hidden = false;
    box.dataset.impression = this.found.impression;
    row.querySelector(".why").setAttribute("aria-expanded", "true");
    const next = this.found.results[[...this.list.children].indexOf(row) + 1];
    const below = next && { id: next.id, title: titleOf(next) };
    await showReasons(box, this.found, row.dataset.id, below);
  }

  closeReasons(row) {
    const box = row.querySelector(".reasons");
    box.hidden = true;
    box.replaceChildren();
    row.querySelector(".why").setAttribute("aria-expanded", "false");
  }

  rowOf(id) {
    return [...this.list.children].find((row) => row.dataset.id === id);
  }

  // The result that has the focus, or where a step from it leads; null above the first.
  focused() {
    return document.activeElement.closest?.("#results li") ?? null;
  }

  step(by) {
    const rows = [...this.list.children];
    const next = rows.indexOf(this.focused()) + by;
    if (next < 0) return false;
    rows[Math.min(next, rows.length - 1)]?.querySelector(".title").focus();
    return rows.length > 0;
  }
}

// All the words where it was a person's doing; a neighbour that made room has an arrow, and the words for ears.
function wordsOfMove(moved, chosen) {
  const far = Math.abs(moved);
  if (moved === 0) return [];
  const where = make("span", { className: "unseen" }, `${counted(far, "position")} ${moved > 0 ? "up" : "down"}`);
  const since = make(
    "span",
    { className: moved > 1 || (moved > 0 && chosen) ? "" : "unseen" },
    " since your last search of this query",
  );
  const arrow = make("span", {}, `${moved > 0 ? "▲" : "▼"} ${far}`);
  arrow.setAttribute("aria-hidden", "true");
  return [arrow, where, since];
}
