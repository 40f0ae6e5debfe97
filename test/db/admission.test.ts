import { describe, expect, test } from "vitest";
import { Admission, SHORT_RUN, Slot } from "../../db/admission/admission.ts";
import { type BudgetLimits, ByteBudget, Recipient } from "../../db/admission/byte-budget.ts";

type Options = Partial<BudgetLimits> & {
  slots?: number;
  short?: number;
  share?: number;
  timeout?: number;
  queue?: number;
};

/** Transactions by name, in the order in which they were admitted. A name is a client and a number: `ada 1`. */
class Pool {
  readonly admitted: string[] = [];
  readonly budget: ByteBudget;
  /** Milliseconds. */
  now = 0;
  readonly #admission: Admission;
  readonly #recipients = new Map<string, Recipient | null>();
  readonly #slots = new Map<string, Slot>();

  constructor(options: Options = {}) {
    const { slots = 2, short = slots, share = 50, timeout = 60_000, queue = 0, total = 0, perAddress = 0 } = options;
    this.budget = new ByteBudget({ total, perAddress });
    this.#admission = new Admission({
      slots,
      short,
      share,
      timeout,
      queue,
      budget: this.budget,
      now: () => this.now,
    });
  }

  /** Starts a transaction for each name; the recipient is at the address of its client, unless one is given. */
  enter(...names: string[]): Promise<unknown>[] {
    return names.map((name) => {
      const [client] = name.split(" ") as [string];
      const recipient = client === "internal" ? null : new Recipient(client, `address of ${client}`);
      const entered = this.enterFor(name, recipient);
      // Those that still wait at the end of a test are refused later.
      entered.catch(() => {});
      return entered;
    });
  }

  /** A name that begins with `quick` after its client is a quick read, `quickest` a lighter one: `ada quick 1`. */
  async enterFor(name: string, recipient: Recipient | null): Promise<void> {
    this.#recipients.set(name, recipient);
    const slot = this.#admission.enter(
      recipient,
      name.includes(" quick ") ? 1 / 4 : name.includes(" quickest ") ? 1 / 16 : null,
    );
    this.#slots.set(name, slot instanceof Slot ? slot : await slot);
    this.admitted.push(name);
  }

  leave(name: string): void {
    this.#admission.leave(this.slot(name));
  }

  slot(name: string): Slot {
    return this.#slots.get(name)!;
  }

  recipient(name: string): Recipient {
    return this.#recipients.get(name)!;
  }

  get waiting(): number {
    return this.#admission.waiting;
  }

  get waitingForSlot(): number {
    return this.#admission.waitingForSlot;
  }

  refuses(client: string): boolean {
    return this.#admission.refuses(client);
  }
}

const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));
const refused = (code: string, status: number) => expect.objectContaining({ code, status });

