import { globSync, readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { SETTINGS } from "../../config/settings.ts";
import { anonymous } from "../../db/caller.ts";
import { recipientOf } from "../../gate/pipeline/exchange.ts";
import { withLimits } from "../../service/limits.ts";
import { anonymousCallers } from "../support/callers.ts";
import { readConfig } from "../support/config.ts";
import { useService } from "../support/http-client.ts";
import { type RawSocket, upgrade } from "../support/raw-socket.ts";
import { POLL } from "../support/until.ts";

/** Every setting and limit on what one client does. The tests here, and in the files that are named, reach them from one network. */
const LIMITS = [
  ...["LOGIN_ATTEMPTS", "loginAttemptsPerAddress", "registrationsPerAddress"], // attempts-by-network.test.ts
  ...["maxConnectionsPerAddress"], // test/gate/connections.all.test.ts
  ...["wsMaxConnectionsPerAddress", "wsMessageRatePerAddress"],
  ...["realtimeMaxChannelsPerAddress", "realtimeJoinRatePerAddress"],
  ...["mailsPerAddress"], // test/parts/mail/sending.all.test.ts
  ...["RATE_LIMIT"], // test/gate/rate-limit.test.ts, operations-on-sockets.test.ts
  ...["clientMemoryPerAddress", "dbPoolShare"],
  ...["taskMaxPending", "taskMaxStoredBytesPerOwner"],
];

/** Settings that have an address, or count regardless of it. */
const NO_LIMITS = ["HOST", "ADMIN_HOST", "TRUST_PROXY"];

/** The comments of the limits: `{ restMaxEmbeds: { about: "Embedded relationships of a request." } }`. */
const FIXED = Object.fromEntries(
  globSync("{db,graphql,gate,realtime,rest-gateway}/**/limits.ts")
    .flatMap((file) => [...readFileSync(file, "utf8").matchAll(/\/\*\* (.*) \*\/\n {2}(\w+): /g)])
    .map(([, about, name]) => [name!, { about: about! }]),
);

test("every limit has a comment", () => {
  const settings = readConfig({});
  const names = Object.keys(withLimits(settings)).filter((name) => !(name in settings));
  expect(Object.keys(FIXED).sort()).toEqual(names.sort());
});

test("every setting and limit that counts by client is in the list", () => {
  const counting = Object.entries({ ...SETTINGS, ...FIXED })
    .filter(([name, { about }]) => name.endsWith("PerAddress") || about.includes("IP address"))
    .map(([name]) => name);
  expect(counting.sort()).toEqual([...LIMITS, ...NO_LIMITS].sort());
});

/** The files that read the IP address itself. All others pass it to `networkOf`, as db/network.ts does for attempts. */
const READERS = {
  "gate/pipeline/exchange.ts": "finds it",
  "parts/console/in-process.ts": "passes it on, as that of the connection",
  "parts/console/part.ts": "passes it on, for the security events of operators",
  "gate/limits/connection-limits.ts": "compares it with TRUST_PROXY, and logs it",
  "gate/operations/operator.ts": "compares it with loopback addresses",
  "identity/caller-resolver.ts": "passes it on",
  "identity/proofs.ts": "passes it to basic-sign-ins.ts, which counts networks",
  "rest-gateway/auth/": "writes it to security events; repository.ts counts networks",
  "parts/supabase-paths/storage-server.ts": "passes it on, as x-forwarded-for",
  "rest-gateway/resources/": "passes it to the registration",
};

test("no other file reads the address of a client without its network", () => {
  const sources = globSync("{db,identity,gate,graphql,plugins,rest-gateway,pages,parts,service}/**/*.ts");
  const reading = sources.filter((file) =>
    readFileSync(file, "utf8")
      .split("\n")
      .some((line) => /addressOf\(|identity\.address|remoteAddress/.test(line) && !line.includes("networkOf(")),
  );
  const isKnown = (file: string) => Object.keys(READERS).some((known) => file.startsWith(known));
  expect(reading.length).toBeGreaterThan(0);
  expect(reading.filter((file) => !isKnown(file))).toEqual([]);
});

test("no key of an attempt in the database has an address", () => {
  const sql = globSync(["db/modules/**/*.sql", "demo/db/schema/**/*.sql"])
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
  const keys = [...sql.matchAll(/attempt_keys?\(([^()]*(?:\([^()]*\)[^()]*)*)\)/g)].map(([, parts]) => parts!);
  expect(keys.length).toBeGreaterThan(4);
  expect(keys.filter((parts) => /(?<!')\baddress\b(?!')/.test(parts))).toEqual([]);
});

test("anonymous callers of one network share the connections of the database, and the limit on memory", () => {
  const request = { url: "/", headers: {} } as IncomingMessage;
  const of = (address: string) => recipientOf(anonymousCallers(address).identify(request), anonymous("anon"));
  const [one, neighbour, other] = [of("2001:db8:0:1::1"), of("2001:db8:0:1::2"), of("2001:db8:0:2::1")];
  expect([one.client, one.network]).toEqual([neighbour.client, neighbour.network]);
  expect([one.client, one.network]).not.toEqual([other.client, other.network]);
});

describe("from the addresses of one IPv6 network,", () => {
  const client = useService({
    ...{ TRUST_PROXY: "loopback", wsMaxConnectionsPerAddress: 3, wsMessageRatePerAddress: 60 },
    ...{ realtimeMaxChannelsPerAddress: 2, realtimeJoinRatePerAddress: 4 },
    ...{ taskAnonymousRetention: 3600, taskMaxPending: 1, changesMaxBytes: 1_048_576 },
  });
  let count = 0;
  /** Clients at different addresses of a network that no other test uses. */
  const newNetwork = () => {
    const network = `2001:db8:${++count}:1`;
    return (host: number) => ({ "x-forwarded-for": `${network}::${host}` });
  };
  const open = (headers: Readonly<Record<string, string>>) => {
    const key = client.service().service.tokens.issueKey("anon");
    return upgrade(client.service().url, {
      ...{ path: `/realtime/v1/websocket?vsn=2.0.0&apikey=${key}`, protocol: null, headers },
    });
  };
  /** Joins a channel; `ok`, or the code of the refusal. */
  async function join(raw: RawSocket): Promise<string> {
    const ref = String(++count);
    const reply = () => raw.messages().find(([, replied]: any) => replied === ref) as any;
    raw.send([null, ref, `realtime:${ref}`, "phx_join", {}]);
    await expect.poll(reply, POLL).toBeDefined();
    const { status, response } = reply()[4];
    return status === "error" ? response.reason.split(":")[0] : status;
  }

  test("a fourth socket is refused", async () => {
    const from = newNetwork();
    const statuses = [];
    for (let host = 1; host <= 4; host++) statuses.push((await (await open(from(host))).head()).status);
    expect(statuses).toEqual([101, 101, 101, 429]);
    expect((await (await open(newNetwork()(1))).head()).status).toBe(101);
  });

  test("a third channel is refused", async () => {
    const from = newNetwork();
    const [one, other] = [await open(from(1)), await open(from(2))];
    expect([await join(one), await join(other), await join(other)]).toEqual(["ok", "ok", "ChannelRateLimitReached"]);
  });

  test("joins of one second are refused together", async () => {
    const from = newNetwork();
    const [one, other] = [await open(from(1)), await open(from(2))];
    const refusals = await Promise.all(Array.from({ length: 40 }, (_, i) => join(i % 2 ? one : other)));
    expect(refusals).toContain("ClientJoinRateLimitReached");
  });

  test("messages of one second close a socket together", async () => {
    const from = newNetwork();
    const [one, other] = [await open(from(1)), await open(from(2))];
    const beat = (raw: RawSocket) => {
      for (let i = 0; i < 100; i++) raw.send([null, String(i), "phoenix", "heartbeat", {}]);
    };
    for (const raw of [one, other]) beat(raw);
    const closed = await Promise.race([one, other].map((raw) => raw.closed()));
    expect(closed).toEqual({ code: 4429, reason: "too many messages" });
  });

  test("a second unfinished task is refused", async () => {
    const from = newNetwork();
    const request = (host: number) => client.send("/articles", { headers: { ...from(host), prefer: "respond-async" } });
    expect([(await request(1)).status, (await request(2)).status]).toEqual([202, 429]);
  });
});
