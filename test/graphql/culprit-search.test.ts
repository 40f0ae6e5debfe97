import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Attempt, buildWithoutCulprits, type Culprits } from "../../graphql/schema/culprit-search.ts";

const OBJECTS = Array.from({ length: 100 }, (_, i) => `object ${i}`);
const none: Culprits = new Map();

/** A build of `OBJECTS` that fails with the first of `faulty`, and names those in `conflicting` itself. */
function builder(faulty: readonly number[], conflicting: readonly number[] = [], parts: readonly number[] = []) {
  let attempts = 0;
  const attempt = async (leftOut: ReadonlySet<string>): Promise<Attempt<string[]>> => {
    attempts++;
    const built = OBJECTS.filter((object) => !leftOut.has(object));
    const culprits = new Map(
      conflicting
        .map((i) => OBJECTS[i]!)
        .flatMap((each) => (built.includes(each) ? [[each, new Error("conflict")]] : [])),
    );
    const isAtFault = (each: string) => built.includes(each) && !leftOut.has(`tag of ${each}`);
    const fault = faulty.map((i) => OBJECTS[i]!).find(isAtFault);
    return fault ? { error: new Error(fault), culprits } : { built, culprits };
  };
  const partsOf = (object: string) =>
    named(...parts).includes(object) ? [`note of ${object}`, `tag of ${object}`] : [];
  return {
    search: (known = none) => buildWithoutCulprits({ attempt, objects: () => OBJECTS, partsOf, known }),
    attempts: () => attempts,
  };
}
const named = (...numbers: readonly number[]) => numbers.map((i) => OBJECTS[i]!);

describe("a build that fails because of some objects", () => {
  test("is repeated without exactly these, whichever they are", () =>
    fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.nat(99), { maxLength: 3 }),
        fc.uniqueArray(fc.nat(99), { maxLength: 5 }),
        async (faulty, conflicting) => {
          const { search } = builder(faulty, conflicting);
          const { built, culprits, newer } = await search();
          const expected = new Set(named(...faulty, ...conflicting));
          expect([...culprits.keys()].toSorted()).toEqual([...expected].toSorted());
          expect(built).toEqual(OBJECTS.filter((object) => !expected.has(object)));
          expect(newer).toEqual([]);
        },
      ),
      { seed: 20_261_121, numRuns: 200 },
    ));

  test.each([
    ["the newest is found with one more attempt", [99], 3],
    ["any other with a number of attempts that grows with the logarithm", [40], 15],
  ])("%s", async (_what, faulty, most) => {
    const { search, attempts } = builder(faulty);
    await search();
    expect(attempts()).toBeLessThanOrEqual(most);
  });

  test("is repeated without the objects of the previous search first, and those that were fixed are served", async () => {
    const before = await builder([10, 50, 90]).search();
    const { search, attempts } = builder([10, 90]);
    const { culprits } = await search(before.culprits);
    expect([...culprits.keys()].toSorted()).toEqual(named(10, 90));
    expect(attempts()).toBe(5);
  });

  test("is repeated without the part of an object that is at fault, and with the object", async () => {
    const { search } = builder([10, 50], [], [50, 60]);
    const { built, culprits } = await search();
    expect([...culprits.keys()].toSorted()).toEqual(["object 10", "tag of object 50"]);
    expect(built).toContain("object 50");
    expect([...(await search(culprits)).culprits.keys()].toSorted()).toEqual(["object 10", "tag of object 50"]);
  });

  test("ends after a limited number of attempts without the objects that are newer than the last one found", async () => {
    const { search, attempts } = builder(OBJECTS.map((_, i) => i).filter((i) => i % 2 === 1));
    const { built, newer, culprits } = await search();
    expect(attempts()).toBeLessThanOrEqual(42);
    expect(built[0]).toBe("object 0");
    expect(built.length + newer.length + culprits.size).toBe(100);
  });

  test("rejects with its error if no object is the cause", async () => {
    const attempt = async () => ({ error: new Error("the connection was lost"), culprits: none });
    const search = buildWithoutCulprits({ attempt, objects: () => OBJECTS, partsOf: () => [], known: none });
    await expect(search).rejects.toThrow("the connection was lost");
  });
});
