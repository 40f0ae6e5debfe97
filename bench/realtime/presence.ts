import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { ANON_KEY } from "../credentials.ts";
import type { BenchDatabase } from "../database.ts";
import { atMost, type Goal, spread } from "../figures.ts";
import { ownCpuOf } from "../process-usage.ts";
import { table } from "../report.ts";
import { type Program, startServer } from "../servers.ts";

/** Of one topic. CPU of the service is microseconds for each member, the other figures are for each member too. */
export type PresenceSample = {
  readonly members: number;
  readonly joinCpu: number;
  readonly leaveCpu: number;
  /** Received until all had joined. */
  readonly messages: number;
  readonly kilobytes: number;
};

export const MEMBERS: readonly number[] = [300, 1000, 3000];
const AT_ONCE = 50;
const TOPIC = "realtime:presence";

/** All members join one topic and track themselves; when the first one knows all, all others disconnect. */
export async function measurePresence(
  program: Program,
  database: BenchDatabase,
  members: number,
): Promise<PresenceSample> {
  await using server = await startServer(program, database);
  const watcher = new Watcher();
  const received = { messages: 0, bytes: 0 };
  const sockets: WebSocket[] = [];
  try {
    const before = ownCpuOf(server.pid);
    sockets.push(await join(server.address, 0, (data) => watcher.receive(data)));
    const waiting = Array.from({ length: members - 1 }, (_, i) => i + 1).values();
    const joinSome = async () => {
      for (const n of waiting)
        sockets.push(
          await join(server.address, n, (data) => {
            received.messages++;
            received.bytes += data.length;
          }),
        );
    };
    await Promise.all(Array.from({ length: AT_ONCE }, joinSome));
    await until(() => watcher.present.size === members);
    const joined = ownCpuOf(server.pid);
    const { messages, bytes } = { ...received };
    for (const socket of sockets.slice(1)) socket.terminate();
    await until(() => watcher.present.size === 1);
    const left = ownCpuOf(server.pid);
    const each = (figure: number) => figure / members;
    return {
      members,
      joinCpu: each(joined - before),
      leaveCpu: each(left - joined),
      messages: each(messages),
      kilobytes: each(bytes / 1000),
    };
  } finally {
    for (const socket of sockets) socket.terminate();
  }
}

/** Who is present, by the messages of one member. */
class Watcher {
  readonly present = new Set<string>();

  receive(data: Buffer): void {
    const [, , , event, payload] = JSON.parse(String(data));
    if (event !== "presence_diff") return;
    for (const key of Object.keys(payload.joins)) this.present.add(key);
    for (const key of Object.keys(payload.leaves)) this.present.delete(key);
  }
}

/** Resolves when the member has joined and is tracked. */
function join(address: string, n: number, onMessage: (data: Buffer) => void): Promise<WebSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<WebSocket>();
  const url = `${address.replace("http", "ws")}/realtime/v1/websocket?apikey=${ANON_KEY}&vsn=2.0.0`;
  const socket = new WebSocket(url, { perMessageDeflate: false });
  const send = (ref: string, event: string, payload: object) =>
    socket.send(JSON.stringify(["1", ref, TOPIC, event, payload]));
  socket.once("open", () => send("1", "phx_join", { config: { presence: { key: `member ${n}`, enabled: true } } }));
  socket.once("error", reject);
  socket.once("close", (code, reason) => reject(new Error(`a member was closed with ${code} ${reason}`)));
  let replies = 0;
  socket.on("message", (data: Buffer) => {
    onMessage(data);
    if (replies === 2 || data.subarray(0, 100).indexOf('"phx_reply"') < 0) return;
    if (!data.includes('"status":"ok"')) reject(new Error(`a member was refused: ${data}`));
    else if (++replies === 2) resolve(socket);
    else
      send("2", "presence", {
        type: "presence",
        event: "track",
        payload: { user: n, onlineAt: "2026-11-23T12:00:00Z" },
      });
  });
  return promise;
}

/** Milliseconds. */
const PATIENCE = 120_000;

async function until(isReached: () => boolean): Promise<void> {
  for (const end = performance.now() + PATIENCE; !isReached(); await sleep(10))
    if (performance.now() > end) throw new Error("the members do not know each other");
}

/** Formats the measurements as Markdown. */
export function presenceReport(samples: readonly PresenceSample[]): string[] {
  if (samples.length === 0) return [];
  const of = (members: number, figure: keyof PresenceSample, digits = 0) =>
    spread(
      samples.filter((sample) => sample.members === members).map((sample) => sample[figure]),
      digits,
    );
  return [
    "Members of one topic that join, track themselves and leave, 50 at a time. CPU: of the service, in microseconds for each member. " +
      "Messages and kB: received by each member until all have joined; each of them receives the presences of all others.",
    table(
      ["members", "CPU to join", "CPU to leave", "messages", "kB"],
      MEMBERS.map((members) => [
        String(members),
        of(members, "joinCpu"),
        of(members, "leaveCpu"),
        of(members, "messages", 1),
        of(members, "kilobytes", 1),
      ]),
    ),
  ];
}

export function presenceGoals(samples: readonly PresenceSample[]): Goal[] {
  if (samples.length === 0) return [];
  const [few, , many] = MEMBERS.map((members) => samples.filter((sample) => sample.members === members));
  const cpuOf = ({ joinCpu, leaveCpu }: PresenceSample) => joinCpu + leaveCpu;
  return [
    {
      name: "CPU for each of 3000 members to each of 300",
      aim: atMost(2, 1),
      values: many!.map((sample, i) => cpuOf(sample) / cpuOf(few![i]!)),
    },
  ];
}
