import { randomUUID } from "node:crypto";
import { Presence } from "@supabase/phoenix";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ByteBudget } from "../../db/admission/byte-budget.ts";
import { MAX_META_BYTES, MAX_TOPIC_BYTES, type PresenceChange, Presences } from "../../realtime/presence.ts";
import type { Member } from "../../realtime/topic.ts";
import { Topics } from "../../realtime/topics.ts";
import { samples } from "../support/samples.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const none = () => {};
const SOCKET = { network: "127.0.0.1" };
const MESSAGE_LIMITS = { wsMaxMessageBytes: 1_048_576, jsonMaxDepth: 100 };
const NO_LIMITS = { total: 0, perAddress: 0 };
type View = ReturnType<typeof Presence.syncState>;

/** The processes of a service with one topic. Messages between them arrive in order, and late. */
class Processes {
  readonly running: Process[] = [];
  #count = 0;
  readonly #ended: number[] = [];

  start(): void {
    const number = ++this.#count;
    const process = new Process(number, (change) =>
      this.#share(number, (other) => other.receive(change, String(number))),
    );
    // A process that has started asks who is present.
    for (const other of this.running) other.inbox.push(() => this.#tell(other, process));
    this.running.push(process);
  }

  /** The connection of a process was lost, with all messages that had not arrived: it and the others tell each other everything. */
  reconnect(process: Process): void {
    process.inbox.splice(0);
    for (const ended of this.#ended) process.presences.forget(String(ended), true);
    for (const other of this.running) {
      if (other === process) continue;
      other.inbox.push(() => this.#tell(other, process));
      this.#tell(process, other);
    }
  }

  #tell({ presences, number }: Process, { inbox, presences: others }: Process): void {
    const from = String(number);
    inbox.push(() => others.doubt(from));
    for (const change of presences.own) inbox.push(() => others.receive(change, from));
    inbox.push(() => others.forget(from, false));
  }

  end(process: Process): void {
    this.running.splice(this.running.indexOf(process), 1);
    this.#ended.push(process.number);
    this.#share(process.number, (other) => other.forget(String(process.number), true));
  }

  #share(from: number, act: (presences: Presences) => void): void {
    for (const other of this.running) if (other.number !== from) other.inbox.push(() => act(other.presences));
  }
}

class Process {
  readonly number: number;
  readonly presences: Presences;
  /** Messages that have not arrived. */
  readonly inbox: (() => void)[] = [];
  readonly members: { presenceKey: string; mood: string | null; socket: { network: string } }[] = [];
  readonly views: View[] = [];
  readonly budget = new ByteBudget(NO_LIMITS);
  audience = 1;
  #refs = 0;

  constructor(number: number, share: (change: PresenceChange) => void) {
    this.number = number;
    this.presences = new Presences({
      budget: this.budget,
      newRef: () => `${number}.${++this.#refs}`,
      audience: () => this.audience,
      send: (diff) => {
        for (const [i, view] of this.views.entries())
          this.views[i] = Presence.syncDiff(view, JSON.parse(diff), none, none);
      },
      share: (change) => share(JSON.parse(JSON.stringify(change))),
    });
  }

  /** A member that begins to receive presences. */
  view(): void {
    this.views.push(Presence.syncState({}, JSON.parse(this.presences.state()), none, none));
  }

