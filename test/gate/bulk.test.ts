import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { Bulk } from "../../gate/limits/bulk.ts";

const PART = 65_536;
/** All that may be read at once: 256 parts. */
const SAVED = 16_777_216;

/** Clients that have sent long bodies, all of which has arrived. Notes the network of each part that is read. */
function openBodies(bulk: Bulk, networks: readonly string[], bytes = PART): string[] {
  const parts: string[] = [];
  for (const network of networks) {
    const read = () => {
      parts.push(network);
      bulk.next(network, bytes, read);
    };
    bulk.next(network, bytes, read);
  }
  return parts;
}

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `192.0.2.${i}`);

test("of a hundred long bodies, four parts are read in a turn of the event loop", async () => {
  const parts = openBodies(new Bulk({ now: () => 0 }), numbered(100));
  const inTurns: number[] = [];
  for (let i = 0; i < 10; i++) {
    const before = parts.length;
    await turn();
    inTurns.push(parts.length - before);
  }
  expect(Math.max(...inTurns)).toBe(4);
});

test("first those of the network that has sent the least", async () => {
  const bulk = new Bulk({ now: () => 0 });
  const parts = openBodies(bulk, ["198.51.100.1", ...Array.from({ length: 9 }, () => "192.0.2.1")]);
  while (parts.length < 40) await turn();
  const ofOne = parts.filter((network) => network === "198.51.100.1").length;
  // Both have had the same part, although one of them has nine bodies.
  expect(ofOne).toBeGreaterThan(15);
});

test("and when the bytes of a second are used up, none until time has passed", async () => {
  let now = 0;
  const parts = openBodies(new Bulk({ now: () => now }), numbered(2), SAVED / 2);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(parts).toEqual([]);
  now += 100;
  await expect.poll(() => parts.length, { interval: 5 }).toBeGreaterThan(0);
});
