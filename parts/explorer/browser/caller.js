import { byId } from "./dom.js";
import { signedIn } from "./signed-in.js";

// Who sends the requests of this page: a user with an access token, a user with the cookie of a session, or an anonymous caller.

const hasAccounts = byId("sign-in").dataset.accounts === "true";
const dialog = byId("signing", HTMLDialogElement);
const form = byId("sign-in", HTMLFormElement);
const fault = byId("sign-in-fault");

/** With the cookie of a session, changes need it. @type {string | null} */
let csrf = null;
/** @type {Set<() => void>} */
const listeners = new Set();

export const caller = {
  /** The headers that a request of the caller has. @returns {Record<string, string>} */
  headers() {
    const token = signedIn.token();
    if (token) return { authorization: `Bearer ${token}` };
    return csrf ? { "x-csrf-token": csrf } : {};
  },
  /** Signs out if the service has refused the token. @param {Response} response */
  check(response) {
    if (!signedIn.token() || !signedIn.isRefused(response)) return;
    signedIn.use(null);
    showNotice(signedIn.ended);
  },
  /** @param {() => void} listener */
  onChange: (listener) => listeners.add(listener),
};

/** @param {string} text */
function showNotice(text) {
  byId("who-notice").textContent = text;
}

/** @param {string} path @param {Record<string, string>} [headers] */
const read = async (path, headers = {}) => {
  const response = await fetch(path, { headers });
  return response.ok ? response.json() : null;
};

/** Shows who the caller is. Resolves when requests can be sent. */
export async function showCaller() {
  const token = signedIn.token();
  csrf = null;
  let text = "Anonymous";
  if (hasAccounts && (token || (await read("/graphiql/session"))?.hasCookie)) {
    const user = await read("/auth/me", caller.headers());
    if (!token && user) csrf = (await read("/csrf-token"))?.csrfToken ?? null;
    if (user) text = `${user.name} (${user.role}, ${token ? "access token" : "session cookie"})`;
    else if (token) text = signedIn.name();
  } else if (token) text = signedIn.name();
  const isAnonymous = text === "Anonymous";
  byId("who").textContent = text;
  byId("open-sign-in").hidden = !isAnonymous;
  byId("sign-out").hidden = isAnonymous;
}

async function changed() {
  await showCaller().catch(() => showNotice("The service does not respond."));
  for (const listener of listeners) listener();
}

/** @param {string} path @param {object} body @param {Record<string, string>} [headers] */
const post = (path, body, headers = {}) =>
  fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

/** @param {string} token */
async function useToken(token) {
  if (!signedIn.isToken(token)) throw new Error("This is not an access token.");
  const response = await post("/graphql", { query: "{ __typename }" }, { authorization: `Bearer ${token}` });
  if (signedIn.isRefused(response)) throw new Error("This access token is not valid, or no longer.");
  signedIn.use(token);
}

/** @param {Record<string, string>} account */
async function signIn({ username, password, code }) {
  const response = await post("/auth/login", { username, password, ...(code && { code }) });
  const body = await response.json();
  if (response.ok) return signedIn.use(body.accessToken);
  if (body.error?.code === "MFA_REQUIRED") byId("code-field").hidden = false;
  throw new Error(body.error?.message ?? `The sign-in failed (${response.status}).`);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  fault.textContent = "";
  const { token = "", ...account } = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
  try {
    await (token.trim() ? useToken(token.trim()) : signIn(account));
    dialog.close();
  } catch (error) {
    fault.textContent = error instanceof Error ? error.message : String(error);
  }
});
byId("open-sign-in").addEventListener("click", () => {
  showNotice("");
  dialog.showModal();
});
byId("close-sign-in").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => {
  form.reset();
  fault.textContent = "";
  byId("code-field").hidden = true;
});
byId("sign-out").addEventListener("click", async () => {
  if (signedIn.token()) return signedIn.use(null);
  await post("/api/auth/logout", {}, caller.headers());
  await changed();
});
signedIn.onChange(changed);
