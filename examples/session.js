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

async function post(path, body) {
  const response = await fetch(API + path, {
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

/** An access token for the next request, or null. A refresh token works once, so that all requests wait for one refresh. */
export async function token() {
  if (session()?.expiresAt < Date.now() + MARGIN) {
    const { user, refreshToken } = session();
    refreshing ??= post("/auth/refresh", { refreshToken })
      .then((tokens) => keepTokens(user, tokens), signOut)
      .finally(() => (refreshing = null));
    await refreshing;
  }
  return session()?.accessToken;
}

/** The data of a GraphQL operation. */
export async function graphql(query, variables = {}, accessToken = undefined) {
  const bearer = accessToken ?? (await token());
  const response = await fetch(`${API}/graphql`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(bearer && { Authorization: `Bearer ${bearer}` }) },
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = await response.json();
  if (!errors) return data;
  const { message, extensions } = errors[0];
  throw new Refused({ code: extensions.code, message, details: extensions.fields });
}
