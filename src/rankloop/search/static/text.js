// Texts of documents as nodes. Nothing of them is ever read as HTML.

import { make } from "/page/format.js";

// The service counts characters; a JavaScript string counts halves of some of them.
export function marked(text, ranges) {
  const characters = Array.from(text);
  const piece = (from, to) => characters.slice(from, to).join("");
  const nodes = [];
  let end = 0;
  for (const [from, to] of ranges) {
    if (from < end || to <= from) continue;
    nodes.push(piece(end, from), make("mark", {}, piece(from, to)));
    end = to;
  }
  return [...nodes, piece(end)].filter((node) => node !== "");
}

// What is the same for queries that differ in capitals, spaces and punctuation only.
export function sameQuery(text) {
  return wordsOf(text.toLowerCase()).join(" ");
}

export function wordsOf(text) {
  return text.normalize("NFKC").match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
}

// A title that says nothing, such as the bracket that a file begins with, gives way to the name.
export function titleOf({ title, id }) {
  return /[\p{L}\p{N}]/u.test(title) ? title : id;
}

export function counted(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

export function dateOf(seconds) {
  return new Date(seconds * 1000).toLocaleDateString("en-GB", { dateStyle: "medium" });
}
