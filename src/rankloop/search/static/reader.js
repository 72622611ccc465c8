// A document beside the results, or over them on a phone. Its text is plain text.

import { call } from "/page/api.js";
import { dateOf, titleOf, wordsOf } from "./text.js";

const MAX_SHOWN = 200_000; // characters
const MAX_MARKED = 500;
const narrow = matchMedia("(max-width: 900px)");

export class Reader {
  constructor(dialog, closed) {
    this.dialog = dialog;
    this.id = null;
    const part = (name) => dialog.querySelector(`#reader-${name}`);
    this.parts = Object.fromEntries(["title", "path", "date", "note", "body"].map((name) => [name, part(name)]));
    part("close").addEventListener("click", () => this.close());
    // The event comes a moment after the dialog is closed. Who has gone on to type by then keeps the focus.
    dialog.addEventListener("close", () => {
      if (dialog.open) return;
      document.body.classList.remove("reading");
      if ([document.body, null].includes(document.activeElement)) closed(this.id);
    });
    narrow.addEventListener("change", () => dialog.open && this.place());
  }

  get isOpen() {
    return this.dialog.open;
  }

  async open(id, query, snippet) {
    const found = await call("GET", `/search/document?${new URLSearchParams({ id })}`);
    const { title, path, date, note, body } = this.parts;
    this.id = id;
    title.textContent = titleOf(found);
    path.textContent = found.id;
    date.textContent = found.at ? `· ${dateOf(found.at)}` : "";
    body.textContent = found.body.slice(0, MAX_SHOWN);
    note.textContent = found.body.length > MAX_SHOWN ? `The first ${MAX_SHOWN.toLocaleString("en")} characters.` : "";
    this.place();
    this.find(query, snippet);
    title.focus({ preventScroll: !narrow.matches });
  }

  // Beside the list it leaves the list alone; over it, the rest has to be out of reach.
  place() {
    if (this.dialog.open) {
      if (this.dialog.matches(":modal") === narrow.matches) return;
      this.dialog.removeAttribute("open");
    }
    document.body.classList.add("reading");
    if (narrow.matches) this.dialog.showModal();
    else this.dialog.show();
  }

  close() {
    if (this.dialog.open) this.dialog.close();
  }

  // Marks the words of the query where the browser can do so without touching the text, and goes to the snippet.
  find(query, snippet) {
    const { body } = this.parts;
    const text = body.firstChild;
    body.scrollTop = 0;
    if (text === null) return;
    const at = (start, end) => {
      const range = new Range();
      range.setStart(text, start);
      range.setEnd(text, end);
      return range;
    };
    const words = wordsOf(query).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    if (words.length > 0 && CSS.highlights) {
      const pattern = new RegExp(words.join("|"), "giu");
      const found =
        text.data.matchAll(pattern).take?.(MAX_MARKED) ?? [...text.data.matchAll(pattern)].slice(0, MAX_MARKED);
      CSS.highlights.set(
        "query",
        new Highlight(...Array.from(found, ({ index, 0: word }) => at(index, index + word.length))),
      );
    }
    const start = text.data.indexOf(snippet.slice(0, 60));
    if (start <= 0) return;
    body.scrollTop = at(start, start + 1).getBoundingClientRect().top - body.getBoundingClientRect().top - 40;
  }
}
