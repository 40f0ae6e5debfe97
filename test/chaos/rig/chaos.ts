import { setTimeout as sleep } from "node:timers/promises";
import { keepLogs, type Rig } from "../../rig/rig.ts";
import { until } from "../../support/until.ts";
import { ChannelSubscriber } from "../channel-subscriber.ts";
import { countOutOfOrder, duplicatesOf, lostOf } from "../received.ts";
import { SUBSCRIPTIONS, Subscriber } from "../subscriber.ts";
import { Writers } from "../writers.ts";
import { type Context, type Disturbance, randomOf } from "./disturbances.ts";
import { GreedyUser, type Load, openReadWriting, repeat, signIn } from "./load.ts";
import { Member } from "./member.ts";
import type { DisturbanceReport, RigChaosReport } from "./report.ts";
import { headersOf, KEY, Requests } from "./requests.ts";

export type RigChaosOptions = {
  readonly disturbances: readonly Disturbance[];
  readonly seed: number;
  /** The least and the most milliseconds for which a disturbance lasts. */
  readonly lasting?: readonly [number, number];
  /** Without them, only what does not depend on the speed of the machine is judged. */
  readonly limits?: Limits;
  onBegin?(name: string, number: number): void;
  onEnd?(report: DisturbanceReport): void;
};

/** In milliseconds. */
export type Limits = {
  /** Within which each request has a response, or its connection ends. */
  readonly response: number;
  /** Within which all instances refuse the token of a session that has ended. */
  readonly revocation: number;
  /** For which a rate limit may be doubled. */
  readonly doubled: number;
  /** Within which everybody has everything, after a disturbance. */
  readonly recovery: number;
};

export const LIMITS: Limits = { response: 30_000, revocation: 10_000, doubled: 10_000, recovery: 60_000 };
/** They only end what hangs. */
const SAFETY_NETS: Limits = { response: 300_000, revocation: 300_000, doubled: Infinity, recovery: 300_000 };

const WRITERS = 3;
const EACH = 2;
const MEMBERS = 3;
/** Rows that are written before a disturbance, and after it. */
const ROWS = 10;

/** The users are without an account to sign in with: their tokens are made here. */
const TABLE = `
  insert into public.users (id, name, email) overriding system value
    select n, 'User ' || n, 'user' || n || '@example.com' from generate_series(10, 2000) as n;
  insert into auth_private.accounts (user_id, name, password_hash) select id, name, '$argon2id$' from public.users where id >= 10;
  create table public.events (id int primary key);
  alter table public.events enable row level security;
  create policy "everyone" on public.events for select using (id > 0);
  create policy "users write" on public.events for insert to authenticated with check (id > 0);
  grant select on public.events to anon;
  grant select, insert on public.events to authenticated;`;

/** Disturbs a rig under reads, writes, subscriptions, channels and sign-ins, and judges what they get. Keeps the logs of what is wrong. */
export async function runRigChaos(rig: Rig, options: RigChaosOptions): Promise<RigChaosReport> {
  const report = await run(rig, options).catch(async (error: Error) => {
    throw new Error(`${error.message}; logs in ${await keepLogs(rig)}`, { cause: error });
  });
  return report.violations.length === 0 ? report : { ...report, logs: await keepLogs(rig) };
}

async function run(rig: Rig, options: RigChaosOptions): Promise<RigChaosReport> {
  await using stack = new AsyncDisposableStack();
  const load = await RigLoad.start(rig, options.limits ?? SAFETY_NETS);
  stack.use(load);
  const random = randomOf(options.seed);
  const [least, most] = options.lasting ?? [300, 4000];
  const context: Context = {
    rig,
    hold: () => sleep(least + random() * (most - least)),
    choose: (among) => among[Math.floor(random() * among.length)]!,
    cutSubscribers: () => load.cut(),
  };
  const reports: DisturbanceReport[] = [];
  for (const [at, disturbance] of options.disturbances.entries()) {
    await load.moreRows();
    options.onBegin?.(disturbance.name, at + 1);
    const report = await load.judge(disturbance.name, () => disturbance.run(context));
    reports.push(report);
    options.onEnd?.(report);
  }
  // Before the load is stopped.
  return await load.finish(reports);
}

