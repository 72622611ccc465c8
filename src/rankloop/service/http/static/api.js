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

export async function call(method, path, body) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const type = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(path, { method, headers: headers(type), ...sent });
  return (await checked(response)).json();
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
