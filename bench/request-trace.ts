import { Session } from "node:inspector/promises";
import { fileURLToPath } from "node:url";
import pino from "pino";
import { startService } from "../service/start.ts";
import { configure } from "../test/support/config.ts";
import type { Road, Trace, TracedFile } from "./roads.ts";

/**
 * Prints which files of the product a warm request passes, as a `Trace` in JSON:
 *
 *   node bench/request-trace.ts DATABASE_URL ROAD
 *
 * A breakpoint at the start of each function notes the call, with the functions that are running, and does not stop.
 */
type Call = { readonly file: string; readonly name: string; readonly line: number; readonly stack: string };

const ROOT = new URL("../", import.meta.url).href;
const REQUESTS_TO_WARM = 30;
const REQUESTS_TO_TRACE = 10;

const [databaseUrl = "", json = ""] = process.argv.slice(2);
const { as, method, path, body }: Road = JSON.parse(json);
const settings = { DATABASE_URL: databaseUrl, JWT_SECRET: "a secret of this trace, long enough for HS256", PORT: "0" };
const environment = { ...settings, HOST: "127.0.0.1", SEED: "demo", ADVISOR: "off", TASK_CONCURRENCY: "0" };
const { config, application } = await configure({ folder: "demo", environment });
const service = await startService(config, pino({ level: "silent" }), { application, defersGraphQL: true });
const { tokens } = service;
const ada = { id: "1", name: "Ada Lovelace", role: "authenticated", permissions: [] };
const credential =
  as === "anyone"
    ? { apikey: tokens.issueKey("anon") }
    : { Authorization: `Bearer ${tokens.issuePair(ada).accessToken}` };
const headers = { ...credential, ...(body !== null && { "Content-Type": "application/json" }) };
const request = { method, headers, ...(body !== null && { body: JSON.stringify(body) }) };
const send = async () => {
  const response = await fetch(service.url + path, request);
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  // The work after the response belongs to the request.
  await new Promise((resolve) => setTimeout(resolve, 100));
};
for (let i = 0; i < REQUESTS_TO_WARM; i++) await send();

const session = new Session();
session.connect();
await session.post("Debugger.enable");
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
await send();
const { result } = await session.post("Profiler.takePreciseCoverage");
await session.post("Profiler.stopPreciseCoverage");

const calls: Call[] = [];
Object.assign(globalThis, { noteCall: (call: Call) => calls.push(call) });
Error.stackTraceLimit = 200;
for (const { scriptId, url, functions } of result.filter(({ url }) => isOurs(url))) {
  const { scriptSource } = await session.post("Debugger.getScriptSource", { scriptId });
  const placeOf = (offset: number) => {
    const lines = scriptSource.slice(0, offset).split("\n");
    return { scriptId, lineNumber: lines.length - 1, columnNumber: lines.at(-1)!.length };
  };
  for (const { functionName, ranges } of functions.filter(({ ranges }) => ranges[0]!.count > 0)) {
    const { startOffset, endOffset } = ranges[0]!;
    const range = { start: placeOf(startOffset), end: placeOf(endOffset), restrictToFunction: true };
    const { locations } = await session.post("Debugger.getPossibleBreakpoints", range);
    if (locations.length === 0) continue;
    const called = JSON.stringify({ file: fileOf(url), name: functionName, line: range.start.lineNumber + 1 });
    const condition = `noteCall({ ...${called}, stack: new Error().stack }), false`;
    const { lineNumber, columnNumber } = locations[0]!;
    await session.post("Debugger.setBreakpoint", { location: { scriptId, lineNumber, columnNumber }, condition });
  }
}
await send();
const traces: Trace[] = [];
for (let i = 0; i < REQUESTS_TO_TRACE; i++) {
  calls.length = 0;
  await send();
  traces.push(traceOf(calls));
}
session.disconnect();
console.log(JSON.stringify(inAll(traces)));
await service.stop();
process.exit();

function isOurs(url: string): boolean {
  return url.startsWith(ROOT) && !url.includes("/node_modules/") && url !== import.meta.url;
}

function fileOf(url: string): string {
  return fileURLToPath(url).slice(fileURLToPath(ROOT).length);
}

function traceOf(traced: readonly Call[]): Trace {
  const files = new Map<string, Set<string>>();
  const returns: string[] = [];
  let last = "";
  for (const { file, name, line, stack } of traced) {
    const running = (stack.match(/file:\/\/[^:)]+/g) ?? []).map(fileOf);
    const functions = files.get(file);
    // The first two are the breakpoint and the function itself.
    const isReturn = functions && file !== last && !running.slice(2).includes(file);
    const label = `${name || "(anonymous)"}:${line}`;
    if (isReturn && !functions.has(label)) returns.push(`${file} ${label}`);
    files.set(file, (functions ?? new Set()).add(label));
    last = file;
  }
  return { files: [...files].map(([file, labels]) => ({ file, functions: namesIn(labels) })), returns };
}

function namesIn(labels: ReadonlySet<string>): string[] {
  return [...new Set([...labels].map((label) => label.split(":")[0]!))].filter((name) => /^#?\w+$/.test(name));
}

/** What timers do meanwhile is not in all of them. */
function inAll([first, ...others]: readonly Trace[]): Trace {
  const isInAll = ({ file }: TracedFile) => others.every(({ files }) => files.some((each) => each.file === file));
  const isReturn = (place: string) => others.every(({ returns }) => returns.includes(place));
  return { files: first!.files.filter(isInAll), returns: first!.returns.filter(isReturn) };
}
