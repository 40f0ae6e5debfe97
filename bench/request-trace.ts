import { Session } from "node:inspector/promises";
import { fileURLToPath } from "node:url";
import pino from "pino";
import { configure } from "../app/configured.ts";
import { startService } from "../service/start.ts";

/**
 * Prints which files of the product a warm request passes, and how often it returns to one, as JSON:
 *
 *   node bench/request-trace.ts DATABASE_URL PATH [BODY]
 *
 * A breakpoint at the start of each function notes the call, with the functions that are running, and does not stop.
 */
type Call = { readonly file: string; readonly name: string; readonly line: number; readonly stack: string };

type RequestTrace = {
  readonly status: number;
  /** In the order in which the request enters them. */
  readonly files: readonly string[];
  /** Calls of a function that was not called before, in a file in which no function is running although one has been called. */
  readonly returns: readonly string[];
  /** The same calls, of any function. */
  readonly entries: number;
};

const ROOT = new URL("../", import.meta.url).href;
const REQUESTS_TO_WARM = 30;

const [databaseUrl = "", path = "", body] = process.argv.slice(2);
const settings = { DATABASE_URL: databaseUrl, JWT_SECRET: "a secret of this trace, long enough for HS256", PORT: "0" };
const environment = { ...settings, HOST: "127.0.0.1", SEED: "none", ADVISOR: "off", TASK_CONCURRENCY: "0" };
const { config, application } = await configure({ folder: "demo", environment });
const service = await startService(config, pino({ level: "silent" }), { application, defersGraphQL: true });
const headers = { apikey: service.tokens.issueKey("anon"), ...(body && { "Content-Type": "application/json" }) };
const request = { headers, ...(body && { method: "POST", body }) };
const send = async () => {
  const response = await fetch(service.url + path, request);
  await response.text();
  // The work after the response belongs to the request.
  await new Promise((resolve) => setTimeout(resolve, 100));
  return response.status;
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
calls.length = 0;
const status = await send();
const traced = calls.slice();
session.disconnect();
console.log(JSON.stringify({ status, ...traceOf(traced) } satisfies RequestTrace));
await service.stop();
process.exit();

function isOurs(url: string): boolean {
  return url.startsWith(ROOT) && !url.includes("/node_modules/") && url !== import.meta.url;
}

function fileOf(url: string): string {
  return fileURLToPath(url).slice(fileURLToPath(ROOT).length);
}

function traceOf(traced: readonly Call[]): Omit<RequestTrace, "status"> {
  const files = new Set<string>();
  const functions = new Set<string>();
  const returns: string[] = [];
  let entries = 0;
  let last = "";
  for (const { file, name, line, stack } of traced) {
    const running = stack.match(/file:\/\/[^:)]+/g)!.map(fileOf);
    // The first two are the breakpoint and the function itself.
    const isEntered = files.has(file) && file !== last && !running.slice(2).includes(file);
    const label = `${file} ${name || "(anonymous)"}:${line}`;
    if (isEntered) entries++;
    if (isEntered && !functions.has(label)) returns.push(label);
    functions.add(label);
    files.add(file);
    last = file;
  }
  return { files: [...files], returns, entries };
}
