import { type Rig, workerOf } from "../../rig/rig.ts";
import type { Server } from "../../rig/servers.ts";
import { kill } from "../../support/processes.ts";
import type { Relay } from "../../support/relay.ts";
import { until } from "../../support/until.ts";
import { SERVICE_KEY } from "./requests.ts";

export type Context = {
  readonly rig: Rig;
  /** Waits for as long as the disturbance lasts. */
  hold(): Promise<void>;
  choose<T>(among: readonly T[]): T;
  /** Cuts the connections of all subscribers. */
  cutSubscribers(): void;
};

/** Breaks something, and repairs what would not repair itself. */
export type Disturbance = { readonly name: string; run(context: Context): Promise<void> };

type Signalled = { signal(name: "SIGSTOP" | "SIGCONT"): void };
type Killed = { kill(): Promise<void>; start(): Promise<void> };

async function pause(part: Signalled, { hold }: Context): Promise<void> {
  part.signal("SIGSTOP");
  await hold().finally(() => part.signal("SIGCONT"));
}

async function kill9(part: Killed, { hold }: Context): Promise<void> {
  await part.kill();
  await hold();
  await part.start();
}

/** Ends all connections, and accepts no others for a while. */
async function cut(link: Relay, { hold }: Context): Promise<void> {
  const { target } = link;
  link.target = null;
  link.cut();
  await hold();
  link.target = target;
}

const serverOf = ({ rig }: Context, server: Server): Killed => ({
  kill: () => server.kill(),
  start: () => rig.servers.restart(server),
});
const primary = ({ rig }: Context) => rig.servers.primary;
const standby = ({ rig, choose }: Context) => choose(rig.servers.standbys);
const instance = ({ rig, choose }: Context) => choose(rig.instances);

/** The pid of the process that reads changes for all, when it is another one. */
async function readerOf({ url }: Rig, previous?: number): Promise<number> {
  const headers = { apikey: SERVICE_KEY };
  let pid: number | undefined;
  const isFound = async () => {
    // A process that stands still does not answer. HAProxy chooses another one for the next request.
    const health: any = await fetch(`${url}/health`, { headers, signal: AbortSignal.timeout(2000) })
      .then((response) => response.json())
      .catch(() => null);
    // host:pid
    const name: string | undefined = health?.details?.changes.shared?.reader;
    if (name) pid = Number(name.split(":")[1]);
    return pid !== undefined && pid !== previous;
  };
  await until(isFound, () => "a process reads changes");
  return pid!;
}

export const DISTURBANCES: readonly Disturbance[] = [
  { name: "instance killed", run: (context) => kill9(instance(context).program, context) },
  { name: "instance paused", run: (context) => pause(instance(context).program, context) },
  {
    name: "worker killed",
    async run({ rig, hold }) {
      kill(workerOf(rig.instances.find(({ workers }) => workers > 1)!), "SIGKILL");
      await hold();
    },
  },
  {
    name: "reader of changes paused",
    async run({ rig }) {
      const paused = await readerOf(rig);
      kill(paused, "SIGSTOP");
      await readerOf(rig, paused).finally(() => kill(paused, "SIGCONT"));
    },
  },
  { name: "subscribers cut", run: async ({ cutSubscribers }) => cutSubscribers() },
  {
    name: "primary restarted",
    async run(context) {
      const server = primary(context);
      await kill9({ ...serverOf(context, server), kill: () => server.stop() }, context);
    },
  },
  { name: "primary killed", run: (context) => kill9(serverOf(context, primary(context)), context) },
  { name: "primary paused", run: (context) => pause(primary(context), context) },
  { name: "standby promoted", run: ({ rig }) => rig.servers.promote() },
  { name: "standby killed", run: (context) => kill9(serverOf(context, standby(context)), context) },
  { name: "standby paused", run: (context) => pause(standby(context), context) },
  {
    name: "standby behind",
    async run(context) {
      const server = standby(context);
      await server.query("select pg_wal_replay_pause()");
      await context.hold();
      await server.query("select pg_wal_replay_resume()");
    },
  },
  { name: "standby cut", run: (context) => cut(standby(context).reads, context) },
  { name: "replication cut", run: (context) => cut(context.rig.servers.replication, context) },
  { name: "PgBouncer killed", run: (context) => kill9(context.rig.pooler.program, context) },
  { name: "PgBouncer paused", run: (context) => pause(context.rig.pooler.program, context) },
  { name: "PgBouncer cut", run: (context) => cut(context.rig.links.pooler, context) },
  { name: "direct connections cut", run: (context) => cut(context.rig.links.direct, context) },
  { name: "Redis killed, data lost", run: (context) => kill9(context.rig.redis, context) },
  { name: "Redis emptied", run: async ({ rig }) => void (await rig.redis.send("FLUSHALL")) },
  { name: "Redis paused", run: (context) => pause(context.rig.redis, context) },
  { name: "Redis cut", run: (context) => cut(context.rig.links.redis, context) },
  { name: "HAProxy killed", run: (context) => kill9(context.rig.front.program, context) },
  { name: "HAProxy paused", run: (context) => pause(context.rig.front.program, context) },
  { name: "HAProxy of the primary killed", run: (context) => kill9(context.rig.primary.program, context) },
];

/** Numbers from 0 to 1 that a seed repeats (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export const disturbanceOf = (name: string): Disturbance => {
  const found = DISTURBANCES.find((each) => each.name === name);
  if (!found) throw new Error(`no disturbance is called ${name}`);
  return found;
};

/** So many disturbances whose names contain the text: all kinds in turn, in an order of the random numbers. */
export function orderOf(count: number, random: () => number, text = ""): Disturbance[] {
  const kinds = DISTURBANCES.filter(({ name }) => name.includes(text));
  const round = () => kinds.map((disturbance) => ({ disturbance, at: random() })).toSorted((a, b) => a.at - b.at);
  const rounds = Array.from({ length: Math.ceil(count / kinds.length) }, round).flat();
  return rounds.slice(0, count).map(({ disturbance }) => disturbance);
}
