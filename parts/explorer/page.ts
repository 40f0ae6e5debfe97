import { randomBytes } from "node:crypto";
import { type RequestHandler, Router } from "express";
import type { Config } from "../../config/config.ts";
import { frameOf, headerOf, html, type Link, PAGE_POLICY } from "../../gate/pages/html.ts";
import { byMethod } from "../../gate/pipeline/express.ts";
import { SESSION } from "../../identity/cookies.ts";
import type { Example } from "../../service/part.ts";

export type ExplorerOptions = {
  examples(): Promise<readonly Example[]>;
  /** Without accounts, users need a token from another issuer. */
  readonly settings: Pick<Config, "hasAuth">;
  readonly hasAccountPages: boolean;
  /** The links of the header. */
  readonly links: readonly Link[];
};

/** `/graphiql`: an editor of operations, whose code is in browser/. It has no rights of its own: it sends requests as any client. */
export function explorerRouter(options: ExplorerOptions): Router {
  const page: RequestHandler = async (_request, response) => {
    // For the style sheets that the editor creates.
    const nonce = randomBytes(16).toString("base64");
    response
      .set("Content-Security-Policy", PAGE_POLICY.replace("style-src 'self'", `style-src 'self' 'nonce-${nonce}'`))
      .set("Cache-Control", "no-store")
      .type("html")
      .send(pageOf(options, await options.examples(), nonce));
  };
  // Only the page itself knows whether the browser has a cookie: it is not sent with a navigation from another site.
  const session: RequestHandler = ({ headers }, response) => {
    response.set("Cache-Control", "no-store").json({ hasCookie: SESSION.in({ headers }) !== null });
  };
  const router = Router({ strict: true, caseSensitive: true });
  router.all("/graphiql", byMethod({ GET: page }));
  router.all("/graphiql/session", byMethod({ GET: session }));
  return router;
}

const pageOf = ({ settings, hasAccountPages, links }: ExplorerOptions, examples: readonly Example[], nonce: string) =>
  frameOf({
    title: "GraphiQL – Content Service",
    head: html`<link rel="stylesheet" href="/assets/graphiql.css">
<script type="module" src="/assets/graphiql.js" nonce="${nonce}"></script>`,
    body: html`<body class="graphiql">
<a class="skip" href="#main">Skip to the content</a>
${headerOf(links, "/graphiql")}
<main id="main" tabindex="-1" data-examples="${JSON.stringify(examples)}">
<h1>GraphiQL</h1>
<div class="tools" role="group" aria-label="Tools">
<button id="run" type="button" title="Ctrl+Enter">Run</button>
<select id="operation" aria-label="Operation to run" hidden></select>
<select id="examples" aria-label="Examples"><option value="">Examples</option>${examples.map(({ name }, i) => html`<option value="${i}">${name}</option>`)}</select>
<button id="toggle-explorer" type="button" class="quiet" aria-pressed="false">Explorer</button>
<button id="toggle-documentation" type="button" class="quiet" aria-pressed="false">Docs</button>
<button id="toggle-history" type="button" class="quiet" aria-pressed="false">History</button>
<button id="format" type="button" class="quiet">Format</button>
<button id="merge" type="button" class="quiet" title="Replaces each fragment by its fields" hidden>Merge fragments</button>
<button id="share" type="button" class="quiet">Copy link</button>
<span id="notice" role="status" class="muted"></span>
<div class="who"><span id="who-notice" role="alert" class="bad"></span><span id="who" role="status" aria-label="Signed in as"></span>
<button id="open-sign-in" type="button" class="quiet" hidden>Sign in</button>
<button id="sign-out" type="button" class="quiet" hidden>Sign out</button></div>
</div>
<div class="panes">
<section id="explorer" class="side initial" aria-labelledby="explorer-title">
<div class="title"><h2 id="explorer-title">Explorer</h2>
<label id="search-field" hidden><span>Search fields</span> <input id="search" type="search" placeholder="Search" autocomplete="off"></label></div>
<div id="tree" tabindex="0" role="group" aria-label="Fields of the schema"><p class="hint">The schema is loading.</p></div>
</section>
<section id="documentation" class="side" aria-labelledby="documentation-title" hidden>
<div class="title"><h2 id="documentation-title">Documentation</h2>
<label><span>Search types and fields</span> <input id="documentation-search" type="search" placeholder="Search" autocomplete="off"></label></div>
<div id="documentation-page" tabindex="0" role="group" aria-label="Types of the schema"><p class="hint">The schema is loading.</p></div>
</section>
<section id="history" class="side" aria-labelledby="history-title" hidden>
<div class="title"><h2 id="history-title">History</h2><button id="clear-history" type="button" class="quiet">Clear</button></div>
<div id="history-list" tabindex="0" role="group" aria-label="Operations that were run"></div>
</section>
<section class="writing" aria-labelledby="operation-title">
<div class="title"><h2 id="operation-title">Operation</h2><span class="hint">Ctrl+Enter runs, Ctrl+Space completes</span></div>
<div id="query" class="editor"></div>
<div class="title tabs" role="group" aria-label="Sent with the operation">
<button id="variables-tab" type="button" class="quiet" aria-pressed="true">Variables</button>
<button id="headers-tab" type="button" class="quiet" aria-pressed="false">Headers</button></div>
<div id="variables" class="editor small"></div>
<div id="headers" class="editor small" hidden></div>
</section>
<section aria-labelledby="response-title">
<div class="title"><h2 id="response-title">Response</h2><output id="summary" class="muted">Run the operation to see its result.</output></div>
<div id="response" class="editor"></div>
</section>
</div>
${signInOf(settings.hasAuth, hasAccountPages)}
</main>
</body>`,
  });

const signInOf = (
  hasAuth: boolean,
  hasAccountPages: boolean,
) => html`<dialog id="signing" aria-labelledby="signing-title">
<form id="sign-in" aria-labelledby="signing-title" data-accounts="${String(hasAuth)}">
<h2 id="signing-title">Sign in</h2>
${
  hasAuth
    ? html`<div class="field"><label for="username">E-mail or username</label><input id="username" name="username" autocomplete="username"></div>
<div class="field"><label for="password">Password</label><input id="password" name="password" type="password" autocomplete="current-password"></div>
<div class="field" id="code-field" hidden><label for="code">Code</label><input id="code" name="code" autocomplete="one-time-code" inputmode="numeric"></div>
<p class="or">or</p>`
    : html`<span id="code-field" hidden></span>`
}
<div class="field"><label for="token">Access token</label><input id="token" name="token" type="password" autocomplete="off"></div>
<p id="sign-in-fault" role="alert" class="fault"></p>
<div class="row"><button>Sign in</button><button id="close-sign-in" type="button" class="quiet">Cancel</button></div>
${hasAccountPages ? html`<p class="hint">With a passkey or a provider: <a href="/auth/sign-in?return_to=/graphiql">the page of sign-in</a>, which sets a session cookie.</p>` : null}
</form>
</dialog>`;