describe("connections", () => {
  test("a client holds at most its share of the connections, and another client overtakes it", async () => {
    const pool = new Pool({ slots: 4 });
    pool.enter("ada 1", "ada 2", "ada 3", "bob 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "ada 2", "bob 1"]);
    pool.leave("bob 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "ada 2", "bob 1"]);
    pool.leave("ada 2");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "ada 2", "bob 1", "ada 3"]);
  });

  test.each([
    [1, 50, 1],
    [3, 50, 1],
    [10, 50, 5],
    [10, 1, 1],
    [10, 100, 10],
  ])("of %i connections, %i percent are %i", async (slots, share, count) => {
    const pool = new Pool({ slots, share });
    pool.enter(...Array.from({ length: 12 }, (_, i) => `ada ${i}`));
    await turnOfLoop();
    expect(pool.admitted).toHaveLength(count);
  });

  test("the transactions of one client run in order, and clients take turns", async () => {
    const pool = new Pool({ slots: 1, share: 100 });
    pool.enter("ada 1", "ada 2", "ada 3", "bob 1", "eve 1", "bob 2");
    await turnOfLoop();
    for (let i = 0; i < 5; i++) {
      pool.leave(pool.admitted.at(-1)!);
      await turnOfLoop();
    }
    expect(pool.admitted).toEqual(["ada 1", "bob 1", "eve 1", "ada 2", "bob 2", "ada 3"]);
  });

  test("the client whose transactions have held connections for the least time is next", async () => {
    const pool = new Pool({ slots: 1, share: 100 });
    pool.enter("eve 1", "eve 2", "ada 1", "ada 2", "ada 3", "ada 4");
    await turnOfLoop();
    for (let i = 0; i < 5; i++) {
      const running = pool.admitted.at(-1)!;
      pool.now += running.startsWith("eve") ? 30 : 10;
      pool.leave(running);
      await turnOfLoop();
    }
    expect(pool.admitted).toEqual(["eve 1", "ada 1", "ada 2", "ada 3", "eve 2", "ada 4"]);
  });

  test("waits for a slot only if the share of the client and the memory of its network let it start", async () => {
    const pool = new Pool({ slots: 2, share: 50, perAddress: 100 });
    pool.enter("ada 1", "bob 1", "ada 2");
    await turnOfLoop();
    expect([pool.waiting, pool.waitingForSlot]).toEqual([1, 0]);
    pool.enter("eve 1", "eve 2", "internal 1", "dan 1");
    await turnOfLoop();
    expect([pool.waiting, pool.waitingForSlot]).toEqual([5, 3]);
    const unread = pool.budget.hold("address of dan", "responses");
    unread.add(100);
    expect(pool.waitingForSlot).toBe(2);
    unread.close();
  });

  test("a transaction that no client waits for has no share", async () => {
    const pool = new Pool({ slots: 3, share: 10 });
    pool.enter("internal 1", "internal 2", "internal 3");
    await turnOfLoop();
    expect(pool.admitted).toHaveLength(3);
  });

  test("a transaction that gets no connection in time is refused, and those behind it run", async () => {
    const pool = new Pool({ slots: 1, timeout: 1 });
    const [, late] = pool.enter("ada 1", "bob 1");
    await expect(late).rejects.toEqual(refused("INTERNAL_ERROR", 504));
    expect(pool.waiting).toBe(0);
    pool.leave("ada 1");
    await pool.enter("eve 1")[0];
    expect(pool.admitted).toEqual(["ada 1", "eve 1"]);
  });
});