class RigLoad implements AsyncDisposable {
  readonly #rig: Rig;
  readonly #limits: Limits;
  readonly #violations: string[] = [];
  readonly #report = (violation: string) => void this.#violations.push(violation);
  readonly #requests: Requests;
  readonly #acknowledged = new Set<number>();
  readonly #subscribers: readonly { readonly name: string; readonly subscriber: Subscriber | ChannelSubscriber }[];
  readonly #members: readonly Member[];
  /** They begin when all subscribers do. */
  #writers: Writers | null = null;
  readonly #greedy: GreedyUser;
  readonly #signingIn: Load;
  #signIns = 0;
  /** What was reported as lost. */
  readonly #missed = new Set<string>();

  static async start(rig: Rig, limits: Limits): Promise<RigLoad> {
    await rig.servers.primary.query(TABLE);
    for (const { url } of rig.instances)
      await until(
        async () => (await fetch(`${url}/rest/v1/events?limit=0`)).ok && (await hasGraphQL(url)),
        () => `${url} serves the table`,
      );
    const load = new RigLoad(rig, limits);
    await load.#begin();
    return load;
  }

  private constructor(rig: Rig, limits: Limits) {
    this.#rig = rig;
    this.#limits = limits;
    const { url } = rig;
    this.#requests = new Requests(url, limits.response, this.#report);
    let reader = 500;
    const read = () => this.#readAll(headersOf(400));
    const each = Array.from({ length: EACH }, (_, at) => at + 1);
    const streams = (["table", "graphql"] as const).flatMap((kind) =>
      each.map((number) => {
        const subscription = { ...SUBSCRIPTIONS[kind](url), headers: headersOf(reader++), pause: 200, read };
        return { name: `${kind} ${number}`, subscriber: new Subscriber(subscription) };
      }),
    );
    const channels = each.map((number) => ({
      name: `channel ${number}`,
      subscriber: new ChannelSubscriber(url, KEY, "events", read),
    }));
    this.#subscribers = [...streams, ...channels];
    this.#members = Array.from(
      { length: MEMBERS },
      (_, at) => new Member(url, `member ${at + 1}`, 50 + at, this.#report),
    );
    this.#greedy = new GreedyUser(this.#requests);
    this.#signingIn = repeat(async () => {
      if (await signIn(this.#requests, limits.revocation, this.#report)) this.#signIns++;
    }, 1000);
  }

