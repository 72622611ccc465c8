// The page: events come in, the parts show them.

import { call, keepKey, listen, Problem } from "./api.js";
import { Charts } from "./charts.js";
import { make } from "./format.js";
import { showExperiments } from "./experiments.js";
import { History } from "./history.js";
import { showNumbers, showPositions } from "./panels.js";
import { States } from "./states.js";
import { SimulatedUsers } from "./users.js";
import { PLAYGROUND, Shelf } from "./shelf.js";
import { offerThemes } from "./theme.js";
import { Weights } from "./weights.js";
import { Why } from "./why.js";

const AGAIN_AFTER = 2000; // milliseconds
const $ = (id) => document.getElementById(id);
const pause = (time) => new Promise((wake) => setTimeout(wake, time));
const histories = new Map();
let report = null;
let chosen = decodeURIComponent(location.hash.slice(1));
let charts = null;
let play = null; // { shelf, users } once the playground is there
const weights = new Weights($("weights"), $("weights-none"));
const why = new Why($("why"));
const states = new States($("states"));

function receive(event) {
  report = event;
  for (const ranker of event.rankers) {
    if (!histories.has(ranker.name)) histories.set(ranker.name, new History());
    if (ranker.schema) ranker.weights = why.weightsOf(ranker.name); // too many to come with every event
    histories.get(ranker.name).add(ranker, event.at);
  }
  connection("live", "live");
  $("key-form").hidden = true;
  show();
}

function show() {
  const names = report.rankers.map(({ name }) => name);
  $("empty").hidden = names.length > 0;
  $("view").hidden = $("picker").hidden = names.length === 0;
  if (names.length === 0) return;
  if (!names.includes(chosen)) chosen = names.includes(PLAYGROUND) ? PLAYGROUND : names[0];
  offer(names);
  const ranker = report.rankers.find(({ name }) => name === chosen);
  const history = histories.get(chosen);
  showNumbers(ranker, history.pace);
  showPositions(ranker.health);
  showExperiments(report.experiments, ranker);
  weights.show(history);
  why.show(ranker);
  states.show(ranker);
  showPlayground(ranker);
  charts ??= new Charts();
  charts.show(history);
  recall(history);
}

// What the service remembers of the ranker that is looked at; asked for once.
async function recall(history) {
  if (history.recalled) return;
  history.recalled = true;
  const path = `/rankers/${encodeURIComponent(chosen)}/history`;
  const { points } = await call("GET", path).catch(() => ({ points: [] }));
  history.recall(points);
  show();
}

function offer(names) {
  const picker = $("ranker");
  if ([...picker.options].map(({ value }) => value).join() !== names.join()) {
    picker.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  }
  if (picker.value !== chosen) picker.value = chosen;
}

function showPlayground(ranker) {
  const here = chosen === PLAYGROUND && play !== null;
  $("playground").hidden = !here;
  if (chosen !== PLAYGROUND) $("users").hidden = true;
  else if (play === null) openPlayground(ranker);
  else $("users").hidden = false;
  document.querySelector(".columns").classList.toggle("playing", here);
  if (here && play.users.running) play.shelf.predict(ranker.weights);
}

let opening = false;
async function openPlayground(ranker) {
  if (opening) return;
  opening = true;
  const described = await (await fetch("/page/shelf.json")).json();
  if (ranker.spec.problem.feature_names?.join() !== described.features.join()) return;
  const shelf = new Shelf($("shelf"), $("shelf-news"), described);
  const users = new SimulatedUsers($("users"), shelf);
  play = { shelf, users };
  show();
  await shelf.rank().catch((error) => shelf.explain(error));
  await users.look();
}

async function follow() {
  for (;;) {
    try {
      await listen(receive);
    } catch (error) {
      if (error instanceof Problem && (error.status === 401 || error.status === 403)) return askForKey(error);
    }
    connection("lost", "connection lost");
    await pause(AGAIN_AFTER);
  }
}

// A screen reader speaks when the words change, so they are only written when they do.
function connection(state, words) {
  if ($("connection").textContent !== words) $("connection").textContent = words;
  $("connection").dataset.state = state;
}

function askForKey(error) {
  connection("lost", "needs a key");
  $("key-form").hidden = false;
  $("key-problem").textContent = error.message;
  $("key").focus();
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepKey($("key").value);
  $("key").value = "";
  follow();
});
$("ranker").addEventListener("change", (event) => {
  chosen = event.target.value;
  window.history.replaceState(null, "", `#${encodeURIComponent(chosen)}`);
  show();
});
offerThemes($("theme"), () => charts?.redraw());
follow();
