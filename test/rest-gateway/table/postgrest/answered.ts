import { isDeepStrictEqual } from "node:util";
import { type Asked, textOf } from "./asked.ts";

/** Where an interface is, and the tokens of the callers. */
export type Side = { readonly address: string; readonly tokens: Readonly<Record<string, string>> };

/** What is compared of an answer. */
export type Answered = {
  /** `200`, `404 PGRST205` */
  readonly outcome: string;
  readonly [field: string]: unknown;
};

/** Of the last two, functions of the schema set the one in errors and the other in answers. */
const HEADERS = ["content-type", "content-range", "location", "allow", "x-own"];
const HEADERS_OF_SUCCESS = ["content-location", "content-profile", "preference-applied", "x-first"];

export async function ask({ address, tokens }: Side, asked: Asked): Promise<Answered> {
  const { method, path, as, prefer, headers, body } = asked;
  const response = await fetch(address + path, {
    method,
    headers: {
      ...(as && { authorization: `Bearer ${tokens[as]}` }),
      ...(prefer && { prefer }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body: textOf(body) }),
  });
  const text = await response.text();
  const { pathname } = new URL(address);
  const names = [...HEADERS, ...(response.ok ? HEADERS_OF_SUCCESS : [])];
  const told = Object.fromEntries(names.map((name) => [name, headerOf(response, name, pathname)]));
  const isJson = /json/.test(response.headers.get("content-type") ?? "") && text !== "";
  const json = isJson ? JSON.parse(text) : undefined;
  const { status } = response;
  if (response.ok) return { outcome: String(status), ...told, body: isJson ? json : text };
  return { outcome: [status, json?.code].filter(Boolean).join(" "), ...told, ...wordingOf(json) };
}

/** Addresses are compared as what they mean, and from the interface on. */
function headerOf({ headers }: Response, name: string, base: string): string | null {
  const value = headers.get(name);
  if (value === null) return null;
  // PostgREST's 406 has two.
  if (name === "content-type") return value.split(", ")[0]!;
  if (!name.endsWith("location")) return value;
  const path = base !== "/" && value.startsWith(base) ? value.slice(base.length) : value;
  return decodeURIComponent(path.replaceAll("+", " "));
}

/** Postgres says the same to both; the servers have words of their own. */
const wordingOf = ({ code, message, details, hint }: Record<string, unknown> = {}) =>
  String(code ?? "PGRST").startsWith("PGRST") ? {} : { message, details, hint };

const SHOWN = new Set(["outcome", "content-type", "content-range", "allow"]);

/** `["outcome: 404 42P01 → 404 PGRST205"]`, `["body"]`: where outcomes differ nothing else is compared. */
export function differencesOf(theirs: Answered, ours: Answered): string[] {
  const show = (field: string) => (SHOWN.has(field) ? `${field}: ${theirs[field]} → ${ours[field]}` : field);
  if (theirs.outcome !== ours.outcome) return [show("outcome")];
  const fields = new Set([...Object.keys(theirs), ...Object.keys(ours)]);
  return [...fields].filter((field) => !isDeepStrictEqual(theirs[field], ours[field])).map(show);
}
