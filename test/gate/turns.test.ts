import { describe, expect, test } from "vitest";
import { Turns } from "../../gate/limits/turns.ts";

/** Works such as `ada 1`, each of which takes 3 milliseconds: more than a turn. */
class Process {
  /** What happens, in order: `ada 1`, or `ada 2 refused`. */
  readonly events: string[] = [];
  /** The same with the pauses, in which is sent what requests send together. */
  readonly steps: string[] = [];
  /** Milliseconds. */
  now = 0;
  utilization = 0;
  readonly #turns: Turns;

  constructor(time = 0) {
    this.#turns = new Turns({
      time,
      running: 2,
      utilization: () => this.utilization,
      now: () => this.now,
    });
    this.#turns.database = { waiting: 0, sendReads: () => this.steps.push("pause") };
  }

  request(name: string, milliseconds = 3): void {
    this.#turns.add({
      client: () => clientOf(name),
      run: () => this.#work(name, milliseconds),
      refuse: () => this.events.push(`${name} refused`),
    });
  }

  requests(...names: string[]): void {
    for (const name of names) this.request(name);
  }

  /** `done` resolves when the message has been handled. */
  message(name: string, { milliseconds = 3, bytes = 1, done }: MessageOptions = {}): void {
    const run = () => {
      this.#work(name, milliseconds);
      return done;
    };
    this.#turns.add({ client: () => clientOf(name), run, message: bytes });
  }

  #work(name: string, milliseconds: number): void {
    this.now += milliseconds;
    this.events.push(name);
    this.steps.push(name);
  }
}

type MessageOptions = { milliseconds?: number; bytes?: number; done?: Promise<void> };

const clientOf = (name: string) => name.split(" ")[0]!;
const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));
const named = (client: string, first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, i) => `${client} ${first + i}`);

test("a request is handled at once while the turn is not over", () => {
  const process = new Process();
  process.request("ada 1");
  expect(process.events).toEqual(["ada 1"]);
});

test("the others are handled in later turns, between which other work is done", async () => {
  const process = new Process();
  process.requests(...named("ada", 1, 5));
  expect(process.events).toEqual(["ada 1"]);
  for (let i = 1; i <= 2; i++) {
    await turnOfLoop();
    process.events.push(`other work ${i}`);
  }
  await expect.poll(() => process.events.filter((event) => event.startsWith("ada"))).toEqual(named("ada", 1, 5));
  expect(process.events.indexOf("other work 1")).toBeLessThan(process.events.indexOf("ada 5"));
});

test("all work that a request has at once is done before the next request", async () => {
  const steps: string[] = [];
  const turns = new Turns({ time: 0, running: 2, now: () => 0 });
  for (const name of ["first", "second", "third"])
    turns.add({
      client: () => "ada",
      run: async () => {
        for (let i = 1; i <= 3; i++) {
          steps.push(`${name}, step ${i}`);
          await null;
        }
      },
    });
  const expected = ["first", "second", "third"].flatMap((name) => [1, 2, 3].map((i) => `${name}, step ${i}`));
  await expect.poll(() => steps).toEqual(expected);
});

test("there is a pause before a message and at the end of a turn", async () => {
  const process = new Process();
  process.request("ada 1", 0);
  process.message("eve 1", { milliseconds: 0 });
  process.request("ada 2", 0);
  process.request("ada 3", 0);
  await expect.poll(() => process.events).toContain("eve 1");
  expect(process.steps).toEqual(["ada 1", "pause", "eve 1", "ada 2", "ada 3", "pause"]);
});

test("clients that use the same time take turns", async () => {
  const process = new Process();
  process.requests("eve 1", "ada 1", "ada 2", "ada 3", "bob 1", "bob 2");
  await expect.poll(() => process.events).toEqual(["eve 1", "ada 1", "bob 1", "ada 2", "bob 2", "ada 3"]);
});

test("the client that has used the least time is next, whatever waits for the others", async () => {
  const process = new Process();
  process.request("zoe 1");
  for (const name of named("eve", 1, 3)) process.request(name, 30);
  for (const name of named("mia", 1, 3)) process.request(name, 30);
  await expect.poll(() => process.events).toContain("mia 1");
  const before = process.events.length;
  process.requests(...named("ada", 1, 5));
  await expect.poll(() => process.events).toHaveLength(12);
  // Five requests of ada take as long as half of one of the others.
  expect(process.events.slice(before, before + 6).filter((event) => event.startsWith("ada"))).toEqual(
    named("ada", 1, 5),
  );
});

test("the networks of one site together have the turns of sixteen", async () => {
  const process = new Process();
  process.request("zoe 1");
  const networks = Array.from({ length: 64 }, (_, i) => `2001:db8:1:${i.toString(16)} 1`);
  process.requests(...networks, ...named("ada", 1, 4));
  await expect.poll(() => process.events).toHaveLength(69);
  // Each request of ada waits for sixteen of them, and not for all.
  const positions = named("ada", 1, 4).map((name) => process.events.indexOf(name));
  expect(Math.max(...positions)).toBeLessThan(68);
});

test("after a burst of a second, no more may wait than are handled in the time, and the newest of the client with the most is refused", async () => {
  const process = new Process(200);
  process.requests(...named("ada", 1, 209), "bob 1");
  process.now += 999;
  process.request("ada 210");
  expect(process.events).toEqual(["ada 1"]);
  process.now += 1;
  process.requests("ada 211", "bob 2");
  // One was handled in the second before, so that only the 200 that always may wait do.
  expect(process.events.slice(1)).toEqual(
    named("ada", 200, 211)
      .reverse()
      .map((request) => `${request} refused`),
  );
  await expect.poll(() => process.events.filter((event) => !event.includes("refused"))).toHaveLength(201);
  expect(process.events).toContain("bob 2");
});

