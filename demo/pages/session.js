/** The URL of the service: `index.html?api=http://127.0.0.1:3000`. */
export const API = new URLSearchParams(location.search).get("api") ?? "http://127.0.0.1:3000";

const KEY = "session";
/** Milliseconds before its end in which an access token is replaced. */
const MARGIN = 10_000;
let refreshing = null;

/** `{user, accessToken, refreshToken, expiresAt}`, or null. It is kept until the tab is closed. */
export const session = () => JSON.parse(sessionStorage.getItem(KEY));

function keep(value) {
  sessionStorage.setItem(KEY, JSON.stringify(value));
  dispatchEvent(new Event("session"));
}

const keepTokens = (user, { accessToken, refreshToken, expiresIn }) =>
  keep({ user, accessToken, refreshToken, expiresAt: Date.now() + expiresIn * 1000 });

/** An error of a REST endpoint: `fields` has the message of each invalid field. */
export class Refused extends Error {
  constructor({ code, message, details = [] }) {
    super(message);
    this.code = code;
    this.fields = details;
  }
}

const send = (url, options) =>
  fetch(url, options).catch(() => {
    throw new Error(
      `${API} does not respond. If the service runs elsewhere, add ?api=http://… to the URL of this page.`,
    );
  });

async function post(path, body) {
  const response = await send(API + path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Refused(answer.error);
  return answer;
}

export async function signIn(form) {
  const tokens = await post("/auth/login", form);
  const { me } = await graphql("{ me { id name } }", {}, tokens.accessToken);
  keepTokens(me, tokens);
}

export async function register(form) {
  const { user, ...tokens } = await post("/auth/register", form);
  keepTokens(user, tokens);
}

export const signOut = () => keep(null);

/**
 * An access token for the next request, or null. A refresh token works once, so that all requests wait for one refresh. If the
 * network fails, the session stays. `expired`: a token that the service has refused as expired, whatever the clock of this page says.
 */
export async function token(expired = null) {
  const { user, accessToken, refreshToken, expiresAt } = session() ?? {};
  if (accessToken && (accessToken === expired || expiresAt < Date.now() + MARGIN)) {
    refreshing ??= post("/auth/refresh", { refreshToken })
      .then((tokens) => keepTokens(user, tokens))
      .catch((error) => Promise.reject(ended(error)))
      .finally(() => (refreshing = null));
    await refreshing;
  }
  return session()?.accessToken;
}

const ENDED = new Set(["AUTH_REQUIRED", "AUTH_EXPIRED", "TOKEN_EXPIRED", "INVALID_TOKEN", "VERIFICATION_FAILED"]);

/** The error to show. Signs out if the service says that the session has ended, for example on another device. */
export function ended(error, code = error.code) {
  if (!ENDED.has(code) || !session()) return error;
  signOut();
  return new Error("Your session has ended: sign in again.");
}

const withToken = ({ headers, ...options }, accessToken) => ({
  ...options,
  headers: { ...headers, ...(accessToken && { Authorization: `Bearer ${accessToken}` }) },
});

/**
 * `fetch` with an access token. If the service finds it expired, the token is refreshed and the request repeated. No mutation of
 * these pages is executed twice: each needs a user.
 */
export async function request(url, options) {
  const accessToken = await token();
  const response = await send(url, withToken(options, accessToken));
  if (!response.headers.get("WWW-Authenticate")?.includes("has expired")) return response;
  return send(url, withToken(options, await token(accessToken)));
}

/** The data of a GraphQL operation. `accessToken`: that of a user who is not signed in at the page yet. */
export async function graphql(query, variables = {}, accessToken = null) {
  const options = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ query, variables }),
  };
  const url = `${API}/graphql`;
  const response = await (accessToken ? send(url, withToken(options, accessToken)) : request(url, options));
  const { data, errors } = await response.json();
  if (!errors) return data;
  const { message, extensions } = errors[0];
  throw ended(new Refused({ code: extensions.code, message, details: extensions.fields }));
}

/** The article of a result of createArticle. Its errors are those of the input; a caller who is not signed in gets a message only. */
export function articleOf({ article, errors, message }) {
  if (article) return article;
  if (errors) throw new Refused({ message, details: errors });
  throw ended(new Refused({ code: "AUTH_REQUIRED", message }));
}
