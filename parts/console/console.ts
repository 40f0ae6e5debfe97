import type { IncomingMessage } from "node:http";
import { type ErrorRequestHandler, type Request, type RequestHandler, type Response, Router } from "express";
import { COMMAND } from "../../config/command.ts";
import { isTransient } from "../../db/errors.ts";
import { isOfOtherSite } from "../../gate/operations/operator.ts";
import { current, documentOf, type Html, html, type Link, PAGE_POLICY } from "../../gate/pages/html.ts";
import { type IconName, icon } from "../../gate/pages/icons.ts";
import { readBytes } from "../../gate/pipeline/body.ts";
import { exchangeOf } from "../../gate/pipeline/exchange.ts";
import { byMethod } from "../../gate/pipeline/express.ts";
import { CHALLENGE, Problem, problem } from "../../problems/problem.ts";
import { CONSOLE } from "./path.ts";
import type { ConsoleSessions, Operator } from "./session.ts";

/** One page of the console. */
export type View = Link & {
  readonly icon: IconName;
  /** The path of the module that it runs. */
  readonly script?: string;
  /** `form` is what the operator has sent; null when the page is opened. */
  render(input: ViewInput): Rendered | Promise<Rendered>;
  readonly hasForm?: boolean;
};

/** What a view leads to: its page, another page after a form, or a file. */
export type Rendered = Html | { readonly location: string } | ConsoleFile;

export type ConsoleFile = { readonly file: string; readonly type: string; readonly body: Buffer };

export type ViewInput = {
  readonly operator: Operator;
  readonly query: URLSearchParams;
  readonly form: URLSearchParams | null;
  readonly request: IncomingMessage;
};

export type ConsoleOptions = {
  readonly sessions: ConsoleSessions;
  readonly views: readonly View[];
  /** The links of the header. */
  readonly links: readonly Link[];
  /** Links of the application, for operators. */
  readonly applicationLinks: readonly Link[];
  /** The path at which administrators sign in to the service in this browser; null if there is none. */
  readonly accountSignIn: string | null;
};

export const SIGN_IN = `${CONSOLE}/sign-in`;
const SHEET = "/assets/console.css";
const SIGN_OUT = `${CONSOLE}/sign-out`;

/** Bytes of a form. */
const MAX_FORM = 262_144;

/** `/console/…`: pages for operators, behind a sign-in of their own. */
export function consolePages(options: ConsoleOptions): Router {
  const { sessions, views } = options;
  const router = Router({ strict: true, caseSensitive: true });
  router.all(CONSOLE, byMethod({ GET: (_request, response) => response.redirect(303, views[0]!.path) }));
  router.all(
    SIGN_IN,
    byMethod({
      GET: async (request, response) => sendSignIn(options, request, response),
      POST: async (request, response) => {
        if (isOfOtherSite(request))
          throw problem("not permitted", { message: "pages of other sites may not send this form" });
        const form = await readForm(request);
        const session = exchangeOf(request).identity.credentials.session;
        const credential =
          form.has("session") && session !== null ? { session } : { bearer: form.get("credential")?.trim() || "-" };
        const caller = await sessions.callerOf(credential, request);
        if (caller === null) return sendSignIn(options, request, response, REFUSED);
        sessions.start(credential, response);
        response.redirect(303, views.find(({ path }) => path === form.get("next"))?.path ?? views[0]!.path);
      },
    }),
  );
  router.all(
    SIGN_OUT,
    byMethod({
      POST: async (request, response) => {
        await formOf(request, sessions);
        sessions.end(response);
        response.redirect(303, SIGN_IN);
      },
    }),
  );
  for (const view of views) {
    const show: RequestHandler = async (request, response) => sendView(view, options, request, response);
    router.all(view.path, byMethod({ GET: show, ...(view.hasForm && { POST: show }) }));
  }
  router.use(errorPage(options));
  return router;
}

/** Sends expected errors as pages. Unexpected errors are passed on to the interface. */
const errorPage =
  ({ links }: ConsoleOptions): ErrorRequestHandler =>
  (error, request, response, next) => {
    const found = error instanceof Problem ? error : isTransient(error) ? problem("database unavailable") : null;
    if (found === null || response.headersSent) return next(error);
    exchangeOf(request).head.notes.code = found.code;
    const main = html`<div class="card"><h1>Console</h1><p class="alert" role="alert">${found.message}</p><p><a class="button" href="${CONSOLE}">Back to the console</a></p></div>`;
    response.status(found.status);
    send(response, documentOf({ title: "Error – Console", path: CONSOLE, main }, links));
  };

const REFUSED =
  "This is neither a service key nor the access token of an administrator, or it is no longer valid. Copy it again, without spaces.";

