import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { bytesOf, SERIAL } from "./http-messages.ts";
import type { LoadOptions, LoadResult } from "./load.ts";

const FILE = "/usr/bin/wrk";

/** Whether wrk, Debian's package of the same name, is installed. */
export const hasWrk = existsSync(FILE);

/** Whether wrk can apply this load: it sees neither bodies nor which 2xx or 3xx status it receives. */
export const fitsWrk = ({ requests, refused, status, isSlow }: Omit<LoadOptions, "address" | "seconds">): boolean =>
  hasWrk &&
  !isSlow &&
  refused.length === 0 &&
  status === undefined &&
  requests.every((each) => !each.isBackground && each.status === undefined && !JSON.stringify(each).includes(SERIAL));

/** Applies load with wrk, which uses a fifth of the CPU of our own tool. Throws after an unexpected response. */
export async function applyWrk(options: LoadOptions, signal?: AbortSignal): Promise<LoadResult> {
  const { address, connections, seconds } = options;
  const folder = mkdtempSync(join(tmpdir(), "bench-wrk-"));
  try {
    const script = join(folder, "requests.lua");
    writeFileSync(script, scriptOf(options));
    const args = [
      "-t1",
      `-c${connections}`,
      `-d${seconds}s`,
      "--timeout",
      "60s",
      "-s",
      script,
      new URL(address).origin,
    ];
    const { stdout } = await promisify(execFile)(FILE, args, { ...(signal && { signal }) });
    return resultIn(stdout, address);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Sends the requests in turn, and prints what was counted as one line of JSON. */
const scriptOf = ({ requests, address }: LoadOptions): string => `
local requests = {
${requests.map((each) => `  ${luaString(bytesOf(each, address))},`).join("\n")}
}
local at = 0

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"microseconds":%d,"p50":%d,"p99":%d,"status":%d,"lost":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.status, e.connect + e.read + e.write + e.timeout
  ))
end
`;

/** Every byte that is not plain text is escaped. */
const luaString = (bytes: Buffer): string =>
  `"${bytes.toString("latin1").replaceAll(/[^ !#-[\]-~]/g, (byte) => `\\${String(byte.charCodeAt(0)).padStart(3, "0")}`)}"`;

function resultIn(printed: string, address: string): LoadResult {
  const line = printed.split("\n").find((each) => each.startsWith("{"));
  if (line === undefined) throw new Error(`wrk printed no result: ${printed}`);
  const { requests, microseconds, p50, p99, status, lost } = JSON.parse(line);
  if (status + lost > 0) {
    throw new Error(`${status} of ${requests} responses of ${address} were errors, and ${lost} requests were lost`);
  }
  return { requests, requestsPerSecond: (requests / microseconds) * 1e6, p50: p50 / 1000, p99: p99 / 1000 };
}
