// The API reference: every call with its body and response, and the fields of these, from the OpenAPI document.

import { call } from "./api.js";
import { make } from "./format.js";

// A JSON schema in words, as nodes; a type that is described below is a link to its description.
function typeOf(schema) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return [make("a", { href: `#${name}` }, name)];
  }
  if (schema.enum) return separated(schema.enum.map((value) => [make("code", {}, String(value))]));
  if (schema.anyOf) return separated(schema.anyOf.map(typeOf));
  if (Array.isArray(schema.type)) return [schema.type.join(" or ")];
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items ?? {})];
  const values = schema.additionalProperties;
  if (schema.type === "object" && values && Object.keys(values).length) return ["table of ", ...typeOf(values)];
  return [schema.type === "object" ? "table" : (schema.type ?? "anything")];
}

function separated(parts) {
  return parts.flatMap((part, number) => (number ? [" or ", ...part] : part));
}

function media(title, content = {}) {
  const kinds = Object.entries(content).filter(([, part]) => Object.keys(part.schema ?? {}).length);
  const types = kinds.map(([kind, part]) => [...typeOf(part.schema), ` (${kind})`]);
  return types.length ? [make("br"), `${title}: `, ...separated(types)] : [];
}

function callEntry(method, path, described) {
  const text = described.description ?? described.summary ?? "";
  const body = media("Body", described.requestBody?.content);
  const response = media("Response", described.responses?.["200"]?.content);
  const role = [make("br"), `Role: ${described["x-role"]}`];
  return [make("dt", {}, make("code", {}, `${method.toUpperCase()} ${path}`)), make("dd", {}, text, ...body, ...response, ...role)];
}

function typeEntry(name, schema) {
  const fields = Object.entries(schema.properties ?? {}).flatMap(([field, kind]) => {
    const mark = schema.required?.includes(field) ? ": " : "?: ";
    return [make("br"), make("code", {}, field), mark, ...typeOf(kind)];
  });
  return [make("dt", { id: name }, name), make("dd", {}, schema.description ?? "", ...fields)];
}

try {
  const { paths, components } = await call("GET", "/openapi.json");
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, described] of Object.entries(methods)) {
      document.getElementById("calls").append(...callEntry(method, path, described));
    }
  }
  for (const [name, schema] of Object.entries(components.schemas).sort()) {
    document.getElementById("types").append(...typeEntry(name, schema));
  }
} catch (problem) {
  document.getElementById("problem").textContent = `${problem.message} (a key is entered on the live page)`;
}
