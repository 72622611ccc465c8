// Values of fields beside the results, with the number of documents. A press adds field:value to the query, or takes it out.

import { make } from "/page/format.js";

const MAX_VALUES = 6; // of a field, before "more"
const wide = matchMedia("(min-width: 901px)");

export class Filters {
  // `search` is called with the changed query.
  constructor(details, search) {
    this.details = details;
    this.place = details.querySelector("div");
    this.search = search;
    const unfold = () => (details.open = wide.matches);
    wide.addEventListener("change", unfold);
    unfold();
  }

  show(facets, text) {
    this.text = text;
    const groups = Object.entries(facets ?? {}).filter(([field, values]) => this.tells(field, values));
    this.details.hidden = groups.length === 0;
    this.place.replaceChildren(...groups.map(([field, values]) => this.group(field, Object.entries(values))));
  }

  // One value that all documents share tells nothing, unless it was chosen.
  tells(field, values) {
    const names = Object.keys(values);
    return names.length > 1 || names.some((value) => this.isChosen(field, value));
  }

  group(field, values) {
    const buttons = values.map(([value, count]) => this.button(field, value, count));
    const list = make("ul", {}, ...buttons.map((button) => make("li", {}, button)));
    const group = make("section", {}, make("h3", {}, field), list);
    const hidden = [...list.children].slice(MAX_VALUES);
    if (hidden.length === 0) return group;
    const more = make("button", { type: "button", className: "text" }, `${hidden.length} more`);
    for (const item of hidden) item.hidden = true;
    more.addEventListener("click", () => {
      for (const item of hidden) item.hidden = false;
      more.remove();
      hidden[0].querySelector("button").focus();
    });
    group.append(more);
    return group;
  }

  button(field, value, count) {
    const label = make("span", {}, make("bdi", {}, value));
    const button = make("button", { type: "button" }, label, make("small", {}, count.toLocaleString("en")));
    button.setAttribute("aria-pressed", String(this.isChosen(field, value)));
    button.addEventListener("click", () => this.search(this.toggled(field, value)));
    return button;
  }

  isChosen(field, value) {
    return this.parts().includes(tokenOf(field, value).toLowerCase());
  }

  toggled(field, value) {
    const token = tokenOf(field, value);
    if (!this.isChosen(field, value)) return `${this.text} ${token}`.trim();
    return this.parts(this.text)
      .filter((part) => part.toLowerCase() !== token.toLowerCase())
      .join(" ");
  }

  // The query apart at spaces that are not inside quotes.
  parts(text = this.text.toLowerCase()) {
    return text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [];
  }
}

function tokenOf(field, value) {
  const plain = value.replaceAll('"', "");
  return /[\s:]/.test(plain) ? `${field}:"${plain}"` : `${field}:${plain}`;
}
