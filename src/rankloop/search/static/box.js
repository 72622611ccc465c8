// The search box. While somebody types, answers are a preview; turning to them makes the search.

const WAIT = 90; // milliseconds without a key before a preview is asked for
const REST = 1000; // milliseconds after which a preview on a touch screen is a search
const touch = matchMedia("(pointer: coarse)");

export class SearchInput {
  // `acts`: preview(text, signal), search(text), clear().
  constructor(form, input, acts) {
    this.input = input;
    this.acts = acts;
    this.searching = Promise.resolve();
    this.hasPreview = false; // there is a preview of the text in the box, or one is on its way
    this.coming = null; // ends the preview that is on its way
    input.addEventListener("input", () => this.typed());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.search();
    });
  }

  get text() {
    return this.input.value.toWellFormed().trim();
  }

  typed() {
    this.stop();
    this.hasPreview = this.text !== "";
    if (!this.hasPreview) return this.acts.clear();
    this.timer = setTimeout(() => this.preview(), WAIT);
    if (touch.matches) this.resting = setTimeout(() => this.turn(), REST);
  }

  // An answer that is overtaken by typing is dropped, whenever it comes.
  async preview() {
    const { signal } = (this.coming = new AbortController());
    await this.searching;
    if (signal.aborted) return;
    await this.acts.preview(this.text, signal);
  }

  stop() {
    clearTimeout(this.timer);
    clearTimeout(this.resting);
    this.coming?.abort();
  }

  // A user who moves to the results has searched.
  turn() {
    if (this.hasPreview) this.search();
  }

  // Searches are shown in the order in which they were made, and none is left out: they are logged.
  search(text = this.text) {
    this.stop();
    this.hasPreview = false;
    if (text === "") return this.searching;
    this.searching = this.searching.then(() => this.acts.search(text));
    return this.searching;
  }
}
