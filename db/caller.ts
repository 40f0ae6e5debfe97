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

export type Identity = { readonly caller: Caller; readonly request: RequestContext };

/** The names of the settings of a transaction, in the order of `settingsOf`. */
export const SETTINGS = [
  "role",
  "request.jwt.claims",
  "request.method",
  "request.path",
  "request.headers",
  "statement_timeout",
] as const;

/** What a transaction is told before its first statement; every value is text, so that nothing can fail on the way. */
export const settingsOf = ({ caller, request }: Identity, statementTimeout: number): string[] => [
  caller.role,
  claimsText(caller),
  request.method,
  request.path,
  request.headers,
  String(statementTimeout),
];

const texts = new WeakMap<Caller, string>();

function claimsText(caller: Caller): string {
  let text = texts.get(caller);
  if (text === undefined) {
    text = JSON.stringify({ ...caller.claims, role: caller.role });
    texts.set(caller, text);
  }
  return text;
}
