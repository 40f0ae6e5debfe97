import { createHash } from "node:crypto";
import { type RequestHandler, Router } from "express";
import type { Config } from "../../config/config.ts";
import { bareFrameOf, Html, headerOf, html, type Link } from "../../gate/pages/html.ts";
import { byMethod } from "../../gate/pipeline/express.ts";
import { compressedHandler, contentHandler } from "../../rest-gateway/conventions/conditional.ts";
import { livePage } from "./live.ts";

export const BUNDLE_FILE = new URL("./scalar-1.72.1.js.gz", import.meta.url);
export const BUNDLE_PATH = "/docs/scalar-1.72.1.js";

export type DocsOptions = {
  /** The public key with which the page sends requests; null if none is needed. Browsers may see it. */
  readonly anonKey: string | null;
  /** The supported versions of the resources; none where they are not served. */
  readonly versions: readonly number[];
  /** Live changes offers the tables of these schemas. */
  readonly settings: Pick<Config, "dbSchemas">;
  /** Whether users sign in here. */
  readonly hasAccounts: boolean;
  /** The links of the header. */
  readonly links: readonly Link[];
};

/** `/docs`: the reference of the resources and tables, rendered by Scalar. Everything is loaded from this service. */
export function docsRouter(options: DocsOptions): Router {
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/docs", byMethod({ GET: pageHandler(options) }));
  router.all("/docs/live", byMethod({ GET: livePage(options) }));
  router.all(BUNDLE_PATH, byMethod({ GET: compressedHandler(BUNDLE_FILE, "public, max-age=31536000, immutable") }));
  return router;
}

/**
 * The form takes an access token, or gets one with a username and password or from an identity provider, which returns the browser
 * with a code: the page exchanges it with a verifier that only this tab has (RFC 7636). The page shows what the token's role may do,
 * so it is loaded again when the user signs in or out.
 */
const SIGN_IN = `import { signedIn } from "/assets/signed-in.js";
const token = signedIn.token();
const form = document.getElementById("sign-in");
const status = form.querySelector("[role=status]");
const postJson = (path, body, headers = {}) =>
  fetch(path, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) });
// Scalar keeps its sidebar below the header and the form, which stay in view.
const header = form.parentElement;
new ResizeObserver(() => {
  const height = getComputedStyle(header).position === "sticky" ? header.offsetHeight : 0;
  document.documentElement.style.setProperty("--scalar-custom-header-height", height + "px");
}).observe(header);
form.classList.toggle("signed-in", token !== null);
if (token) status.textContent = "Signed in as " + signedIn.name() + ": this page shows what you may do.";
// The reason why the page was loaded again.
else if (sessionStorage.getItem("content-service:ended")) status.textContent = signedIn.ended;
sessionStorage.removeItem("content-service:ended");
let hasEnded = false;
signedIn.onChange(() => {
  if (!hasEnded || signedIn.token()) location.reload();
});
function end() {
  hasEnded = true;
  signedIn.use(null);
  form.classList.remove("signed-in");
  status.textContent = signedIn.ended;
}
// Test requests too. What the user has entered for them stays.
const send = window.fetch;
window.fetch = async (...given) => {
  const response = await send(...given);
  if (token && signedIn.token() === token && signedIn.isRefused(response)) end();
  return response;
};
let challenge = null;
async function finish(response, username) {
  const answer = await response.json();
  if (response.ok) return signedIn.use(answer.accessToken);
  const isWrongCode = answer.error.details?.some(({ field }) => field === "code") ?? false;
  const needsCode = answer.error.code === "MFA_REQUIRED" || isWrongCode;
  form.classList.toggle("needs-code", needsCode);
  // The provider has confirmed the user, so the code is enough.
  challenge = username === undefined && needsCode ? (answer.challenge ?? challenge) : null;
  form.classList.toggle("confirmed", challenge !== null);
  status.textContent = answer.error.message;
}
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (signedIn.token()) return signedIn.use(null);
  const { username, password, code, ...given } = Object.fromEntries(new FormData(form));
  const text = given.token.trim();
  if (text) {
    if (signedIn.isToken(text)) return signedIn.use(text);
    status.textContent = "This is not an access token.";
    return;
  }
  if (challenge !== null) return finish(await postJson("/auth/login", { challenge, code }));
  await finish(await postJson("/auth/login", { username, password, ...(code && { code }) }), username);
});
const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
async function startAt(path) {
  const verifier = base64url(crypto.getRandomValues(new Uint8Array(32)));
  sessionStorage.setItem("content-service.verifier", verifier);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const start = { mode: "token", return_to: location.pathname, code_challenge: base64url(digest) };
  location.assign(path + "?" + new URLSearchParams(start));
}
const signInCode = new URLSearchParams(location.search).get("sign_in_code");
if (signInCode !== null && !token) {
  history.replaceState(null, "", location.pathname);
  const codeVerifier = sessionStorage.getItem("content-service.verifier");
  if (codeVerifier) await finish(await postJson("/auth/federated/token", { signInCode, codeVerifier }));
}
async function offerProviders() {
  const { data = [] } = await (await fetch("/auth/providers")).json();
  for (const { title, signIn } of data) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "in", textContent: "Sign in with " + title });
    button.addEventListener("click", () => startAt(signIn));
    status.before(button);
  }
}
// Without TLS, browsers compute no digests.
if (form.querySelector("[name=username]") && isSecureContext) void offerProviders();
/** A session or token that has ended must not hide the page: it is removed, and the request is repeated. */
async function fetchDescription(path, headers) {
  const bearer = token ? { Authorization: "Bearer " + token } : {};
  const response = await send(path, { headers: { ...headers, ...bearer } });
  if (response.status !== 401) return response;
  if (token) {
    sessionStorage.setItem("content-service:ended", "yes");
    signedIn.use(null);
    return new Promise(() => {});
  }
  // Its response deletes the cookie of a session that has ended.
  await fetch("/api/auth/me");
  return fetch(path, { headers });
}
`;

