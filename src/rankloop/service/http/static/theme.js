// Light, dark, or as the system says.

const CHOICE = "rankloop-theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };

export function offerThemes(button, changed) {
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    localStorage.setItem(CHOICE, theme);
    changed();
  };
  button.addEventListener("click", () => set(NEXT[document.documentElement.dataset.theme]));
  const kept = localStorage.getItem(CHOICE);
  set(kept in NEXT ? kept : "auto");
}
