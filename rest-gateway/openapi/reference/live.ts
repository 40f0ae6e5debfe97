import { createHash } from "node:crypto";
import type { RequestHandler } from "express";
import { SIGNED_IN } from "../../../http/operations/sign-in.ts";
import { documentOf, Html, html, type Link, PAGE_POLICY } from "../../../http/pages/html.ts";
import { contentHandler } from "../../conventions/conditional.ts";

/** Joins a channel with the binding of the form, and shows each change as it arrives. */
const SCRIPT = `${SIGNED_IN}
const form = document.querySelector("form");
const [status, changes] = [document.querySelector("output"), document.querySelector("tbody")];
const { key } = form.dataset;
let socket = null;
const showCaller = () => {
  form.elements.token.placeholder = signedIn.token() ? "of " + signedIn.name() : "for the rights of a user";
};
showCaller();
signedIn.onChange(() => {
  showCaller();
  // A subscription goes on as the new caller.
  if (socket) form.requestSubmit();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  socket?.close();
  const { table, filter, ...given } = Object.fromEntries(new FormData(form));
  const token = given.token.trim() || signedIn.token();
  const [name, schema] = table.trim().split(".").reverse();
  const binding = { event: "*", schema: schema ?? "public", table: name, filter };
  const url = new URL("/realtime/v1/websocket", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.search = new URLSearchParams({ vsn: "2.0.0", apikey: key });
  const own = socket = new WebSocket(url);
  const send = (...message) => own.send(JSON.stringify(message));
  status.value = "connecting";
  own.onopen = () => {
    const config = { postgres_changes: [binding] };
    send("1", "1", "realtime:live", "phx_join", token ? { config, access_token: token } : { config });
    own.timer = setInterval(() => send(null, "2", "phoenix", "heartbeat", {}), 25000);
  };
  own.onclose = () => {
    clearInterval(own.timer);
    if (own === socket) status.value = "disconnected";
  };
  own.onmessage = ({ data }) => {
    const [, ref, , event, payload] = JSON.parse(data);
    if (event === "phx_reply" && ref === "1")
      status.value = payload.status === "ok" ? "subscribed: waiting for changes" : payload.response.reason;
    else if (event === "system" && payload.status === "error") status.value = payload.message;
    else if (event === "postgres_changes") show(payload.data);
  };
});
function show({ type, commit_timestamp, record, old_record }) {
  const row = document.createElement("tr");
  for (const text of [new Date(commit_timestamp).toLocaleTimeString(), type, JSON.stringify(record ?? old_record)]) {
    row.insertCell().textContent = text;
  }
  changes.prepend(row);
  while (changes.rows.length > 200) changes.deleteRow(-1);
}
`;

const SCRIPT_HASH = createHash("sha256").update(SCRIPT).digest("base64");

const CONTENT_SECURITY_POLICY = PAGE_POLICY.replace("script-src 'self'", `script-src 'sha256-${SCRIPT_HASH}'`);

type LiveOptions = {
  /** Public; null if no key is needed. */
  readonly anonKey: string | null;
  readonly links: readonly Link[];
};

/** `/docs/live`: the changes of a table as they are committed. */
export function livePage({ anonKey, links }: LiveOptions): RequestHandler {
  const main = html`<h1>Live changes</h1>
<p class="muted">The changes of a table as they are committed, with the rights of the anonymous role or of a user.</p>
<form data-key="${anonKey ?? ""}" class="row live">
<label>Table <input name="table" placeholder="posts" required></label>
<label>Filter <input name="filter" placeholder="status=eq.DRAFT"></label>
<label>Access token <input name="token" type="password" autocomplete="off" placeholder="for the rights of a user"></label>
<button>Subscribe</button>
</form>
<output class="notice">not connected</output>
<div class="scroll" tabindex="0"><table class="changes"><thead><tr><th scope="col">Time</th><th scope="col">Change</th><th scope="col">Row</th></tr></thead><tbody></tbody></table></div>
<script type="module">${new Html(SCRIPT)}</script>`;
  const text = documentOf({ title: "Live changes", path: "/docs/live", main }, links);
  return contentHandler({
    type: "text/html; charset=utf-8",
    text,
    headers: { "Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache" },
  });
}
