import type { ComparedRequest } from "./request.ts";

/** The parts of a response that are compared. */
export type Compared = {
  /** `200`, `404 PGRST205` */
  readonly outcome: string;
  readonly [field: string]: unknown;
};

const HEADERS = ["content-type", "content-range"];
const HEADERS_OF_SUCCESS = ["content-location", "content-profile", "preference-applied"];

export async function ask(baseUrl: string, { method, path, prefer, headers }: ComparedRequest): Promise<Compared> {
  const response = await fetch(baseUrl + path, { method, headers: { ...(prefer && { prefer }), ...headers } });
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
  if (!name.endsWith("location")) return value;
  const path = base !== "/" && value.startsWith(base) ? value.slice(base.length) : value;
  return decodeURIComponent(path.replaceAll("+", " "));
}

/** Messages of Postgres are the same for both. The servers' own messages differ. */
const wordingOf = ({ code, message, details, hint }: Record<string, unknown> = {}) =>
  String(code ?? "PGRST").startsWith("PGRST") ? {} : { message, details, hint };
