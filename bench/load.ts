import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import autocannon from "autocannon";

export type LoadOptions = {
  readonly url: string;
  readonly token: string;
  /** Sent in turn. */
  readonly bodies: readonly string[];
  readonly connections: number;
  readonly seconds: number;
};

export type LoadResult = {
  readonly requests: number;
  readonly requestsPerSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
};

/** What the worker reports. */
type Outcome = LoadResult & {
  /** What was not the answer one measures: a status other than 2xx, `errors` or null in the body, a lost connection. */
  readonly failures: number;
  /** The first answer that was not good. */
  readonly failure: string | null;
};

/**
 * Applies load from a process of its own, so that the tool's work is not in our numbers. Throws when an answer was not
 * good: such numbers would be worth nothing.
 */
export async function applyLoad(options: LoadOptions, signal?: AbortSignal): Promise<LoadResult> {
  const worker = fork(fileURLToPath(import.meta.url), { ...(signal && { signal }) });
  worker.send(options);
  const [answer] = await Promise.race([once(worker, "message"), once(worker, "exit").then(() => [null])]);
  if (answer === null) throw new Error("the load tool has ended without a result");
  const { failures, failure, ...result } = answer as Outcome;
  if (failures === 0) return result;
  throw new Error(`${failures} of ${result.requests} answers of ${options.url} were not good: ${failure}`);
}

async function generate({ url, token, bodies, connections, seconds }: LoadOptions): Promise<Outcome> {
  const times: number[] = [];
  let start = 0;
  let last = 0;
  let failure: string | null = null;
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const instance = autocannon(
      {
        url,
        connections,
        duration: seconds,
        sampleInt: 100,
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json",
          authorization: `Bearer ${token}`,
        },
        requests: bodies.map((body) => ({ body })),
        verifyBody: (body) => {
          if (isGood(String(body))) return true;
          failure ??= String(body).slice(0, 500);
          return false;
        },
      },
      (error, outcome) => (error ? reject(error) : resolve(outcome)),
    );
    start = performance.now();
    // Own times: autocannon's histogram knows whole milliseconds only.
    instance.on("response", (_client, _status, _bytes, milliseconds) => {
      times.push(milliseconds);
      last = performance.now();
    });
  });
  times.sort((a, b) => a - b);
  return {
    requests: times.length,
    requestsPerSecond: (times.length / (last - start)) * 1000,
    p50: times[Math.floor(times.length * 0.5)] ?? Number.NaN,
    p99: times[Math.floor(times.length * 0.99)] ?? Number.NaN,
    failures: result.non2xx + result.errors + result.mismatches + (times.length === 0 ? 1 : 0),
    failure,
  };
}

/** No operation of the bench answers null anywhere. */
const isGood = (body: string) => body.startsWith('{"data":') && !body.includes('"errors"') && !body.includes(":null");

if (import.meta.main) {
  process.once("message", async (options) => {
    process.send!(await generate(options as LoadOptions));
    process.disconnect();
  });
}
