import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ByteBudget, budgetLimits, type Holding, KINDS, Recipient } from "../../db/admission/byte-budget.ts";
import { NETWORKS_PER_SITE, siteOf } from "../../db/network.ts";

const MEBIBYTE = 1_048_576;
const UNSET = { clientMemory: "", clientMemoryPerAddress: undefined } as const;

/** A holder that remembers whether it has been ended. */
class Holder {
  isDestroyed = false;
  destroy(): void {
    this.isDestroyed = true;
  }
}

test.each([
  [128, 32],
  [256, 64],
  [1024, 64],
  [4096, 256],
])("with a heap of %i MiB, clients may hold %i MiB, and one network a quarter of it", (heap, total) => {
  expect(budgetLimits(UNSET, heap * MEBIBYTE)).toEqual({ total: total * MEBIBYTE, perAddress: (total * MEBIBYTE) / 4 });
});

test("settings replace the shares of the heap", () => {
  expect(budgetLimits({ ...UNSET, clientMemory: 400 })).toEqual({ total: 400, perAddress: 100 });
  expect(budgetLimits({ clientMemory: 0, clientMemoryPerAddress: 7 })).toEqual({ total: 0, perAddress: 7 });
});

describe("a network", () => {
  test("may hold its share and nothing more, until it returns something", () => {
    const budget = new ByteBudget({ total: 1000, perAddress: 100 });
    const bodies = budget.reserve("a", "bodies", 60)!;
    expect(budget.reserve("a", "subscriptions", 41)).toBeNull();
    expect([bodies.take(41), bodies.take(40), bodies.take(1)]).toEqual([false, true, false]);
    expect(budget.reserve("b", "bodies", 100)).not.toBeNull();
    expect(budget.kinds).toMatchObject({ bodies: 200, subscriptions: 0 });
    bodies.give(50);
    expect(budget.reserve("a", "subscriptions", 50)).not.toBeNull();
  });

  test("never holds more than is free, so that there is room for the next one", () => {
    const budget = new ByteBudget({ total: 1000, perAddress: 500 });
    for (const network of ["a", "b", "c", "d", "e", "f", "g", "h"]) {
      const holding = budget.hold(network, "bodies");
      while (holding.take(1));
    }
    expect(budget.reserve("i", "bodies", 1)).not.toBeNull();
    expect(budget.limitReached("j")).toBeNull();
  });

  test("loses its largest reader of messages when it sends beyond its share, and not another kind", () => {
    const budget = new ByteBudget({ total: 1_000_000, perAddress: 100_000 });
    const [slow, fast, download, other] = [new Holder(), new Holder(), new Holder(), new Holder()];
    const unread = budget.hold("a", "messages", slow);
    expect(unread.send(50_000)).toBe(true);
    budget.hold("a", "responses", download).add(60_000);
    budget.hold("b", "messages", other).add(70_000);
    expect(budget.hold("a", "messages", fast).send(10)).toBe(true);
    expect([slow, fast, download, other].map(({ isDestroyed }) => isDestroyed)).toEqual([true, false, false, false]);
    expect(budget.heldBy("a")).toBe(60_010);
    expect(budget.hold("b", "messages", new Holder()).send(70_000)).toBe(true);
  });

  test("ends the sender itself if it holds the most", () => {
    const budget = new ByteBudget({ total: 1_000_000, perAddress: 100_000 });
    const holder = new Holder();
    const unread = budget.hold("a", "messages", holder);
    expect([unread.send(90_000), unread.send(20_000), holder.isDestroyed]).toEqual([true, false, true]);
    expect([budget.total, budget.networks]).toEqual([0, 0]);
  });
});