/**
 * Fetches the descriptions, with the key if one is needed, and renders them. "Try it" requests send the key as well.
 * Interfaces that are not served, such as resources whose tables are missing, are omitted.
 */
const SCRIPT = `${SIGN_IN}
const reference = document.getElementById("reference");
const { key, versions } = reference.dataset;
const bearer = token && { token };
const tables = {
  title: "Tables",
  base: "/rest/v1",
  path: "/rest/v1/openapi.json",
  headers: key ? { apikey: key } : {},
  authentication: {
    preferredSecurityScheme: bearer ? [["apikey", "bearer"]] : "apikey",
    securitySchemes: { apikey: { value: key }, ...(bearer && { bearer }) },
  },
};
const resources = versions.split(" ").filter(Boolean).map((version) => ({
  title: "Resources v" + version,
  base: "",
  path: "/api/v" + version + "/openapi.json",
  headers: {},
  authentication: bearer && { preferredSecurityScheme: "bearer", securitySchemes: { bearer } },
}));
// Tables come first: most clients use them.
const sources = await Promise.all([tables, ...resources].map(async ({ title, base, path, headers, authentication }) => {
  const response = await fetchDescription(path, headers);
  const content = await response.json();
  content.servers = [{ url: location.origin + base }];
  for (const parameter of Object.values(content.components?.parameters ?? {})) disable(parameter);
  const isServed = response.ok && Object.keys(content.paths).length > 0;
  const message = response.ok ? null : (content.error ?? content).message;
  return { title, slug: title.toLowerCase().replace(" ", "-"), content, authentication, isServed, message };
}));
// Scalar would send the default or first value of each parameter, but some parameters cannot be combined.
function disable(parameter) {
  const { default: initial, enum: values = [] } = parameter.schema;
  parameter.examples = { default: { value: initial ?? values[0] ?? "", "x-disabled": true } };
}
const served = sources.filter(({ isServed }) => isServed);
if (served.length === 0) {
  reference.textContent = sources[0].message ?? "This service has no interface to describe.";
  throw new Error(reference.textContent);
}
// Names, states and roles that Scalar leaves out, for screen readers.
function name() {
  for (const each of reference.querySelectorAll("header:not([role])")) {
    each.role = "presentation";
    Object.assign(each.parentElement, { role: "navigation", ariaLabel: "Interface" });
  }
  for (const each of reference.querySelectorAll("[role=combobox]:not([aria-expanded])")) {
    each.ariaExpanded = "false";
    each.ariaLabel ??= "Value";
  }
  for (const each of reference.querySelectorAll(".scalar-code-copy:not([aria-label])")) each.ariaLabel = "Copy";
  for (const each of reference.querySelectorAll(".show-more[aria-label]")) each.removeAttribute("aria-label");
}
new MutationObserver(name).observe(reference, { childList: true, subtree: true });
Scalar.createApiReference(reference, served.map(({ title, slug, content, authentication }) => ({
  title,
  slug,
  content,
  authentication,
  operationTitleSource: "path",
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  hideDarkModeToggle: true,
  mcp: { disabled: true },
  agent: { disabled: true },
})));
`;

