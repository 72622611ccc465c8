// The service's calls. Events come over fetch rather than EventSource, which could not send a key.

const KEY = "rankloop-key";

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export function keepKey(key) {
  sessionStorage.setItem(KEY, key);
}

function headers(more = {}) {
  const key = sessionStorage.getItem(KEY);
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

async function checked(response) {
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Problem(response.status, said.detail ?? `the service answered ${response.status}`);
}

export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}

// `more` goes to fetch as it is: a signal that ends the call, or keepalive for one that outlives the page.
export async function call(method, path, body, more = {}) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const type = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(path, { method, headers: headers(type), ...sent, ...more });
  return (await checked(response)).json();
}

// A file that a link could not fetch, since a link sends no key.
export async function file(path) {
  return (await checked(await fetch(path, { headers: headers() }))).blob();
}

// Calls `report` with every event until the connection ends; throws a Problem when the service refuses.
export async function listen(report) {
  const response = await checked(await fetch("/events", { headers: headers({ Accept: "text/event-stream" }) }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) report(JSON.parse(event.slice(6)));
    }
  }
}
