import { expect, test } from "vitest";
import { RequestQueue } from "../../http/limits/request-queue.ts";

/** Handles requests such as `ada 1`, each of which takes 3 of the 5 milliseconds of a turn. */
class Handler {
  /** What happens, in order: `ada 1`, or `ada 2 refused`. */
  readonly events: string[] = [];
  /** Milliseconds. */
  now = 0;
  readonly #queue: RequestQueue<string>;

  constructor(time = 0) {
    this.#queue = new RequestQueue<string>({
      time,
      now: () => this.now,
      clientOf: (request) => request.split(" ")[0]!,
      handle: (request) => {
        this.now += 3;
        this.events.push(request);
      },
      refuse: (request) => this.events.push(`${request} refused`),
    });
  }

  add(...requests: string[]): void {
    for (const request of requests) this.#queue.add(request);
  }
}

const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));
const requests = (client: string, first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, i) => `${client} ${first + i}`);

test("a request is handled at once while the turn is not over", () => {
  const handler = new Handler();
  handler.add("ada 1", "ada 2", "ada 3");
  expect(handler.events).toEqual(["ada 1", "ada 2"]);
});

test("the others are handled in later turns, between which other work is done", async () => {
  const handler = new Handler();
  handler.add(...requests("ada", 1, 5));
  const other = async () => {
    for (let i = 1; i <= 2; i++) {
      await turnOfLoop();
      handler.events.push(`other work ${i}`);
    }
  };
  await other();
  await expect.poll(() => handler.events.filter((event) => event.startsWith("ada"))).toEqual(requests("ada", 1, 5));
  expect(handler.events.indexOf("other work 1")).toBeLessThan(handler.events.indexOf("ada 5"));
});

test("all work that a request has at once is done before the next request", async () => {
  const steps: string[] = [];
  let now = 0;
  const queue = new RequestQueue<string>({
    time: 0,
    now: () => now,
    clientOf: () => "ada",
    handle: async (request) => {
      now += request === "first" ? 5 : 1;
      for (let i = 1; i <= 3; i++) {
        steps.push(`${request}, step ${i}`);
        await null;
      }
    },
    refuse: () => {},
  });
  for (const request of ["first", "second", "third"]) queue.add(request);
  const expected = ["first", "second", "third"].flatMap((request) => [1, 2, 3].map((i) => `${request}, step ${i}`));
  await expect.poll(() => steps).toEqual(expected);
});

test("clients take turns", async () => {
  const handler = new Handler();
  handler.add("eve 1", "eve 2", "ada 1", "ada 2", "ada 3", "bob 1");
  await expect.poll(() => handler.events.slice(2)).toEqual(["ada 1", "bob 1", "ada 2", "ada 3"]);
});

test("after a burst of a second, no more may wait than are handled in the time, and the newest of the client with the most is refused", async () => {
  const handler = new Handler(200);
  handler.add(...requests("ada", 1, 210), "bob 1");
  handler.now += 999;
  handler.add("ada 211");
  expect(handler.events).toEqual(["ada 1", "ada 2"]);
  handler.now += 1;
  handler.add("ada 212", "bob 2");
  // Two were handled in the second before, so that only the 200 that always may wait do.
  expect(handler.events.slice(2)).toEqual(
    requests("ada", 201, 212)
      .reverse()
      .map((request) => `${request} refused`),
  );
  await expect.poll(() => handler.events.filter((event) => !event.includes("refused"))).toHaveLength(202);
  expect(handler.events).toContain("bob 2");
});

test("without a limit, all wait", async () => {
  const handler = new Handler(0);
  handler.add(...requests("ada", 1, 100));
  handler.now += 2000;
  handler.add(...requests("ada", 101, 200));
  await expect.poll(() => handler.events).toEqual(requests("ada", 1, 200));
});