describe("the networks of a site", () => {
  const network = (n: number) => `2001:db8:1:${n.toString(16)}`;

  test("together hold at most half, so that another network may hold its whole share", () => {
    const budget = new ByteBudget({ total: 1000, perAddress: 250 });
    for (let n = 1; n <= 50; n++) {
      const holding = budget.hold(network(n), "bodies");
      while (holding.take(1));
    }
    expect(budget.heldBy("2001:db8:1")).toBe(500);
    expect(budget.limitReached("2001:db8:1:ffff")).toBeNull();
    expect(budget.reserve("2001:db8:1:ffff", "bodies", 1)).toBeNull();
    expect(budget.reserve("203.0.113.7", "bodies", 250)).not.toBeNull();
    expect([budget.limitReached("2001:db8:1:ffff"), budget.limitReached("2001:db8:2:1")]).toEqual(["total", null]);
  });

  test("together hold at most a multiple of the share of a network", () => {
    const budget = new ByteBudget({ total: 0, perAddress: 10 });
    for (let n = 1; n <= NETWORKS_PER_SITE; n++) expect(budget.reserve(network(n), "bodies", 10)).not.toBeNull();
    expect(budget.reserve(network(0xffff), "bodies", 1)).toBeNull();
    expect([budget.limitReached(network(0xffff)), budget.limitReached("2001:db8:2:1")]).toEqual(["address", null]);
  });

  test("lose their largest reader when one sends beyond their share", () => {
    const budget = new ByteBudget({ total: 100_000, perAddress: 40_000 });
    const [slow, fast] = [new Holder(), new Holder()];
    budget.hold(network(1), "messages", slow).add(40_000);
    budget.hold(network(2), "messages", fast).add(10_000);
    expect(budget.hold(network(3), "messages").send(10)).toBe(true);
    expect([slow.isDestroyed, fast.isDestroyed]).toEqual([true, false]);
  });

  test("are shed together, before a network that holds more than each of them", () => {
    const budget = new ByteBudget({ total: 0, perAddress: 0 });
    const holders = [1, 2, 3].map(() => new Holder());
    for (const [n, holder] of holders.entries()) budget.hold(network(n), "messages", holder).add(10_000);
    budget.hold("203.0.113.7", "messages", new Holder()).add(20_000);
    expect(budget.shed()).toEqual({ network: "2001:db8:1", bytes: 30_000 });
    expect(holders.every(({ isDestroyed }) => isDestroyed)).toBe(true);
    expect([budget.total, budget.shed()?.network]).toEqual([20_000, "203.0.113.7"]);
  });
});

test("shedding ends all that the largest network holds, then that of the next one", () => {
  const budget = new ByteBudget({ total: 0, perAddress: 0 });
  const holders = [new Holder(), new Holder(), new Holder()];
  budget.hold("a", "messages", holders[0]).add(20_000);
  budget.hold("b", "subscriptions", holders[1]).add(30_000);
  budget.hold("b", "bodies", holders[2]).add(40_000);
  budget.hold("b", "bodies").add(1);
  const ended = () => holders.map(({ isDestroyed }) => isDestroyed);
  expect(budget.shed()).toEqual({ network: "b", bytes: 70_001 });
  expect(ended()).toEqual([false, true, true]);
  expect(budget.shed()).toEqual({ network: "a", bytes: 20_000 });
  expect(budget.shed()).toBeNull();
  expect(budget.total).toBe(1);
});

test("shedding ends a network of many small holdings, and none that holds little", () => {
  const budget = new ByteBudget({ total: 0, perAddress: 0 });
  const [quiet, ...many] = Array.from({ length: 101 }, () => new Holder());
  budget.hold("a", "messages", quiet).add(10_000);
  budget.hold("b", "messages", many[0]);
  for (const holder of many) budget.reserve("b", "subscriptions", 8192, holder);
  expect(budget.shed()).toEqual({ network: "b", bytes: 819_200 });
  expect(many.every(({ isDestroyed }) => isDestroyed)).toBe(true);
  expect(budget.shed()).toBeNull();
  expect(quiet!.isDestroyed).toBe(false);
});

