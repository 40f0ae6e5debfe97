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
};

/** What functions and policies may ask about the request itself: `current_setting('request.method', true)`. */
export type RequestContext = {
  readonly method: string;
  readonly path: string;
  /** JSON object of the headers, names in lower case, without credentials. */
  readonly headers: string;
};

export const nobody = (anonymousRole: string, refused: Caller["refused"] = null): Caller => ({
  role: anonymousRole,
  claims: {},
  expiresAt: null,
  refused,
});

/** Headers that carry credentials stay out of the database, where any function could keep them. */
const CREDENTIALS = new Set(["authorization", "proxy-authorization", "cookie", "apikey", "x-api-key", "x-csrf-token"]);

/** `{ "user-agent": "curl/8" }` → `{"user-agent":"curl/8"}` */
export function requestHeaders(headers: Readonly<Record<string, unknown>>): string {
  const shown: Record<string, unknown> = {};
  for (const name in headers) if (!CREDENTIALS.has(name)) shown[name] = headers[name];
  return JSON.stringify(shown);
}

/** `settings` hold for the one transaction, besides those that every transaction is told. */
export type Identity = {
  readonly caller: Caller;
  readonly request: RequestContext;
  readonly settings?: readonly Setting[];
};

/** Settings that every transaction is told; `statement_timeout` in milliseconds, unless the identity's own has one. */
function settingsOf({ caller, request, settings = [] }: Identity, statementTimeout: number): Setting[] {
  const isLimited = settings.some(([name]) => name === "statement_timeout");
  return [
    // Before the role: it may lack the right to set them.
    ...settings,
    ["role", caller.role],
    ["request.jwt.claims", claimsText(caller)],
    ["request.method", request.method],
    ["request.path", request.path],
    ["request.headers", request.headers],
    ...(isLimited ? [] : [["statement_timeout", String(statementTimeout)] as const]),
  ];
}

const MAX_TEXTS = 1000;
const statementTexts = new Map<string, string>();

/** What a transaction is told before its first statement; every value is text, so that nothing can fail on the way. */
export function settingsStatement(identity: Identity, statementTimeout: number): Statement {
  const settings = settingsOf(identity, statementTimeout);
  let key = "";
  for (const [name] of settings) key += `${name},`;
  let text = statementTexts.get(key);
  if (text === undefined) {
    const calls = settings.map(
      ([name], i) => `pg_catalog.set_config('${name.replaceAll("'", "''")}', $${i + 1}, true)`,
    );
    text = `select ${calls.join(", ")}`;
    if (statementTexts.size >= MAX_TEXTS) statementTexts.clear();
    statementTexts.set(key, text);
  }
  return { text, values: settings.map(([, value]) => value) };
}

const texts = new WeakMap<Caller, string>();

function claimsText(caller: Caller): string {
  let text = texts.get(caller);
  if (text === undefined) {
    text = JSON.stringify({ ...caller.claims, role: caller.role });
    texts.set(caller, text);
  }
  return text;
}