describe("of four connections, short transactions use two", () => {
  const LIMITS = { slots: 4, short: 2, share: 100 };

  test("and another one begins when one has ended", async () => {
    const pool = new Pool(LIMITS);
    pool.enter("ada 1", "bob 1", "ada 2", "eve 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "bob 1"]);
    pool.leave("bob 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "bob 1", "ada 2"]);
  });

  test("and another one begins when one has run for 16 milliseconds", async () => {
    const pool = new Pool(LIMITS);
    pool.enter("ada 1", "bob 1");
    pool.now = 10;
    pool.enter("ada 2");
    expect(pool.waiting).toBe(1);
    pool.now = SHORT_RUN;
    await expect.poll(() => pool.admitted).toEqual(["ada 1", "bob 1", "ada 2"]);
    pool.enter("bob 2", "eve 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "bob 1", "ada 2", "bob 2"]);
  });

  test("but all four are used while transactions take longer", async () => {
    const pool = new Pool(LIMITS);
    for (const name of ["ada 1", "bob 1", "ada 2", "eve 1", "bob 2"]) {
      pool.enter(name);
      pool.now += SHORT_RUN;
    }
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "bob 1", "ada 2", "eve 1"]);
    pool.leave("ada 1");
    await turnOfLoop();
    expect(pool.admitted.at(-1)).toBe("bob 2");
  });

  test("and a client holds at most its share of the connections", async () => {
    const pool = new Pool({ ...LIMITS, share: 25 });
    pool.enter("ada 1", "ada 2", "bob 1", "eve 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "bob 1"]);
    pool.now = SHORT_RUN;
    await expect.poll(() => pool.admitted).toEqual(["ada 1", "bob 1", "eve 1"]);
    pool.leave("ada 1");
    await turnOfLoop();
    expect(pool.admitted.at(-1)).toBe("ada 2");
  });
});

describe("quick reads", () => {
  test("share a connection as long as all of them are quick together, and up to eight of them", async () => {
    const pool = new Pool({ slots: 3, share: 100 });
    const names = (kind: string, count: number) => Array.from({ length: count }, (_, i) => `ada ${kind} ${i}`);
    pool.enter(...names("quickest", 9), ...names("quick", 4));
    await turnOfLoop();
    const sizes = Map.groupBy(pool.admitted, (name) => pool.slot(name))
      .values()
      .map(({ length }) => length);
    expect(sizes.toArray()).toEqual([8, 4, 1]);
  });

  test("share a connection in fours, also those of different clients", async () => {
    const pool = new Pool({ slots: 3, share: 100 });
    const quick = ["ada quick 1", "bob quick 1", "ada quick 2", "eve quick 1"];
    pool.enter(...quick.slice(0, 3), "ada 3", quick[3]!, "eve quick 2", "dan 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual([...quick.slice(0, 3), "ada 3", quick[3], "eve quick 2"]);
    expect(new Set(quick.map((name) => pool.slot(name))).size).toBe(1);
    expect(new Set(pool.admitted.map((name) => pool.slot(name))).size).toBe(3);
  });

  test("count as one connection of the client that was first", async () => {
    const pool = new Pool({ slots: 4 });
    pool.enter("ada quick 1", "bob quick 1", "bob quick 2", "bob quick 3", "ada 2", "ada 3", "bob 4", "bob 5", "bob 6");
    await turnOfLoop();
    expect(pool.admitted.slice(4)).toEqual(["ada 2", "bob 4", "bob 5"]);
    pool.leave("ada quick 1");
    await turnOfLoop();
    expect(pool.admitted.slice(7)).toEqual(["ada 3"]);
  });

  test("that wait are admitted four at a time, and clients take turns", async () => {
    const pool = new Pool({ slots: 1, share: 100 });
    pool.enter("dan 1", ...[1, 2, 3, 4].map((i) => `ada quick ${i}`), "bob 1", "eve quick 1", "bob quick 2");
    pool.leave("dan 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["dan 1", "ada quick 1", "eve quick 1", "ada quick 2", "ada quick 3"]);
    pool.leave("ada quick 1");
    await turnOfLoop();
    expect(pool.admitted.slice(5)).toEqual(["bob 1"]);
    pool.leave("bob 1");
    await turnOfLoop();
    expect(pool.admitted.slice(6)).toEqual(["ada quick 4", "bob quick 2"]);
  });

  test("do not join once the others have been sent", async () => {
    const pool = new Pool({ slots: 1 });
    pool.enter("ada quick 1");
    pool.slot("ada quick 1").places = 0;
    pool.enter("bob quick 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada quick 1"]);
  });

  test("of a client that has earlier transactions in the queue wait in order", async () => {
    const pool = new Pool({ slots: 1 });
    pool.enter("bob quick 1", "ada 1", "ada quick 2");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["bob quick 1"]);
  });

  test("do not join if their address has too many unread bytes", async () => {
    const pool = new Pool({ slots: 4, perAddress: 100 });
    pool.enter("ada 1", "bob quick 1");
    pool.recipient("ada 1").add(100);
    pool.enter("ada quick 2", "eve quick 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "bob quick 1", "eve quick 1"]);
  });
});

describe("a queue of two for each connection", () => {
  const LIMITS = { slots: 1, share: 100, queue: 2 };

  test("takes a burst of a second, and then refuses the newest at once", async () => {
    const pool = new Pool(LIMITS);
    const entered = pool.enter("ada 1", "ada 2", "ada 3", "ada 4", "ada 5");
    expect(pool.waiting).toBe(4);
    pool.now = 999;
    pool.enter("ada 6");
    expect(pool.waiting).toBe(5);
    pool.now = 1000;
    const [newest] = pool.enter("ada 7");
    expect(pool.waiting).toBe(2);
    await expect(newest).rejects.toEqual(refused("RATE_LIMITED", 503));
    await expect(entered[3]).rejects.toEqual(refused("RATE_LIMITED", 503));
    for (const name of ["ada 1", "ada 2"]) {
      pool.leave(name);
      await turnOfLoop();
    }
    expect(pool.admitted).toEqual(["ada 1", "ada 2", "ada 3"]);
  });

  test("refuses the transactions of the client with the most, and not those of others", async () => {
    const pool = new Pool(LIMITS);
    pool.enter("ada 1", "ada 2", "ada 3", "ada 4");
    pool.now = 1000;
    const [bob] = pool.enter("bob 1");
    pool.leave("ada 1");
    await bob;
    expect(pool.admitted).toEqual(["ada 1", "bob 1"]);
  });

  test("takes more if they wait less than 200 milliseconds", async () => {
    const pool = new Pool(LIMITS);
    pool.enter(...Array.from({ length: 40 }, (_, i) => `ada ${i}`));
    for (let i = 0; i < 30; i++) {
      pool.leave(`ada ${i}`);
      await turnOfLoop();
    }
    pool.now = 1000;
    // 30 were done in a second, so 6 wait 200 milliseconds.
    pool.enter("bob 1");
    expect(pool.waiting).toBe(6);
  });

  test("says that it would refuse a client before the client enters", () => {
    const pool = new Pool(LIMITS);
    pool.enter("ada 1", "ada 2", "ada 3", "ada 4");
    expect(pool.refuses("ada")).toBe(false);
    pool.now = 1000;
    expect([pool.refuses("ada"), pool.refuses("bob")]).toEqual([true, false]);
    // What the burst has left beyond the limit does not keep waiting.
    expect(pool.waiting).toBe(2);
  });

  test("takes a burst again when half of it is empty", async () => {
    const pool = new Pool({ ...LIMITS, queue: 4 });
    pool.enter("ada 1", "ada 2", "ada 3", "ada 4", "ada 5", "ada 6");
    for (let i = 1; i <= 4; i++) {
      pool.leave(`ada ${i}`);
      await turnOfLoop();
    }
    pool.now = 1000;
    pool.enter("bob 1", "bob 2", "bob 3", "bob 4");
    expect(pool.waiting).toBe(5);
  });

  test("does not refuse work that no client waits for", async () => {
    const pool = new Pool(LIMITS);
    pool.enter("internal 1", "internal 2", "internal 3", "internal 4");
    pool.now = 1000;
    pool.enter("internal 5");
    expect(pool.waiting).toBe(4);
  });
});

describe("unread results", () => {
  const LIMITS = { slots: 4, share: 100, perAddress: 100, total: 250 };

  test("an address at its limit waits until bytes have been taken, and others do not", async () => {
    const pool = new Pool(LIMITS);
    pool.enter("ada 1", "ada 2");
    pool.recipient("ada 1").add(99);
    pool.enter("ada 3");
    pool.recipient("ada 2").add(1);
    pool.enter("ada 4", "bob 1");
    await turnOfLoop();
    expect(pool.admitted).toEqual(["ada 1", "ada 2", "ada 3", "bob 1"]);
    pool.leave("bob 1");
    await turnOfLoop();
    expect(pool.waiting).toBe(1);
    pool.recipient("ada 2").close();
    await turnOfLoop();
    expect(pool.admitted.at(-1)).toBe("ada 4");
  });

  test("at the limit of all addresses, every client waits", async () => {
    const pool = new Pool(LIMITS);
    pool.enter("ada 1", "bob 1", "eve 1");
    for (const name of ["ada 1", "bob 1", "eve 1"]) pool.recipient(name).add(90);
    pool.enter("dan 1");
    await turnOfLoop();
    expect(pool.waiting).toBe(1);
    pool.recipient("eve 1").close();
    await turnOfLoop();
    expect(pool.admitted.at(-1)).toBe("dan 1");
  });

  test("the next transaction of a request does not wait for its own results", async () => {
    const pool = new Pool({ ...LIMITS, total: 0 });
    pool.enter("ada 1");
    const recipient = pool.recipient("ada 1");
    recipient.add(99);
    pool.leave("ada 1");
    await pool.enterFor("ada 1 again", recipient);
    recipient.add(1);
    await expect(pool.enterFor("ada 1 once more", recipient)).rejects.toEqual(refused("VALIDATION_ERROR", 400));
  });

  test.each([
    ["perAddress", "your IP address has too many unread responses"],
    ["total", "the service holds too many unread responses"],
  ])("a transaction that waits too long for the limit %s is refused with the reason", async (limit, message) => {
    const pool = new Pool({ slots: 4, timeout: 1, [limit]: 10 });
    pool.enter("ada 1");
    pool.recipient("ada 1").add(10);
    const [late] = pool.enter("ada 2");
    await expect(late).rejects.toEqual(refused("RATE_LIMITED", 503));
    await expect(late).rejects.toThrow(message);
  });

  test("results of a client that has disconnected are not counted", async () => {
    const pool = new Pool(LIMITS);
    pool.enter("ada 1");
    const recipient = pool.recipient("ada 1");
    recipient.add(50);
    recipient.close();
    recipient.add(1000);
    recipient.close();
    await pool.enterFor("ada 2", recipient);
    recipient.add(1000);
    expect([pool.budget.total, pool.budget.networks]).toEqual([0, 0]);
  });
});