/** What may happen to holdings; `holding` is an index into those that were opened. */
const step = fc.oneof(
  fc.record({
    act: fc.constantFrom("hold", "reserve", "recipient"),
    network: fc.constantFrom("a", "b", "2001:db8:1:1", "2001:db8:1:2", "2001:db8:2:1"),
    kind: fc.constantFrom(...KINDS),
    bytes: fc.nat(60_000),
    isEndable: fc.boolean(),
  }),
  fc.record({
    act: fc.constantFrom("take", "add", "send", "atLeast", "give", "close", "end"),
    holding: fc.nat(30),
    bytes: fc.nat(60_000),
  }),
  fc.record({ act: fc.constant("shed") }),
  fc.record({ act: fc.constant("limit"), total: fc.nat(300_000), perAddress: fc.nat(100_000) }),
);

test("the budget is the sum of what is held, and zero after any order of admissions, refusals, ends and errors", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const budget = new ByteBudget({ total: 200_000, perAddress: 80_000 });
      const holdings: Holding[] = [];
      for (const each of steps) {
        act(budget, holdings, each);
        expect(budget.total).toBe(holdings.reduce((sum, { bytes }) => sum + bytes, 0));
        expect(Object.values(budget.kinds).reduce((sum, bytes) => sum + bytes, 0)).toBe(budget.total);
        for (const site of ["2001:db8:1", "2001:db8:2"]) {
          const own = holdings.filter(({ network }) => siteOf(network) === site);
          expect(budget.heldBy(site)).toBe(own.reduce((sum, { bytes }) => sum + bytes, 0));
        }
      }
      for (const holding of holdings) holding.close();
      expect([budget.total, budget.networks, ...Object.values(budget.kinds)]).toEqual([0, 0, ...KINDS.map(() => 0)]);
    }),
  );
});

/** What a network of a site admits or returns. */
const stepOfSite = fc.record({ network: fc.nat(40), bytes: fc.integer({ min: -2000, max: 2000 }) });

test("a site takes from no other network what it may hold, in any order of admissions", () => {
  fc.assert(
    fc.property(fc.array(stepOfSite, { maxLength: 200 }), (steps) => {
      const budget = new ByteBudget({ total: 10_000, perAddress: 2500 });
      const holdings = Array.from({ length: 41 }, (_, n) => budget.hold(`2001:db8:1:${n.toString(16)}`, "bodies"));
      for (const { network, bytes } of steps) {
        const holding = holdings[network]!;
        holding.take(Math.max(bytes, -holding.bytes));
        const other = budget.reserve("203.0.113.7", "bodies", 2500);
        expect(other).not.toBeNull();
        other!.close();
      }
    }),
  );
});

type Step = {
  readonly act: string;
  readonly network?: string;
  readonly kind?: (typeof KINDS)[number];
  readonly bytes?: number;
  readonly isEndable?: boolean;
  readonly holding?: number;
  readonly total?: number;
  readonly perAddress?: number;
};

function act(budget: ByteBudget, holdings: Holding[], step: Step): void {
  const { act, network = "", kind = "bodies", bytes = 0, total = 0, perAddress = 0 } = step;
  const holder = step.isEndable ? new Holder() : null;
  if (act === "shed") budget.shed();
  else if (act === "limit") budget.limitTo({ total, perAddress });
  else if (act === "hold") holdings.push(budget.hold(network, kind, holder));
  else if (act === "recipient") holdings.push(new Recipient("client", network, { holder }).open(budget));
  else if (act === "reserve")
    holdings.push(...[budget.reserve(network, kind, bytes, holder)].filter((one) => one !== null));
  else onHolding(holdings[step.holding!], act as keyof typeof CHANGES, bytes);
}

const CHANGES = {
  take: (holding: Holding, bytes: number) => holding.take(bytes),
  add: (holding: Holding, bytes: number) => holding.add(bytes),
  send: (holding: Holding, bytes: number) => holding.send(bytes),
  atLeast: (holding: Holding, bytes: number) => holding.atLeast(bytes),
  give: (holding: Holding, bytes: number) => holding.give(Math.min(bytes, holding.bytes)),
  close: (holding: Holding) => holding.close(),
  end: (holding: Holding) => holding.end(),
};

const onHolding = (holding: Holding | undefined, act: keyof typeof CHANGES, bytes: number) =>
  holding && CHANGES[act](holding, bytes);
