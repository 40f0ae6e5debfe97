/**
 * A script for pages of the service: `signedIn` has the access token with which the user has signed in, on this page or on another
 * one, in this tab or in another one. The token is kept until the last of these tabs is closed or the token expires.
 *
 *   signedIn.token()            // the access token, or null
 *   signedIn.name()             // Ada Lovelace
 *   signedIn.use(token)         // on all pages; null signs out
 *   signedIn.isRefused(response)
 *   signedIn.onChange(listener) // also for other pages
 */
export const SIGNED_IN = `
const signedIn = (() => {
  const KEY = "content-service:token";
  const pages = new BroadcastChannel(KEY);
  const listeners = new Set();
  const claimsOf = (token) => {
    try {
      const payload = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
      return JSON.parse(new TextDecoder().decode(Uint8Array.from(payload, (character) => character.charCodeAt(0))));
    } catch {
      return null;
    }
  };
  const token = () => {
    const kept = sessionStorage.getItem(KEY);
    const expiry = kept && claimsOf(kept)?.exp;
    return !kept || (expiry && expiry * 1000 < Date.now()) ? null : kept;
  };
  const keep = (value) => {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
    for (const listener of listeners) listener();
  };
  pages.onmessage = ({ data }) => {
    if (data === "who?") {
      if (token()) pages.postMessage({ token: token() });
    } else if (data.token !== token()) keep(data.token);
  };
  if (!token()) pages.postMessage("who?");
  return {
    token,
    isToken: (text) => claimsOf(text) !== null,
    name: () => {
      const { name, sub, role } = claimsOf(token()) ?? {};
      return name ?? sub ?? "the role " + role;
    },
    use: (value) => {
      keep(value);
      pages.postMessage({ token: value });
    },
    isRefused: (response) => response.headers.get("www-authenticate")?.includes("invalid_token") ?? false,
    onChange: (listener) => listeners.add(listener),
    ended: "The sign-in has ended: sign in again.",
  };
})();
`;