  deliver(count = this.inbox.length): void {
    for (const arrive of this.inbox.splice(0, count)) arrive();
  }
}

/** `["ada: calm", "ada: glad", "bob: sad"]` */
const textOf = (view: View) =>
  Object.getOwnPropertyNames(view)
    .flatMap((key) => (view[key] as any).metas.map(({ mood }: { mood: string }) => `${key}: ${mood}`))
    .sort();

const KEYS = ["ada", "bob", "__proto__"];

type Step = {
  readonly act:
    | "start"
    | "end"
    | "reconnect"
    | "join"
    | "track"
    | "untrack"
    | "leave"
    | "view"
    | "deliver"
    | "wait"
    | "audience";
  readonly n: number;
  readonly m: number;
};

const STEP: fc.Arbitrary<Step> = fc.record({
  act: fc.constantFrom<Step["act"][]>(
    ...(["start", "end", "reconnect", "join", "join", "track", "track", "track", "untrack", "leave"] as const),
    ...(["view", "deliver", "deliver", "wait", "audience"] as const),
  ),
  n: fc.nat(1000),
  m: fc.nat(1000),
});

function run(processes: Processes, { act, n, m }: Step): void {
  const process = processes.running[n % processes.running.length];
  if (act === "start" || !process) {
    processes.start();
    return;
  }
  const at = m % Math.max(1, process.members.length);
  const member = process.members[at];
  if (act === "end") processes.end(process);
  else if (act === "reconnect") processes.reconnect(process);
  else if (act === "join") process.members.push({ presenceKey: KEYS[m % KEYS.length]!, mood: null, socket: SOCKET });
  else if (act === "view") process.view();
  else if (act === "deliver") process.deliver(m % 5);
  else if (act === "wait") vi.advanceTimersByTime(m);
  // With so many members, one presence is sent at a time.
  else if (act === "audience") process.audience = [0, 1, 60_000_000][m % 3]!;
  else if (member && act === "track") {
    member.mood = `${n} ${m}`;
    process.presences.track(member, { mood: member.mood });
  } else if (member) {
    member.mood = null;
    process.presences.untrack(member);
    if (act === "leave") process.members.splice(at, 1);
  }
}

test("after any order of events in any process, what a member has received is who is present", () => {
  fc.assert(
    fc.property(fc.array(STEP, { maxLength: 80, size: "max" }), (steps) => {
      const processes = new Processes();
      for (const step of steps) {
        run(processes, step);
        // At any time, the members of a process know the same.
        for (const { audience, views, presences } of processes.running) {
          if (audience === 0) views.splice(0);
          for (const view of views) expect(textOf(view)).toEqual(textOf(JSON.parse(presences.state())));
        }
      }
      while (processes.running.some(({ inbox }) => inbox.length > 0))
        for (const process of processes.running) process.deliver();
      vi.runAllTimers();
      const all = processes.running.flatMap(({ members }) => members);
      const present = all.filter(({ mood }) => mood !== null).map(({ presenceKey, mood }) => `${presenceKey}: ${mood}`);
      for (const process of processes.running) {
        process.view();
        for (const view of process.views) expect(textOf(view)).toEqual(present.toSorted());
        expect(process.presences.size).toBe(present.length);
      }
      for (const { members, presences } of processes.running) for (const member of members) presences.untrack(member);
      for (const process of processes.running) {
        process.deliver();
        expect([process.budget.total, process.budget.networks]).toEqual([0, 0]);
      }
    }),
    { numRuns: samples(300) },
  );
});

/** A member of a topic that records what it receives. */
function memberOf(presenceKey: string, version: 1 | 2 = 2) {
  const received: Buffer[] = [];
  const rights = { broadcast: { read: true, write: true }, presence: { read: true, write: true } };
  const socket = { ...SOCKET, version, send: (message: Buffer) => void received.push(message) };
  const member: Member = { presenceKey, receivesPresence: true, rights, socket };
  return { member, received };
}

test("a message about presences is one buffer for all members with the same version", () => {
  const topic = new Topics({ peers: null, budget: new ByteBudget(NO_LIMITS), limits: MESSAGE_LIMITS }).open(
    "realtime:room",
    false,
  );
  const members = Array.from({ length: 300 }, (_, i) => memberOf(`member ${i}`, i % 3 === 0 ? 1 : 2));
  for (const { member } of members) {
    topic.add(member);
    topic.sendPresences(member);
  }
  expect(new Set(members.flatMap(({ received }) => received)).size).toBe(2);
  for (const { member } of members) topic.presences.track(member, { mood: "calm" });
  vi.runAllTimers();
  for (const { received } of members) expect(received).toHaveLength(2);
  expect(new Set(members.flatMap(({ received }) => received)).size).toBe(4);
  for (const { member } of members) topic.sendPresences(member);
  expect(new Set(members.flatMap(({ received }) => received)).size).toBe(6);
});

test("the messages about the presences of a topic grow with its members, however many come", async () => {
  const messagesOf = async (count: number): Promise<number> => {
    const topic = new Topics({ peers: null, budget: new ByteBudget(NO_LIMITS), limits: MESSAGE_LIMITS }).open(
      "realtime:room",
      false,
    );
    const members = Array.from({ length: count }, (_, i) => memberOf(`member ${i}`));
    for (const { member } of members) {
      topic.add(member);
      topic.presences.track(member, { mood: "calm" });
      // A member comes each millisecond. Long deliveries pause in between.
      await vi.advanceTimersByTimeAsync(1);
    }
    await vi.runAllTimersAsync();
    const present = members.map(({ received }) => {
      const joined = received.map(
        (message) => Object.keys(JSON.parse(String(message.subarray(message.indexOf("["))))[4].joins).length,
      );
      return joined.reduce((sum, each) => sum + each, 0);
    });
    expect(present[0]).toBe(count);
    return members.reduce((sum, { received }) => sum + received.length, 0);
  };
  const counts = [250, 500, 1000];
  // At most ten for each millisecond, and the last ones.
  for (const count of counts) expect(await messagesOf(count)).toBeLessThanOrEqual(count * 10 + 2 * count);
});

test("the messages about the presences of a topic have few bytes at once, and few each second", () => {
  const budget = new ByteBudget(NO_LIMITS);
  const audience = 3000;
  const sent: [at: number, bytes: number][] = [];
  const send = (diff: string) => void sent.push([performance.now(), audience * diff.length]);
  const presences = new Presences({ budget, newRef: randomUUID, audience: () => audience, send, share() {} });
  const members = Array.from({ length: 500 }, (_, i) => ({ presenceKey: `member ${i}`, socket: SOCKET }));
  for (const member of members) presences.track(member, { text: "x".repeat(1000) });
  vi.runAllTimers();
  expect(sent.reduce((sum, [, bytes]) => sum + bytes, 0)).toBeGreaterThan(1_500_000_000);
  for (const [i, [at, bytes]] of sent.entries()) {
    expect(bytes).toBeLessThan(20_000_000);
    const after = sent[i + 1]?.[0];
    // 100 MB and 10,000 messages each second.
    if (after !== undefined) expect(after - at).toBeGreaterThanOrEqual(Math.max(bytes / 100_000, audience / 10) - 1);
  }
});

test("a presence may have as many bytes as its limit, and a topic too", () => {
  const budget = new ByteBudget(NO_LIMITS);
  const presences = new Presences({ budget, newRef: () => "0", audience: () => 0, send() {}, share() {} });
  const overhead = JSON.stringify({ mood: "", phx_ref: "0" }).length;
  const ofBytes = (bytes: number) => ({ mood: "x".repeat(bytes - overhead) });
  const ada = { presenceKey: "", socket: SOCKET };
  presences.track(ada, ofBytes(MAX_META_BYTES));
  expect(() => presences.track(ada, ofBytes(MAX_META_BYTES + 1))).toThrow("a presence has at most 4096 bytes");
  expect(() => presences.track(ada, { mood: "é".repeat(MAX_META_BYTES / 2) })).toThrow("a presence has at most");
  const others = Array.from({ length: MAX_TOPIC_BYTES / MAX_META_BYTES - 1 }, () => ({
    presenceKey: "",
    socket: SOCKET,
  }));
  for (const other of others) presences.track(other, ofBytes(MAX_META_BYTES));
  const last = { presenceKey: "", socket: SOCKET };
  expect(() => presences.track(last, {})).toThrow("the presences of a topic have at most 1048576 bytes together");
  expect(presences.size).toBe(256);
  // One that changes replaces itself.
  presences.track(ada, { mood: "calm" });
  presences.track(last, {});
  expect(presences.size).toBe(257);
  for (const member of [ada, last, ...others]) presences.untrack(member);
  expect(presences.size).toBe(0);
  for (const member of [ada, ...others]) presences.track(member, ofBytes(MAX_META_BYTES));
});

test("presences count for the network of the client, and those of one whose share is used up are refused", () => {
  const budget = new ByteBudget({ total: 100_000, perAddress: 10_000 });
  const presences = new Presences({ budget, newRef: randomUUID, audience: () => 0, send() {}, share() {} });
  const membersAt = (network: string) => Array.from({ length: 10 }, () => ({ presenceKey: "k", socket: { network } }));
  const [members, others] = [membersAt("203.0.113.7"), membersAt("203.0.113.8").slice(5)];
  const refused = members.filter((member) => {
    try {
      presences.track(member, { text: "x".repeat(500) });
      return false;
    } catch (error) {
      expect((error as Error).message).toBe(
        "the clients of this network make the service hold too much: try again later",
      );
      return true;
    }
  });
  expect(refused.length).toBeGreaterThan(0);
  expect(presences.size).toBe(members.length - refused.length);
  expect(budget.kinds.presences).toBe(budget.heldBy("203.0.113.7"));
  for (const other of others) presences.track(other, {});
  // One that becomes smaller is accepted, and larger ones are refused without losing the one before.
  presences.track(members[0]!, {});
  expect(() => presences.track(members[1]!, { text: "x".repeat(2000) })).toThrow("try again later");
  expect(presences.size).toBe(members.length - refused.length + others.length);
  for (const member of [...members, ...others]) presences.untrack(member);
  expect([budget.total, budget.networks]).toEqual([0, 0]);
});
