// "Let 500 simulated people use it", and how far they are.

import { call } from "./api.js";

const PEOPLE = 500;
const LOOK_EVERY = 250; // milliseconds
const pause = (time) => new Promise((wake) => setTimeout(wake, time));

export class People {
  constructor(section, shelf) {
    this.section = section;
    this.shelf = shelf;
    this.running = false;
    this.button = section.querySelector("#let-loose");
    this.again = document.getElementById("start-over");
    this.bar = section.querySelector("progress");
    this.news = section.querySelector("#people-news");
    section.querySelector("#people-taste").textContent = shelf.shelf.people.in_words;
    this.button.addEventListener("click", () => this.letLoose());
    this.again.addEventListener("click", () => this.startOver());
  }

  // Somebody may have let them loose in another tab; without the demo there are none.
  async look() {
    const progress = await call("GET", "/demo/people").catch(() => null);
    this.button.hidden = this.bar.hidden = this.news.hidden = progress === null;
    this.section.hidden = false;
    if (progress?.running) await this.follow(progress);
  }

  async letLoose() {
    if (this.running) return;
    try {
      await this.follow(await call("POST", "/demo/people", { people: PEOPLE }));
    } catch (error) {
      this.news.textContent = `That did not work: ${error.message}`;
      this.rest();
    }
  }

  async follow(progress) {
    this.running = true;
    this.button.disabled = this.again.disabled = true;
    this.news.setAttribute("aria-live", "off"); // the bar says it; only the end is spoken
    for (; progress.running; progress = await call("GET", "/demo/people")) {
      this.show(progress, `${progress.done} of ${progress.people} people have been here.`);
      await pause(LOOK_EVERY);
    }
    this.news.setAttribute("aria-live", "polite");
    this.show(
      progress,
      progress.problem ? `They stopped: ${progress.problem}` : `All ${progress.done} people have been here.`,
    );
    this.rest();
    await this.shelf.rank();
  }

  show({ people, done }, news) {
    this.bar.max = people;
    this.bar.value = done;
    this.news.textContent = news;
  }

  rest() {
    this.running = false;
    this.button.disabled = this.again.disabled = false;
  }

  async startOver() {
    try {
      await call("POST", "/rankers/playground/rollback", { state: 0 });
      await this.shelf.rank();
      this.shelf.news.textContent = "The ranker has forgotten everything.";
    } catch (error) {
      this.shelf.news.textContent = `That did not work: ${error.message}`;
    }
  }
}
