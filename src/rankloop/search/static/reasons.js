// Why a result stands where it does: what adds to its score, in words.

import { call } from "/page/api.js";
import { formatted, make, write } from "/page/format.js";
import { wordsOf } from "./text.js";

const MOST = 8; // rows; the rest is one row
const TINY = 0.0005;
const BASE = "relevance";
const KINDS = [
  [/^relevance$/, () => "How well it matches, by words and meaning"],
  [/^query = .* × document = /s, () => "Clicks on it for this very query"],
  [/^similar = .* × document = /s, () => "Clicks on it for queries of similar meaning"],
  [/^query = .* × near = /s, () => "Clicks on similar documents for this query"],
  [/^words = (.*?) × document = /s, (stem, words) => `Clicks on it for queries with “${whole(stem, words)}”`],
  [/^visitor = .* × document = /s, () => "Your own clicks on it"],
  [/^segment = (.*?) × (.*?) = (.*)$/s, (who, field, value) => `${who} likes ${field} “${value}”`],
  [/^(document|near) = /, () => "Clicks on it for any query"],
  [/^(bm25_title|coverage_title|exact_title)/, () => "Words in the title"],
  [/^(bm25_body|coverage)/, () => "Words in the text"],
  [/^(phrase|proximity)$/, () => "Words that stand together"],
  [/^(latent|feedback|embedding)/, () => "Near in meaning"],
  [/^(relevance_top|title_and_body_top)/, () => "Among the best matches"],
  [/^(title|body)_length$/, () => "Length"],
  [/^recency$/, () => "How recent it is"],
];

// `words` are those of the query, of which the service knows the stems.
export function inWords(name, words) {
  for (const [pattern, say] of KINDS) {
    const found = name.match(pattern);
    if (found) return say(...found.slice(1), words);
  }
  return name;
}

function whole(stem, words) {
  return words.find((word) => word.toLowerCase().startsWith(stem)) ?? stem;
}

// Contributions that mean the same to a person as one.
export function sumsOf(contributions, words) {
  const sums = new Map();
  for (const { name, contribution } of contributions) {
    const said = inWords(name, words);
    sums.set(said, (sums.get(said) ?? 0) + contribution);
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
export async function showReasons(box, { impression, query, compared }, id, below) {
  const words = wordsOf(query);
  const line = make("p", { className: "lead" }, "Looking …");
  box.replaceChildren(line);
  const ask = (one) => call("GET", `/search/why?${new URLSearchParams({ impression, id: one })}`);
  try {
    const [own, other] = await Promise.all([ask(id), below ? ask(below.id) : null]);
    const match = own.contributions.find(({ name }) => name === BASE)?.contribution ?? 0;
    const [score, base, learned] = [own.score, match, own.score - match].map((sum) => formatted(sum, "number"));
    const rows = largest(sumsOf(own.contributions, words));
    line.textContent = `${inOneSentence(rows)} Score ${score}: ${base} from the match, ${learned} learned.`;
    box.append(tableOf(rows));
    if (other) box.append(make("p", { className: "lead" }, beside(own, other, below.title, { words, compared })));
  } catch (error) {
    line.textContent = `That cannot be explained: ${error.message}`;
  }
}

function inOneSentence(rows) {
  const small = (words) => `${words.charAt(0).toLowerCase()}${words.slice(1)}`;
  const raised = rows.filter(([, sum]) => sum > 0).map(([words]) => small(words));
  const lowered = rows.filter(([, sum]) => sum < 0).map(([words]) => small(words));
  if (raised.length === 0) return "Nothing speaks for it.";
  const best = raised.length > 1 ? `Mostly ${raised[0]}, then ${raised[1]}.` : `Because of ${raised[0]}.`;
  return lowered.length > 0 ? `${best} Against it: ${lowered[0]}.` : best;
}

// What sets it apart from the result below. The order on the page may differ from that of the scores, for a reason.
function beside(own, other, title, { words, compared }) {
  const name = `“${title}”`;
  const reason = compared ? "this list mixes two orders" : "neighbours are swapped now and then, to learn";
  if (own.score < other.score) return `By score ${name} would be above it: ${reason}.`;
  const sums = sumsOf(own.contributions, words);
  for (const [said, sum] of sumsOf(other.contributions, words)) sums.set(said, (sums.get(said) ?? 0) - sum);
  const [[most, more] = ["", 0]] = [...sums].sort(([, a], [, b]) => b - a);
  if (more < TINY) return `It scores the same as ${name}.`;
  const part = `${most.charAt(0).toLowerCase()}${most.slice(1)}`;
  return `What most sets it above ${name}: ${part} (+${formatted(more, "number")}).`;
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
