import { createServer } from "node:http";
import { setImmediate } from "node:timers";

/**
 * Runs in the process of a service (`node --import`), and measures the turns of its event loop in CPU time, which does not depend on
 * what else the machine does:
 *
 *   GET /begin
 *   GET /end    { "longest": 2.5, "isBusy": false }, in the time of a fixed loop that runs before and after them; whether pieces of work wait
 * It writes its URL to stdout.
 */
let isMeasuring = false;
let longest = 0;
let before = 0;
let unit = 0;

/** Microseconds of CPU that this thread has used. */
function cpuTime(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** The CPU time of a loop like the work of a service: objects, text and buffers. The least of five times. */
function calibrate(): number {
  const times = Array.from({ length: 5 }, () => {
    const start = cpuTime();
    for (let n = 0; n < 1500; n++) {
      const rows = Array.from({ length: 10 }, (_, i) => ({ id: i, title: `Title ${n} ${i}`, tags: ["a", "b"] }));
      Buffer.from(JSON.stringify(JSON.parse(JSON.stringify(rows))));
    }
    return cpuTime() - start;
  });
  return Math.min(...times);
}

// It is compiled before it is measured.
calibrate();

function takeTurn(): void {
  const now = cpuTime();
  longest = Math.max(longest, now - before);
  before = now;
  if (isMeasuring) setImmediate(takeTurn);
}

function begin(): void {
  unit = calibrate();
  isMeasuring = true;
  longest = 0;
  before = cpuTime();
  setImmediate(takeTurn);
}

function end(): number {
  isMeasuring = false;
  return longest / Math.min(unit, calibrate());
}

const server = createServer(async (request, response) => {
  if (request.url === "/begin") begin();
  // The module of the service, not one that is loaded before it.
  const { pieces } = await import("../../db/admission/pieces.ts");
  response.end(JSON.stringify({ longest: request.url === "/end" ? end() : 0, isBusy: pieces.isBusy }));
});
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as { port: number };
  process.stdout.write(`${JSON.stringify({ msg: "probe", url: `http://127.0.0.1:${port}` })}\n`);
});
server.unref();