  async #begin(): Promise<void> {
    const waiting = () => [
      ...this.#subscribers.filter(({ subscriber }) => !subscriber.isReady).map(({ name }) => name),
      ...(this.#greedy.isLimited ? [] : ["the greedy user"]),
      ...(this.#signIns > 0 ? [] : ["the sign-ins"]),
    ];
    const why = () => `waiting for ${waiting()}; ${this.#violations.slice(0, 10).join("; ")}`;
    await until(() => waiting().length === 0, why);
    const open = () => openReadWriting(this.#requests, this.#acknowledged, this.#report);
    this.#writers = new Writers({ open, count: WRITERS, pause: 200 });
    await this.moreRows();
    await this.#hasRecovered();
  }

  cut(): void {
    for (const { subscriber } of this.#subscribers) subscriber.cut();
  }

  moreRows(): Promise<void> {
    const enough = this.#written + ROWS;
    return this.#waitFor(
      () => this.#written >= enough,
      () => "writes succeed",
    );
  }

  async judge(name: string, run: () => Promise<void>): Promise<DisturbanceReport> {
    const [known, gaps, answered] = [this.#violations.length, this.#gaps, this.#requests.answered];
    this.#requests.refused = new Map();
    this.#requests.longest = 0;
    const start = performance.now();
    await run();
    const repaired = performance.now();
    await this.#rig.servers.areFollowing();
    await this.moreRows();
    await this.#hasRecovered();
    return {
      ...{ name, lasted: repaired - start, recovered: performance.now() - repaired },
      ...{ refused: this.#requests.refused, longest: this.#requests.longest },
      answered: this.#requests.answered - answered,
      gaps: this.#gaps - gaps,
      violations: this.#violations.slice(known),
    };
  }

  async finish(disturbances: readonly DisturbanceReport[]): Promise<RigChaosReport> {
    await Promise.all([this.#writers, this.#greedy, this.#signingIn].map((load) => load?.stop()));
    await this.#hasRecovered();
    const rows = await this.#rig.servers.primary.query("select id from public.events");
    const written = new Set(rows.map(({ id }) => id as number));
    for (const { name, subscriber } of this.#subscribers)
      this.#reportAll(`${name} has lost`, lostOf(written, subscriber.received.ids));
    const { doubled, share } = this.#greedy.figures;
    if (doubled * 1000 > this.#limits.doubled) this.#report(`a rate limit was doubled for ${doubled} s`);
    return {
      ...{ disturbances, doubled, granted: share },
      acknowledged: this.#acknowledged.size,
      signIns: this.#signIns,
      broadcasts: this.#members.reduce((sum, { sent }) => sum + sent, 0),
      violations: this.#violations,
      logs: null,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#writers, this.#greedy, this.#signingIn].map((load) => load?.stop()));
    await Promise.all(this.#subscribers.map(({ subscriber }) => subscriber.close()));
    await Promise.all(this.#members.map((member) => member.close()));
  }

  get #written(): number {
    return this.#writers?.written ?? 0;
  }

  get #gaps(): number {
    return this.#subscribers.reduce((sum, { subscriber }) => sum + subscriber.received.gaps, 0);
  }

  /** The table is the truth: what was acknowledged is in it, and all subscribers get all of it. */
  async #hasRecovered(): Promise<void> {
    // The members whose broadcasts must arrive are asked first, and so are the rows.
    const marks = this.#members.map((member) => ({ member, mark: member.sent }));
    const acknowledged = new Set(this.#acknowledged);
    const rows = await this.#rig.servers.primary.query("select id from public.events");
    const written = new Set(rows.map(({ id }) => id as number));
    this.#reportAll("acknowledged rows are lost", acknowledged.difference(written));
    await Promise.all([
      ...this.#subscribers.map(({ name, subscriber }) => this.#hasAll(name, subscriber, written)),
      ...this.#members.map((member) => this.#isConnected(member, marks)),
    ]);
  }

  async #hasAll(name: string, { received }: Subscriber | ChannelSubscriber, written: ReadonlySet<number>) {
    const missing = () => this.#lostOf(name, lostOf(written, received.ids)).size;
    const isComplete = () => missing() === 0;
    await until(isComplete, () => "", missing, this.#limits.recovery).catch(() => {});
    this.#reportAll(`${name} has not received in time`, this.#lostOf(name, lostOf(written, received.ids)));
    const faults = {
      "out of order": countOutOfOrder(received.ids),
      twice: name.startsWith("channel") ? 0 : duplicatesOf(received.ids),
    };
    for (const [fault, count] of Object.entries(faults))
      this.#reportAll(`${name} has received ${fault}`, ofCount(count), name + fault);
  }

  /** Without those that were reported. */
  #lostOf = (name: string, ids: ReadonlySet<number>): Set<number> =>
    new Set([...ids].filter((id) => !this.#missed.has(`${name} has not received in time ${id}`)));

  #reportAll(what: string, ids: ReadonlySet<number>, key = what): void {
    const unknown = [...ids].filter((id) => !this.#missed.has(`${key} ${id}`));
    for (const id of unknown) this.#missed.add(`${key} ${id}`);
    if (unknown.length > 0) this.#report(`${what}: ${unknown.length} rows, ${unknown.slice(0, 5).join(", ")}`);
  }

  /** It gets what the others send from now on, and knows who is present. */
  async #isConnected(member: Member, marks: readonly { readonly member: Member; readonly mark: number }[]) {
    const others = marks.filter((each) => each.member !== member);
    const names = this.#members.map(({ name }) => name).join();
    const silent = () => others.filter((other) => member.lastOf(other.member) <= other.mark);
    const why = () => silent().map((other) => other.member.state);
    await this.#waitFor(
      () => silent().length === 0,
      () => `${member.name} (${member.state}) receives broadcasts: ${why().join("; ")}`,
    );
    await this.#waitFor(
      () => member.present.join() === names,
      () => `${member.name} knows who is present: ${member.present}`,
    );
  }

  #waitFor = (holds: () => boolean, what: () => string): Promise<void> =>
    until(holds, what, undefined, this.#limits.recovery).catch(({ message }: Error) => this.#report(message));

  /** Null is tried again: a client does so, too. */
  async #readAll(headers: Readonly<Record<string, string>>): Promise<readonly number[]> {
    for (;;) {
      const answer = await this.#requests.send("/rest/v1/events?select=id&order=id", {
        headers: { ...headers, prefer: "read=primary" },
      });
      if (answer !== null) return answer.json.map(({ id }: { readonly id: number }) => id);
      await sleep(200);
    }
  }
}

const ofCount = (count: number) => new Set(Array.from({ length: count }, (_, at) => at));

async function hasGraphQL(url: string): Promise<boolean> {
  const response = await fetch(`${url}/graphql?query={events{totalCount}}`);
  return (await response.text()).includes('totalCount":');
}
