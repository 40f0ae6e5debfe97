import { type ComparedRequest, textOf } from "./request.ts";

/** The URL of a server, and the tokens of the callers. */
export type Side = { readonly baseUrl: string; readonly tokens: Readonly<Record<string, string>> };

/** The parts of a response that are compared. */
export type Compared = {
  /** `200`, `404 PGRST205` */
  readonly outcome: string;
  readonly [field: string]: unknown;
};

/** Functions of the schema set X-Own in errors and X-First in successful responses. */
const HEADERS = ["content-type", "content-range", "location", "allow", "x-own"];
const HEADERS_OF_SUCCESS = ["content-location", "content-profile", "preference-applied", "x-first"];

export async function ask({ baseUrl, tokens }: Side, request: ComparedRequest): Promise<Compared> {
  const { method, path, as, prefer, headers, body } = request;
  const response = await fetch(baseUrl + path, {
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
  const { pathname } = new URL(baseUrl);
  const names = [...HEADERS, ...(response.ok ? HEADERS_OF_SUCCESS : [])];
  const compared = Object.fromEntries(names.map((name) => [name, headerOf(response, name, pathname)]));
  const isJson = /json/.test(response.headers.get("content-type") ?? "") && text !== "";
  const json = isJson ? JSON.parse(text) : undefined;
  const { status } = response;
  if (response.ok) return { outcome: String(status), ...compared, body: isJson ? json : text };
  return { outcome: [status, json?.code].filter(Boolean).join(" "), ...compared, ...wordingOf(json) };
}

/** URLs are compared decoded and relative to the interface. */
function headerOf({ headers }: Response, name: string, base: string): string | null {
  const value = headers.get(name);
  if (value === null) return null;
  // PostgREST sends two with 406.
  if (name === "content-type") return value.split(", ")[0]!;
  // PostgREST does not support QUERY.
  if (name === "allow") return value.replace(",QUERY", "");
  if (!name.endsWith("location")) return value;
  const path = base !== "/" && value.startsWith(base) ? value.slice(base.length) : value;
  return decodeURIComponent(path.replaceAll("+", " "));
}

/** Messages of Postgres are the same for both. The servers' own messages differ. */
const wordingOf = ({ code, message, details, hint }: Record<string, unknown> = {}) =>
  String(code ?? "PGRST").startsWith("PGRST") ? {} : { message, details, hint };
