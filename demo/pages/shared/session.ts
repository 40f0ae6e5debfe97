import type { Created } from "./model.ts";

/** The URL of the service: `index.html?api=http://127.0.0.1:3000`. */
export const API = new URLSearchParams(location.search).get("api") ?? "http://127.0.0.1:3000";

export type User = { readonly id: string; readonly name: string };
type Tokens = { readonly accessToken: string; readonly refreshToken: string; readonly expiresIn: number };
type Session = {
  readonly user: User;
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly expiresAt: number;
};

/** `field` is absent if the message concerns the whole form. */
export type FieldError = { readonly field?: string; readonly message: string };

/** What the service has refused. `fields` has the message of each invalid field. */
export class Refused extends Error {
  readonly code: string;
  readonly fields: readonly FieldError[];

  constructor({
    code = "",
    message,
    details = [],
  }: { code?: string; message: string; details?: readonly FieldError[] }) {
    super(message);
    this.code = code;
    this.fields = details;
  }
}

const KEY = "session";
/** Milliseconds before its end in which an access token is replaced. */
const MARGIN = 10_000;

/**
 * The session of all tabs, or null. Every script of the page can read it. A page with scripts of others uses the session cookie instead:
 * docs/authentication.md.
 */
export const session = (): Session | null => JSON.parse(localStorage.getItem(KEY) ?? "null");

const changes = new EventTarget();

/** Calls back when the user has signed in or out, in this tab or in another one. Returns a function that ends this. */
export function onSession(listener: () => void): () => void {
  changes.addEventListener("change", listener);
  return () => changes.removeEventListener("change", listener);
}
addEventListener("storage", ({ key }) => key === KEY && changes.dispatchEvent(new Event("change")));

function keep(value: Session | null): void {
  localStorage.setItem(KEY, JSON.stringify(value));
  changes.dispatchEvent(new Event("change"));
}

const keepTokens = (user: User, { accessToken, refreshToken, expiresIn }: Tokens) =>
  keep({ user, accessToken, refreshToken, expiresAt: Date.now() + expiresIn * 1000 });

const send = (url: string, options?: RequestInit): Promise<Response> =>
  fetch(url, options).catch(() => {
    throw new Error(
      `${API} does not respond, or does not allow pages of ${location.origin} (CORS_ORIGINS). For another URL, add ?api=http://… to this page.`,
    );
  });

const JSON_HEADERS = { "Content-Type": "application/json" };

async function post<Answer>(path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  const options = { method: "POST", headers: { ...JSON_HEADERS, ...headers }, body: JSON.stringify(body) };
  const response = await send(API + path, options);
  const answer = await response.json();
  if (!response.ok) throw new Refused(answer.error);
  return answer;
}

export async function signIn(form: object): Promise<void> {
  const { user, ...tokens } = await post<Tokens & { readonly user: User }>("/auth/login", form);
  keepTokens({ ...user, id: String(user.id) }, tokens);
}

/** With EMAIL_CONFIRM=required, the user is not signed in: the form shows that an e-mail is on its way. */
export async function register(form: object): Promise<void> {
  type Registered = (Tokens & { readonly user: User }) | { readonly user?: undefined; readonly message: string };
  const answer = await post<Registered>("/auth/register", form);
  if (answer.user === undefined) throw new Error(answer.message);
  const { user, ...tokens } = answer;
  keepTokens({ ...user, id: String(user.id) }, tokens);
}

/** Sends an e-mail with a link to a page of the service, where the user chooses a new password. */
export const resetPassword = (form: object): Promise<unknown> => post("/auth/forgot", form);

/** Forgets a session that the service has ended. */
export const signOutHere = (): void => keep(null);

/** Ends the session at the service too, so that copies of its tokens are refused. Sessions on other devices continue. */
export async function signOut(): Promise<void> {
  const accessToken = await token().catch(() => undefined);
  signOutHere();
  if (accessToken)
    await post("/auth/logout", { scope: "local" }, { Authorization: `Bearer ${accessToken}` }).catch(() => {});
}

/**
 * An access token for the next request, or undefined without a session. A refresh token works once: the lock lets one tab refresh,
 * and the others take its tokens. If the network fails, the session stays. `expired`: a token that the service has refused as
 * expired, whatever the clock of this page says.
 */
export async function token(expired?: string): Promise<string | undefined> {
  if (!isOver(session(), expired)) return session()?.accessToken;
  await navigator.locks.request("refresh", async () => {
    const current = session();
    if (current === null || !isOver(current, expired)) return;
    const { user, refreshToken } = current;
    try {
      keepTokens(user, await post<Tokens>("/auth/refresh", { refreshToken }));
    } catch (error) {
      throw ended(error as Error);
    }
  });
  return session()?.accessToken;
}

const isOver = (current: Session | null, expired?: string) =>
  current !== null && (current.accessToken === expired || current.expiresAt < Date.now() + MARGIN);

const ENDED = new Set(["AUTH_REQUIRED", "AUTH_EXPIRED", "TOKEN_EXPIRED", "INVALID_TOKEN", "VERIFICATION_FAILED"]);

/** The error to show. Forgets the session if the service says that it has ended, for example on another device. */
export function ended(error: Error, code = (error as Refused).code): Error {
  if (!ENDED.has(code) || session() === null) return error;
  signOutHere();
  return new Error("Your session has ended: sign in again.");
}

function withToken(options: RequestInit | undefined, accessToken: string | undefined): RequestInit {
  const headers = new Headers(options?.headers);
  if (accessToken) headers.set("Authorization", `Bearer ${accessToken}`);
  return { ...options, headers };
}

/**
 * `fetch` with an access token. If the service finds it expired, the token is refreshed and the request repeated. No mutation of
 * these pages is executed twice: each needs a user.
 */
export async function request(url: string | URL | Request, options?: RequestInit): Promise<Response> {
  const accessToken = await token();
  const response = await send(String(url), withToken(options, accessToken));
  if (!response.headers.get("WWW-Authenticate")?.includes("has expired")) return response;
  return send(String(url), withToken(options, await token(accessToken)));
}

type GraphQLError = { readonly message: string; readonly extensions: { code: string; fields?: readonly FieldError[] } };

/** The data of a GraphQL operation, and the position up to which a query has read. */
export async function read<Data>(query: string, variables: object): Promise<{ data: Data; position?: string }> {
  const body = JSON.stringify({ query, variables, extensions: { changePosition: true } });
  const response = await request(`${API}/graphql`, { method: "POST", headers: JSON_HEADERS, body });
  const { data, errors, extensions } = await response.json();
  if (!errors) return { data, position: extensions?.changePosition };
  const [{ message, extensions: fault }] = errors as [GraphQLError];
  throw ended(new Refused({ code: fault.code, message, details: fault.fields }));
}

/** The data of a GraphQL operation. */
export const graphql = async <Data>(query: string, variables: object = {}): Promise<Data> =>
  (await read<Data>(query, variables)).data;

/** The article of a result of createArticle. Its errors are those of the input; a caller who is not signed in gets a message only. */
export function articleOf<Article>({ article, errors, message }: Created<Article>): Article {
  if (article) return article;
  if (errors) throw new Refused({ message: message ?? "", details: errors });
  throw ended(new Refused({ code: "AUTH_REQUIRED", message: message ?? "" }));
}
