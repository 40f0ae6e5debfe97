import type { Statement } from "./batch.ts";
import type { Setting } from "./catalog/catalog.ts";

/** Who asks: the Postgres role of the request and the verified claims of its token. */
export type Caller = {
  readonly role: string;
  readonly claims: Readonly<Record<string, unknown>>;
  /** When the credential ends, in milliseconds since 1970; null when it does not. */
  readonly expiresAt: number | null;
  /** Why nobody is signed in although a token was sent; decides between "sign in" and "sign in again". */
  readonly refused: "expired" | "invalid" | null;
  /** What the caller came with; absent for nobody, and for those who come from elsewhere. */
  readonly credential?: Credential;
};

/** `id` tells sessions and keys apart: the SHA-256 in hex; null for what has no row in the database. */
export type Credential = { readonly kind: "token" | "session" | "key" | "basic"; readonly id: string | null };

/** What functions and policies may ask about the request itself: `current_setting('request.method', true)`. */
export type RequestContext = {
  readonly method: string;
  readonly path: string;
  /** JSON object of the headers, names in lower case, without credentials. */
  readonly headers: string;
  /** JSON object of the cookies, without credentials. */
  readonly cookies: string;
};

export const nobody = (anonymousRole: string, refused: Caller["refused"] = null): Caller => ({
  role: anonymousRole,
  claims: {},
  expiresAt: null,
  refused,
});

/** Headers that carry credentials stay out of the database, where any function could keep them. */
const CREDENTIALS = new Set([
  ...["authorization", "proxy-authorization", "cookie", "apikey", "x-api-key"],
  ...["x-csrf-token", "x-xsrf-token"],
]);

/** `{ "user-agent": "curl/8" }` → `{"user-agent":"curl/8"}` */
export function requestHeaders(headers: Readonly<Record<string, unknown>>): string {
  const shown: Record<string, unknown> = {};
  for (const name in headers) if (!CREDENTIALS.has(name)) shown[name] = headers[name];
  return JSON.stringify(shown);
}

/** The session's cookie is a credential: functions don't need it. */
const CREDENTIAL_COOKIES = new Set(["SESSION"]);

/** `a=1; b=%20` → `{"a":"1","b":"%20"}`; of a name that comes twice the first counts. */
export function requestCookies(header: string | undefined): string {
  if (!header) return "{}";
  const cookies: Record<string, string> = Object.create(null);
  for (const pair of header.split(";")) {
    const at = pair.indexOf("=");
    const name = pair.slice(0, Math.max(0, at)).trim();
    if (name === "" || CREDENTIAL_COOKIES.has(name) || name in cookies) continue;
    const value = pair.slice(at + 1).trim();
    cookies[name] = value.startsWith('"') && value.endsWith('"') && value.length > 1 ? value.slice(1, -1) : value;
  }
  return JSON.stringify(cookies);
}

export type Identity = {
  readonly caller: Caller;
  readonly request: RequestContext;
  readonly settings?: TransactionSettings;
};

/** Settings of one transaction, besides those that every transaction is told. */
export type TransactionSettings = {
  /** Of the catalog and of the service: they stand in the statement, which is kept for this very list. */
  readonly fixed: readonly Setting[];
  /** Of the request. */
  readonly given: readonly Setting[];
};

const NO_SETTINGS: TransactionSettings = { fixed: [], given: [] };

/** What a transaction is told before its first statement; every value is text, so that nothing can fail on the way. */
export function settingsStatement(identity: Identity, statementTimeout: number): Statement {
  const { caller, request, settings = NO_SETTINGS } = identity;
  const { given } = settings;
  const values = [caller.role, claimsText(caller), request.method, request.path, request.headers, request.cookies];
  for (const [, value] of given) values.push(value);
  return { text: settingsText(settings, statementTimeout), values };
}

/** The names of the values, in their order; what the request itself has given comes behind them. */
const NAMES = ["role", "request.jwt.claims", "request.method", "request.path", "request.headers", "request.cookies"];

const settingsTexts = new WeakMap<readonly Setting[], Map<string, string>>();

function settingsText({ fixed, given }: TransactionSettings, statementTimeout: number): string {
  let key = String(statementTimeout);
  for (const [name] of given) key += `,${name}`;
  const texts = settingsTexts.get(fixed) ?? new Map<string, string>();
  settingsTexts.set(fixed, texts);
  let text = texts.get(key);
  if (text === undefined) {
    text = writeSettings(fixed, [...NAMES, ...given.map(([name]) => name)], statementTimeout);
    texts.set(key, text);
  }
  return text;
}

/** `statementTimeout` in milliseconds, unless the fixed ones have one. Those come before the role, which may lack the right. */
function writeSettings(fixed: readonly Setting[], names: readonly string[], statementTimeout: number): string {
  const isLimited = fixed.some(([name]) => name === "statement_timeout");
  const limit: readonly Setting[] = isLimited ? [] : [["statement_timeout", String(statementTimeout)]];
  const literals = [...fixed, ...limit].map(([name, value]) => `${literal(name)}, ${literal(value)}`);
  const parameters = names.map((name, i) => `${literal(name)}, $${i + 1}`);
  const calls = [...literals, ...parameters].map((pair) => `pg_catalog.set_config(${pair}, true)`);
  return `select ${calls.join(", ")}`;
}

/** Backslashes are plain whatever standard_conforming_strings says. */
const literal = (text: string) => {
  const quoted = `'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
  return text.includes("\\") ? ` E${quoted}` : quoted;
};

const texts = new WeakMap<Caller, string>();

function claimsText(caller: Caller): string {
  let text = texts.get(caller);
  if (text === undefined) {
    text = JSON.stringify({ ...caller.claims, role: caller.role });
    texts.set(caller, text);
  }
  return text;
}
