import { createHash } from "node:crypto";
import type { RequestHandler } from "express";
import { SIGNED_IN } from "../../../http/operations/sign-in.ts";
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

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color-scheme: light dark; }
form { display: flex; flex-wrap: wrap; gap: 1rem; align-items: end; }
label { display: grid; } input, button { font: inherit; padding: .3rem .6rem; }
output { display: block; margin: 1rem 0; } table { width: 100%; border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #8886; }
td:last-child { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
`;

const hashOf = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `script-src ${hashOf(SCRIPT)}`,
  `style-src ${hashOf(STYLE)}`,
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** `/docs/live`: the changes of a table as they are committed. `anonKey` is public; null if no key is needed. */
export function livePage(anonKey: string | null): RequestHandler {
  const text = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Live changes</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<h1>Live changes</h1>
<form data-key="${anonKey ?? ""}">
<label>Table <input name="table" placeholder="posts" required></label>
<label>Filter <input name="filter" placeholder="status=eq.DRAFT"></label>
<label>Access token <input name="token" type="password" autocomplete="off" placeholder="for the rights of a user"></label>
<button>Subscribe</button>
</form>
<output>not connected</output>
<table><thead><tr><th>Time</th><th>Change</th><th>Row</th></tr></thead><tbody></tbody></table>
<script type="module">${SCRIPT}</script>
</body>
</html>
`;
  return contentHandler({
    type: "text/html; charset=utf-8",
    text,
    headers: { "Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache" },
  });
}
