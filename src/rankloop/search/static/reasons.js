// Why a result stands where it does: what adds to its score, in words.

import { call } from "/page/api.js";
import { formatted, make, write } from "/page/format.js";

const MOST = 8; // rows; the rest is one row
const TINY = 0.0005;
const BASE = "bm25";
const KINDS = [
  [/^bm25$/, () => "How well the words match (BM25)"],
  [/^query = .* × document = /s, () => "Opened for this very query"],
  [/^words = (.*?) × document = /s, (word) => `Opened for queries with “${word}”`],
  [/^segment = (.*?) × (.*?) = (.*)$/s, (who, field, value) => `${who} likes ${field} “${value}”`],
  [/^document = /, () => "Opened for any query"],
  [/^(bm25_title|coverage_title|exact_title)/, () => "Words in the title"],
  [/^(bm25_body|coverage)/, () => "Words in the text"],
  [/^(phrase|proximity)$/, () => "Words that stand together"],
  [/^(bm25_top|title_and_body_top)/, () => "Among the best matches"],
  [/^(title|body)_length$/, () => "Length"],
  [/^recency$/, () => "How recent it is"],
];

export function inWords(name) {
  for (const [pattern, say] of KINDS) {
    const found = name.match(pattern);
    if (found) return say(...found.slice(1));
  }
  return name;
}

// Contributions that mean the same to a person as one.
export function sumsOf(contributions) {
  const sums = new Map();
  for (const { name, contribution } of contributions) {
    const words = inWords(name);
    sums.set(words, (sums.get(words) ?? 0) + contribution);
  }
  return sums;
}

// The largest first, the small ones as one.
export function largest(sums) {
  const rows = [...sums].filter(([, sum]) => Math.abs(sum) >= TINY).sort(([, a], [, b]) => Math.abs(b) - Math.abs(a));
  if (rows.length <= MOST) return rows;
  const rest = rows.slice(MOST - 1).reduce((sum, [, one]) => sum + one, 0);
  return [...rows.slice(0, MOST - 1), ["Everything else", rest]];
}

// `below` is the result under it, if there is one: { id, title }.
export async function showReasons(box, impression, id, below) {
  const line = make("p", { className: "lead" }, "Looking …");
  box.replaceChildren(line);
  const ask = (one) => call("GET", `/search/why?${new URLSearchParams({ impression, id: one })}`);
  try {
    const [own, other] = await Promise.all([ask(id), below ? ask(below.id) : null]);
    const match = own.contributions.find(({ name }) => name === BASE)?.contribution ?? 0;
    const [score, base, learned] = [own.score, match, own.score - match].map((sum) => formatted(sum, "number"));
    line.textContent = `Score ${score}: ${base} from how the words match, ${learned} learned.`;
    box.append(tableOf(largest(sumsOf(own.contributions))));
    if (other) box.append(make("p", { className: "lead" }, beside(own, other, below.title)));
  } catch (error) {
    line.textContent = `That cannot be explained: ${error.message}`;
  }
}

// What sets it apart from the result below; the order on the page may differ, since neighbours are swapped now and then.
function beside(own, other, title) {
  const name = `“${title}”`;
  if (own.score < other.score) return `By score ${name} would be above it: neighbours are swapped now and then, to learn.`;
  const sums = sumsOf(own.contributions);
  for (const [words, sum] of sumsOf(other.contributions)) sums.set(words, (sums.get(words) ?? 0) - sum);
  const [[words, more] = ["", 0]] = [...sums].sort(([, a], [, b]) => b - a);
  if (more < TINY) return `It scores the same as ${name}.`;
  return `What most sets it above ${name}: ${words.charAt(0).toLowerCase()}${words.slice(1)} (+${formatted(more, "number")}).`;
}

function tableOf(rows) {
  const most = Math.max(...rows.map(([, sum]) => Math.abs(sum)));
  const table = make("table", {}, make("caption", { className: "unseen" }, "What adds to the score"));
  table.append(...rows.map(([words, sum]) => row(words, sum, sum / most)));
  return table;
}

function row(words, sum, share) {
  const value = make("td", { className: "value" });
  write(value, sum, "number");
  const bar = make("i");
  bar.style.width = `${100 * Math.abs(share)}%`;
  bar.classList.toggle("negative", sum < 0);
  return make("tr", {}, make("th", { scope: "row" }, words), make("td", { className: "bar" }, bar), value);
}