/** Scalar adds inline styles to the page. Nothing is loaded from other hosts. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `script-src 'self' 'sha256-${createHash("sha256").update(SCRIPT).digest("base64")}'`,
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** The colours and the focus of the other pages, and fields of the second factor, which are hidden until they are needed. */
const STYLE = `
html { scroll-padding: calc(var(--scalar-custom-header-height, 0px) + 1rem) 0 1rem; }
:root :is(.light-mode, .dark-mode) {
  --scalar-background-1: var(--page); --scalar-background-2: var(--raised); --scalar-background-3: var(--line);
  --scalar-border-color: var(--line); --scalar-radius: var(--radius); --scalar-color-accent: var(--link);
  --scalar-color-1: var(--text); --scalar-color-2: var(--muted); --scalar-color-3: var(--muted);
  --scalar-color-blue: var(--link); --scalar-color-green: var(--good); --scalar-color-orange: var(--warn);
  --scalar-color-yellow: var(--warn); --scalar-color-red: var(--bad); --scalar-color-purple: var(--code-word);
  --scalar-button-1: var(--link); --scalar-button-1-hover: var(--link); --scalar-button-1-color: var(--on-link);
  --scalar-font: system-ui, sans-serif; --scalar-font-code: ui-monospace, monospace;
}
#reference { overflow-x: clip; }
#reference th { word-break: normal; overflow-wrap: normal; }
body :focus-visible { outline: 3px solid var(--link) !important; outline-offset: -1px; }
#sign-in .code, #sign-in.signed-in label, #sign-in .out, #sign-in.signed-in .in, #sign-in.confirmed label:not(.code),
#sign-in.confirmed > .in { display: none; }
#sign-in.needs-code .code, #sign-in.signed-in .out { display: inline; }
#sign-in input { width: 11rem; }
@media (max-width: 50rem) {
  .top { position: static; }
  #sign-in label { display: grid; grid-template-columns: 7rem minmax(0, 1fr); align-items: center; width: 100%; }
  #sign-in.needs-code .code { display: grid; }
  #sign-in input { width: 100%; }
}
`;

const ACCOUNT = `<label>Username <input name="username" autocomplete="username"></label>
<label>Password <input name="password" type="password" autocomplete="current-password"></label>
<label class="code">Code <input name="code" autocomplete="one-time-code"></label>
<span class="in">or</span>
`;

const formOf = (hasAccounts: boolean) => `<form id="sign-in" class="signing" aria-label="Sign in">
${hasAccounts ? ACCOUNT : ""}<label>Access token <input name="token" type="password" autocomplete="off"></label>
<button><span class="in">Sign in</span><span class="out">Sign out</span></button>
<span role="status"></span>
</form>`;

function pageHandler({ anonKey, versions, hasAccounts, links }: DocsOptions): RequestHandler {
  const body = html`<body>
<a class="skip" href="#reference">Skip to the content</a>
<div class="top">
${headerOf(links, "/docs")}
${new Html(formOf(hasAccounts))}
</div>
<div id="reference" tabindex="-1" data-key="${anonKey ?? ""}" data-versions="${versions.join(" ")}"></div>
<script src="${BUNDLE_PATH}"></script>
<script type="module">${new Html(SCRIPT)}</script>
</body>`;
  const head = html`<link rel="stylesheet" href="/assets/header.css">\n<style>${new Html(STYLE)}</style>`;
  const text = bareFrameOf({ title: "API reference – Content Service", head, body });
  return contentHandler({
    type: "text/html; charset=utf-8",
    text,
    headers: { "Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache" },
  });
}
