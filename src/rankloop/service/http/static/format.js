// How numbers are written. Every number of the service goes through `write`, which keeps the exact value beside it.

const forms = {
  share: (value) => `${(100 * value).toFixed(1)} %`,
  percent: (value) => (100 * value).toFixed(0),
  number: (value) => value.toFixed(3),
  rate: (value) => value.toFixed(1),
  count: (value) => value.toLocaleString("en"),
  amount: (value) => value.toLocaleString("en", { maximumFractionDigits: 2 }),
  mean: (value) => value.toPrecision(3),
  change: (value) => `${value > 0 ? "+" : ""}${(100 * value).toFixed(1)} %`,
  days: (value) => (value === 0 ? "enough" : value < 1 ? "< 1" : Math.ceil(value).toLocaleString("en")),
  chance: (value) => (value < 0.001 ? "< 0.001" : value.toFixed(3)),
};

export const NONE = "–";

export function formatted(value, form) {
  return value === null || value === undefined ? NONE : forms[form](value);
}

export function write(element, value, form) {
  const text = formatted(value, form);
  if (element.textContent !== text) element.textContent = text;
  element.dataset.value = JSON.stringify(value ?? null);
}

export function at(report, path) {
  return path.split(".").reduce((part, name) => part?.[name], report);
}

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
