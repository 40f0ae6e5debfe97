export type User = { readonly id: number | string; readonly name: string };
type Tokens = { readonly accessToken: string; readonly refreshToken: string; readonly expiresIn: number };
/** `id`: of the sign-in, whose tokens change. */
type Session = Omit<Tokens, "expiresIn"> & { readonly id: string; readonly user: User; readonly expiresAt: number };

/** Before the paths of the service: empty if the page has its origin, or a proxy as in docs/database-application.md. */
export const API = "";
const KEY = "session";

/** Null if it is no session, such as what another program has stored under this name, or an older version of the page. */
function parse(stored: string): Session | null {
  try {
    const value: Session = JSON.parse(stored);
    const texts = [value.id, value.accessToken, value.refreshToken, value.user.name];
    const isSession =
      texts.every((text) => typeof text === "string") && value.expiresAt >= 0 && value.user.id !== undefined;
    return isSession ? value : null;
  } catch {
    return null;
  }
}

let kept: string | null = null;
let current: Session | null = null;
/** Null if the user is not signed in. The same object until it changes, as `useSyncExternalStore(onSession, session)` needs. */
export function session(): Session | null {
  const stored = localStorage.getItem(KEY);
  if (stored !== kept) [kept, current] = [stored, stored === null ? null : parse(stored)];
  return current;
}

const listeners = new Set<() => void>();
const tell = (): void => {
  for (const listener of listeners) listener();
};
// Another tab has signed in or out.
addEventListener("storage", ({ key }) => (key === KEY || key === null) && tell());

/** Calls back when the session has changed, in this tab or another one. Returns a function that ends this. */
export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Calls back when another user has signed in, and after a sign-out: what the last user has read must go. */
export function onUser(listener: () => void): () => void {
  let user = session()?.user.id;
  return onSession(() => {
    const before = user;
    user = session()?.user.id;
    if (user !== before) listener();
  });
}

function keep(value: Session | null): void {
  if (value === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, JSON.stringify(value));
  tell();
}

const keepTokens = ({ id, user }: Pick<Session, "id" | "user">, { expiresIn, ...tokens }: Tokens): void =>
  keep({ ...tokens, id, user, expiresAt: Date.now() + expiresIn * 1000 });
const keepSignIn = ({ user, ...tokens }: Tokens & { readonly user: User }): void =>
  keepTokens({ id: crypto.randomUUID(), user }, tokens);

/** What the service has refused. `faultsOf` in errors.md has its invalid fields. */
export class Refused extends Error {
  readonly status: number;
  readonly error: { readonly message: string };

  constructor(status: number, error: Refused["error"]) {
    super(error.message);
    this.status = status;
    this.error = error;
  }
}

/**
 * Milliseconds within which the service must answer, because a network may lose a request without an error. Two refreshes and PAUSE are
 * shorter than JWT_REFRESH_GRACE=10.
 */
const [LIMIT, REFRESH_LIMIT, PAUSE] = [20_000, 4_000, 500];

let refusesUntil = 0;
/** Milliseconds for which the service refuses requests, as it has said with `Retry-After`. */
export const refusesFor = (): number => Math.max(0, refusesUntil - Date.now());

/** `fetch` that throws a text to show if the service does not answer. */
async function send(url: RequestInfo | URL, options: RequestInit, limit = LIMIT): Promise<Response> {
  const signals = [AbortSignal.timeout(limit), ...(options.signal ? [options.signal] : [])];
  const response = await fetch(url, { ...options, signal: AbortSignal.any(signals) }).catch((error) => {
    // The client has given the request up.
    if (options.signal?.aborted) throw error;
    throw new Error("The service cannot be reached.", { cause: error });
  });
  // Seconds. Those of one form, such as after wrong passwords, can be many more.
  const seconds = Math.min(Number(response.headers.get("Retry-After")), 60);
  if (seconds > 0) refusesUntil = Date.now() + seconds * 1000;
  // A proxy whose service is down answers with HTML, or nothing.
  if (response.ok || response.headers.get("Content-Type")?.includes("json")) return response;
  throw new Error(`The service cannot be reached (status ${response.status}).`);
}

async function post<Answer>(path: string, body: object, token?: string, limit?: number): Promise<Answer> {
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await send(API + path, { method: "POST", headers, body: JSON.stringify(body) }, limit);
  const answer = await response.json();
  if (response.ok) return answer;
  throw new Refused(response.status, answer.error);
}

export async function signIn(form: { readonly username: string; readonly password: string }): Promise<void> {
  keepSignIn(await post("/auth/login", form));
}

