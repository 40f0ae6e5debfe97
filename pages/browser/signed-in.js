/**
 * The access token with which the user has signed in, on this page or on another one, in this tab or in another one. The token is kept
 * until the last of these tabs is closed or the token expires.
 */
const KEY = "content-service:token";
const pages = new BroadcastChannel(KEY);
/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {string} token */
function claimsOf(token) {
  try {
    const payload = atob((token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(payload, (character) => character.charCodeAt(0))));
  } catch {
    return null;
  }
}

/** The access token, or null. */
function token() {
  const kept = sessionStorage.getItem(KEY);
  const expiry = kept && claimsOf(kept)?.exp;
  return !kept || (expiry && expiry * 1000 < Date.now()) ? null : kept;
}

/** @param {string | null} value */
function keep(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  for (const listener of listeners) listener();
}

pages.onmessage = ({ data }) => {
  if (data === "who?") {
    if (token()) pages.postMessage({ token: token() });
  } else if (data.token !== token()) keep(data.token);
};
if (!token()) pages.postMessage("who?");

export const signedIn = {
  token,
  isToken: (/** @type {string} */ text) => claimsOf(text) !== null,
  /** `Ada Lovelace` */
  name: () => {
    const { name, sub, role } = claimsOf(token() ?? "") ?? {};
    return name ?? sub ?? `the role ${role}`;
  },
  /** On all pages; null signs out. @param {string | null} value */
  use: (value) => {
    keep(value);
    pages.postMessage({ token: value });
  },
  isRefused: (/** @type {Response} */ response) =>
    response.headers.get("www-authenticate")?.includes("invalid_token") ?? false,
  /** Also for changes on other pages. @param {() => void} listener */
  onChange: (listener) => listeners.add(listener),
  ended: "The sign-in has ended: sign in again.",
};