test("without a limit, all wait", async () => {
  const process = new Process(0);
  process.requests(...named("ada", 1, 100));
  process.now += 2000;
  process.requests(...named("ada", 101, 200));
  await expect.poll(() => process.events).toEqual(named("ada", 1, 200));
});

describe("messages of sockets", () => {
  test("are never refused", async () => {
    const process = new Process(1);
    for (const name of named("ada", 1, 300)) process.message(name);
    process.now += 2000;
    process.message("ada 301");
    await expect.poll(() => process.events).toEqual(named("ada", 1, 301));
  });

  test("wait while two of them are being handled and requests come, but never for long", async () => {
    const process = new Process();
    const first = Promise.withResolvers<void>();
    process.request("bob 1");
    process.message("eve 1", { milliseconds: 0, done: first.promise });
    process.message("eve 2", { milliseconds: 0, done: new Promise(() => {}) });
    process.message("eve 3", { milliseconds: 0 });
    process.message("eve 4", { milliseconds: 0 });
    await expect.poll(() => process.events).toEqual(["bob 1", "eve 1", "eve 2"]);
    for (let i = 0; i < 5; i++) await turnOfLoop();
    expect(process.events).not.toContain("eve 3");
    first.resolve();
    await expect.poll(() => process.events).toContain("eve 3");
    process.now += 20;
    await expect.poll(() => process.events).toContain("eve 4");
  });

  test("are handled for a quarter of the time, two at a time, while requests come", async () => {
    const process = new Process();
    const first = Promise.withResolvers<void>();
    process.request("bob 1");
    process.message("eve 1", { milliseconds: 0, done: first.promise });
    await expect.poll(() => process.events).toContain("eve 1");
    // Twenty of them were saved. The others are half of 160.
    process.now += 100;
    first.resolve();
    await turnOfLoop();
    process.message("eve 2", { milliseconds: 0 });
    process.now += 50;
    for (let i = 0; i < 5; i++) await turnOfLoop();
    expect(process.events).not.toContain("eve 2");
    process.now += 10;
    await expect.poll(() => process.events).toContain("eve 2");
  });

  test("wait while the process is busy, requests come, and messages have used their quarter of the time", async () => {
    const process = new Process();
    process.utilization = 0.9;
    process.request("bob 1");
    process.message("eve 1", { milliseconds: 30 });
    process.message("eve 2", { milliseconds: 0 });
    await expect.poll(() => process.events).toEqual(["bob 1", "eve 1"]);
    for (let i = 0; i < 5; i++) await turnOfLoop();
    expect(process.events).not.toContain("eve 2");
    process.request("bob 2");
    await expect.poll(() => process.events).toContain("bob 2");
    process.now += 60;
    await expect.poll(() => process.events).toContain("eve 2");
  });

  test("of 4 kB wait for a hundred times what one has taken beyond two milliseconds, and shorter ones overtake them", async () => {
    const process = new Process();
    process.request("bob 1");
    process.message("eve 1", { milliseconds: 5, bytes: 4096 });
    await expect.poll(() => process.events).toEqual(["bob 1", "eve 1"]);
    process.message("eve 2", { milliseconds: 0, bytes: 4096 });
    process.message("eve 3", { milliseconds: 0, bytes: 4095 });
    await expect.poll(() => process.events).toEqual(["bob 1", "eve 1", "eve 3"]);
    process.now += 270;
    process.request("bob 2");
    for (let i = 0; i < 5; i++) await turnOfLoop();
    expect(process.events).not.toContain("eve 2");
    process.now += 60;
    await expect.poll(() => process.events).toContain("eve 2");
  });

  test("are not counted as long if no request waited for them", async () => {
    const process = new Process();
    process.message("eve 1", { milliseconds: 50, bytes: 4096 });
    process.request("bob 1");
    process.message("eve 2", { bytes: 4096 });
    await expect.poll(() => process.events).toEqual(["eve 1", "bob 1", "eve 2"]);
  });

  test("that wait do not delay a request", async () => {
    const process = new Process();
    process.utilization = 0.9;
    process.request("bob 1");
    process.message("eve 1", { milliseconds: 30 });
    process.message("eve 2", { milliseconds: 0 });
    await expect.poll(() => process.events).toEqual(["bob 1", "eve 1"]);
    for (let i = 0; i < 5; i++) await turnOfLoop();
    process.request("bob 2", 0);
    expect(process.events).toEqual(["bob 1", "eve 1", "bob 2"]);
    process.now += 60;
    await expect.poll(() => process.events).toContain("eve 2");
  });

  test("have a turn of half a millisecond while requests come", async () => {
    const process = new Process();
    process.request("bob 1", 0);
    for (const name of named("eve", 1, 6)) process.message(name, { milliseconds: 0.25 });
    await turnOfLoop();
    expect(process.events.length).toBeLessThan(7);
    await expect.poll(() => process.events).toEqual(["bob 1", ...named("eve", 1, 6)]);
  });

  test("do not wait if no request came within a second", async () => {
    const process = new Process();
    for (const name of named("eve", 1, 10)) process.message(name, { done: new Promise(() => {}) });
    await expect.poll(() => process.events).toEqual(named("eve", 1, 10));
  });
});
