import type { RequestHandler } from "express";
import type { Config } from "../../config/config.ts";
import { documentOf, html, type Link, PAGE_POLICY } from "../../gate/pages/html.ts";
import { contentHandler } from "../../rest-gateway/conventions/conditional.ts";

type LiveOptions = {
  /** Public; null if no key is needed. */
  readonly anonKey: string | null;
  /** The tables of these schemas are offered. */
  readonly settings: Pick<Config, "dbSchemas">;
  readonly links: readonly Link[];
};

/** `/docs/live`: the changes of a table as they are committed. Its code is browser/live.js. */
export function livePage({ anonKey, settings, links }: LiveOptions): RequestHandler {
  const main = html`<h1>Live changes</h1>
<p class="muted">The changes of a table as they are committed, with the rights of the anonymous role or of a user.</p>
<form id="live" data-key="${anonKey ?? ""}" data-schemas="${JSON.stringify(settings.dbSchemas)}" class="row live">
<label>Table <select id="table" required disabled><option value="">The tables are loading.</option></select></label>
<label>Filter <input id="filter" placeholder="status=eq.DRAFT" autocomplete="off"></label>
<label>Access token <input id="token" type="password" autocomplete="off" placeholder="for the rights of a user"></label>
<button id="subscribe">Subscribe</button>
<button id="pause" type="button" class="quiet" hidden>Pause</button>
<button id="stop" type="button" class="quiet" hidden>Stop</button>
<button id="clear" type="button" class="quiet">Clear</button>
</form>
<output id="status" class="notice">Choose a table, and subscribe.</output>
<p id="empty" class="empty">No changes yet. They appear here, the newest first.</p>
<ol id="changes" class="changes" aria-label="Changes" reversed></ol>`;
  const text = documentOf({ title: "Live changes", path: "/docs/live", main, script: "/assets/live.js" }, links);
  return contentHandler({
    type: "text/html; charset=utf-8",
    text,
    headers: { "Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache" },
  });
}
