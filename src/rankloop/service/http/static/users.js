// The button that starts 500 simulated users, and their progress.

import { call } from "./api.js";

const N_USERS = 500;
const LOOK_EVERY = 250; // milliseconds
const pause = (time) => new Promise((wake) => setTimeout(wake, time));

export class SimulatedUsers {
  constructor(section, shelf) {
    this.section = section;
    this.shelf = shelf;
    this.running = false;
    this.button = section.querySelector("#start-users");
    this.again = document.getElementById("start-over");
    this.bar = section.querySelector("progress");
    this.news = section.querySelector("#users-news");
    section.querySelector("#users-taste").textContent = shelf.shelf.users.in_words;
    this.button.addEventListener("click", () => this.start());
    this.again.addEventListener("click", () => this.startOver());
  }

  // Another tab may have started them; without the demo there are none.
  async look() {
    const progress = await call("GET", "/demo/users").catch(() => null);
    this.button.hidden = this.bar.hidden = this.news.hidden = progress === null;
    this.section.hidden = false;
    if (progress?.running) await this.follow(progress);
  }

  async start() {
    if (this.running) return;
    try {
      await this.follow(await call("POST", "/demo/users", { users: N_USERS }));
    } catch (error) {
      this.news.textContent = `That did not work: ${error.message}`;
      this.rest();
    }
  }

  async follow(progress) {
    this.running = true;
    this.button.disabled = this.again.disabled = true;
    this.news.setAttribute("aria-live", "off"); // the bar says it; only the end is spoken
    for (; progress.running; progress = await call("GET", "/demo/users")) {
      this.show(progress, `${progress.done} of ${progress.users} users are done.`);
      await pause(LOOK_EVERY);
    }
    this.news.setAttribute("aria-live", "polite");
    this.show(
      progress,
      progress.problem ? `They stopped: ${progress.problem}` : `All ${progress.done} users are done.`,
    );
    this.rest();
    await this.shelf.rank();
  }

  show({ users, done }, news) {
    this.bar.max = users;
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
      this.shelf.news.textContent = "The ranker is back at its initial state.";
    } catch (error) {
      this.shelf.news.textContent = `That did not work: ${error.message}`;
    }
  }
}