/** Creates an account, and signs in. With EMAIL_CONFIRM=required it returns a text to show: an e-mail is on its way. */
export async function register(form: {
  readonly name: string;
  readonly email: string;
  readonly password: string;
}): Promise<string | undefined> {
  type Registered = (Tokens & { readonly user: User }) | { readonly user?: undefined; readonly message: string };
  const answer = await post<Registered>("/auth/register", form);
  if (answer.user === undefined) return answer.message;
  keepSignIn(answer);
  return undefined;
}

/** Sends an e-mail with a link to a page on which the user chooses another password. */
export const forgotPassword = (form: { readonly email: string }): Promise<unknown> => post("/auth/forgot", form);

const logOut = ({ accessToken }: Tokens): Promise<unknown> => post("/auth/logout", { scope: "local" }, accessToken);
/** The service has ended the sign-in. If the network has failed, it has not. */
const hasEnded = (error: unknown): boolean => error instanceof Refused && error.status === 401;

/** Once more after a failure: if only the answer was lost, the same token gives another pair with JWT_REFRESH_GRACE, and ends the sign-in without. */
async function refresh({ refreshToken }: Session): Promise<Tokens> {
  const once = (): Promise<Tokens> => post("/auth/refresh", { refreshToken }, undefined, REFRESH_LIMIT);
  try {
    return await once();
  } catch (error) {
    if (hasEnded(error)) throw error;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    return once();
  }
}

/**
 * Ends this sign-in, here and at the service. Those on other devices continue. If the service cannot be reached, throws an error with a
 * text to show: the user is signed out here, and the sign-in ends there when its refresh token expires, or on the page of the account.
 */
export async function signOut(): Promise<void> {
  const current = session();
  keep(null);
  try {
    // The service may find the access token expired.
    if (current) await logOut(await refresh(current));
  } catch (error) {
    if (hasEnded(error)) return;
    const text = "You are signed out here. The service cannot be reached: there, the sign-in ends when it expires.";
    throw new Error(text, { cause: error });
  }
}

let endSending = async (): Promise<void> => {};
/** Until this tab sends another one, or closes, a lock says to the others that the token is sent: the storage may reach them later. */
async function markSent({ refreshToken }: Session): Promise<void> {
  await endSending();
  await new Promise<void>((marked) => {
    const ended = navigator.locks.request(refreshToken, () => {
      marked();
      return new Promise<void>((end) => {
        endSending = () => {
          end();
          return ended;
        };
      });
    });
  });
}
const isSent = async ({ refreshToken }: Session): Promise<boolean> =>
  ((await navigator.locks.query()).held ?? []).some(({ name }) => name === refreshToken);
const nextChange = (): Promise<void> =>
  new Promise((resolve) => {
    const end = onSession(() => {
      end();
      resolve();
    });
  });

const isOver = (current: Session | null, refused?: string): boolean =>
  current !== null && (current.accessToken === refused || current.expiresAt < Date.now() + 10_000);

/**
 * The token for a request; undefined if the user is not signed in. One tab refreshes, and the others take its tokens.
 * `refused`: a token that the service has found expired, whatever the clock of this device says.
 */
export async function accessToken(refused?: string): Promise<string | undefined> {
  if (isOver(session(), refused))
    await navigator.locks.request("refresh", async () => {
      const changed = nextChange();
      const current = session();
      if (current === null || !isOver(current, refused)) return; // Another tab was first.
      if (await isSent(current)) return changed;
      await markSent(current);
      // False after a sign-out during the refresh, or another sign-in, which must stay.
      const isCurrent = (): boolean => session()?.id === current.id;
      try {
        const tokens = await refresh(current);
        if (isCurrent()) keepTokens(current, tokens);
        else await logOut(tokens).catch(() => {});
      } catch (error) {
        if (hasEnded(error)) return isCurrent() ? keep(null) : undefined;
        await endSending();
        throw error;
      }
    });
  return session()?.accessToken;
}

/**
 * `fetch` with a token, for each client: the request is sent again if the service finds the token expired or revoked. Throws if the
 * service does not answer, and if the user has signed out in the meantime, or another one has signed in: what one user has written must
 * not be sent by another.
 */
export async function request(url: RequestInfo | URL, options: RequestInit = {}): Promise<Response> {
  const id = session()?.id;
  const sendWith = (token: string | undefined): Promise<Response> => {
    if (session()?.id !== id) throw new Error("You have been signed out.");
    const headers = new Headers(options.headers);
    if (token) headers.set("Authorization", `Bearer ${token}`);
    return send(url, { ...options, headers });
  };
  const token = await accessToken();
  const response = await sendWith(token);
  const isRefused = response.headers.get("WWW-Authenticate")?.includes("invalid_token");
  return token && isRefused ? sendWith(await accessToken(token)) : response;
}
