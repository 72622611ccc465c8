// A short message with one thing to do about it, where a person looks anyway.

const STAYS = 9000; // milliseconds

export class Toast {
  constructor(element) {
    this.element = element;
    [this.words, this.button] = element.children;
    this.button.addEventListener("click", () => {
      this.hide();
      this.act?.();
    });
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, () => clearTimeout(this.timer));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => this.wait());
  }

  say(words, label = "", act = null) {
    (document.querySelector("dialog:modal") ?? document.body).append(this.element);
    this.element.classList.add("on");
    this.words.textContent = words;
    this.button.textContent = label;
    this.button.hidden = act === null;
    this.act = act;
    this.wait();
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.hide(), STAYS);
  }

  hide() {
    clearTimeout(this.timer);
    this.element.classList.remove("on");
    this.words.textContent = "";
    this.button.hidden = true;
  }
}