async function sendView(view: View, options: ConsoleOptions, request: Request, response: Response): Promise<void> {
  const { sessions, views, links, applicationLinks } = options;
  const operator = await sessions.operatorOf(request);
  if (operator === null) return response.redirect(303, `${SIGN_IN}?next=${encodeURIComponent(view.path)}`);
  const form = request.method === "POST" ? await formOf(request, sessions) : null;
  const query = new URL(request.url, "http://console").searchParams;
  const main = await view.render({ operator, query, form, request });
  if ("location" in main) return response.redirect(303, main.location);
  if ("file" in main) return sendFile(response, main);
  const aside = asideOf(views, view, applicationLinks, operator);
  const { name: title, script } = view;
  send(
    response,
    documentOf(
      { title: `${title} – Console`, path: CONSOLE, aside, main, sheet: SHEET, ...(script && { script }) },
      links,
    ),
  );
}

async function sendSignIn(
  { sessions, views, links, accountSignIn }: ConsoleOptions,
  request: Request,
  response: Response,
  fault: string | null = null,
): Promise<void> {
  const session = exchangeOf(request).identity.credentials.session;
  const isAdmin = session !== null && (await sessions.callerOf({ session }, request)) !== null;
  const asked = new URL(request.url, "http://console").searchParams.get("next");
  const next = views.find(({ path }) => path === asked)?.path ?? "";
  const nextField = html`<input type="hidden" name="next" value="${next}">`;
  const back = new URLSearchParams({ return_to: `${SIGN_IN}?${new URLSearchParams({ next })}` });
  const main = html`<div class="card">
<h1>Console</h1>
<p class="muted">For operators and DBAs: what is exposed to which role, requests as any caller, why a row is hidden, and what the service does now.</p>
${fault && html`<p class="alert" role="alert">${fault}</p>`}
${isAdmin ? html`<form method="post" action="${SIGN_IN}">${nextField}<p class="notice">You are signed in to the service as an administrator.</p><button name="session" value="on">Continue</button></form>\n<p class="or"><span>or</span></p>` : null}
<form method="post" action="${SIGN_IN}">
${nextField}
<div class="field"><label for="credential">Service key, or access token of an administrator</label>
<input id="credential" name="credential" type="password" autocomplete="off" required maxlength="8192">
<p class="hint">With the embedded database, <code>${COMMAND} start</code> prints the service key. An administrator gets an access token from <code>POST /auth/login</code>.</p></div>
<button>Sign in</button>
</form>
${accountSignIn && html`<ul class="links"><li>An administrator can also <a href="${accountSignIn}?${back.toString()}">sign in to the service</a> in this browser, and then continue here.</li></ul>`}
</div>`;
  if (fault !== null) response.status(401).set("WWW-Authenticate", CHALLENGE);
  send(
    response,
    documentOf({ title: "Sign in – Console", path: CONSOLE, main, script: "/assets/console-sign-in.js" }, links),
  );
}

const asideOf = (
  views: readonly View[],
  view: View,
  links: readonly Link[],
  { name, csrf }: Operator,
): Html => html`<aside class="console">
<nav aria-label="Console"><ul>${views.map(
  (each) => html`<li><a href="${each.path}"${current(each.path, view.path)}>${icon(each.icon)}${each.name}</a></li>`,
)}</ul></nav>
${links.length > 0 ? html`<nav aria-label="Application"><ul>${links.map(({ path, name: text }) => html`<li><a href="${path}" rel="noopener">${text}</a></li>`)}</ul></nav>` : null}
<form method="post" action="${SIGN_OUT}"><p class="muted">Signed in as ${name}.</p>${csrfField(csrf)}<button class="quiet">Sign out</button></form>
</aside>`;

export const csrfField = (csrf: string): Html => html`<input type="hidden" name="csrf" value="${csrf}">`;

function send(response: Response, text: string): void {
  response.set({
    "Content-Security-Policy": PAGE_POLICY,
    "Cache-Control": "no-store",
    // With no-referrer, browsers would not name the origin of a form.
    "Referrer-Policy": "same-origin",
  });
  response.type("html").send(text);
}

const sendFile = (response: Response, { file, type, body }: ConsoleFile): void =>
  void response
    .set({ "Content-Disposition": `attachment; filename="${file}"`, "Cache-Control": "no-store" })
    .type(type)
    .send(body);

/** The form that a page of this operator has sent. */
async function formOf(request: IncomingMessage, sessions: ConsoleSessions): Promise<URLSearchParams> {
  if (isOfOtherSite(request))
    throw problem("not permitted", { message: "pages of other sites may not send this form" });
  const form = await readForm(request);
  if (!sessions.isForm(form, request)) throw problem("outdated form");
  return form;
}

async function readForm(request: IncomingMessage): Promise<URLSearchParams> {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(request.headers["content-type"] ?? ""))
    throw problem("unsupported body", { message: "only a form of the console is accepted" });
  return new URLSearchParams((await readBytes(request, MAX_FORM)).toString());
}
