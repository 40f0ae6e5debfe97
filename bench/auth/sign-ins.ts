import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { hashPassword } from "../../rest-gateway/auth/passwords.ts";
import type { Case, HttpRequest } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { ARTICLES, createDatabase } from "../database.ts";
import { atLeast, type Goal, goalsTable, spread } from "../figures.ts";
import { AnswerReader, bytesOf } from "../http-messages.ts";
import { applyLoad } from "../load.ts";
import { applyOpenLoad } from "../overload/open-load.ts";
import { exactCpuOf } from "../process-usage.ts";
import { heading, list, table } from "../report.ts";
import { type Bench, type BenchOptions, type Measured, sampleEach } from "../rounds.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";

const PROGRAM: Program = {
  name: "ours",
  about: "server.ts as `npm start` runs it, with GRAPHQL_DOCUMENTS=none and more failed logins for a user",
  base: "",
  command: (database, port) => ourCommand(database, port, { GRAPHQL_DOCUMENTS: "none", LOGIN_ATTEMPTS: "1000" }),
};

/** Who sign in. The readers are others. */
const USERS = 400;
const PASSWORD = "Correct-Horse-7!";

/** Executed after the accounts are created. Without triggers, which would end the epoch of the tokens of the bench. */
const signUp = (passwordHash: string): string => `
  set session_replication_role = replica;
  update auth_private.accounts set password_hash = '${passwordHash}', email_confirmed_at = now() where user_id <= ${USERS};
  insert into auth_private.login_emails (user_id, email) select n, 'user' || n || '@example.com' from generate_series(1, ${USERS}) n;
  reset session_replication_role;`;

const tokenRequest = (grant: string, body: object): HttpRequest => ({
  method: "POST",
  path: `/auth/v1/token?grant_type=${grant}`,
  headers: { apikey: ANON_KEY },
  body: JSON.stringify(body),
});
const LOGINS = Array.from({ length: USERS }, (_, i) =>
  tokenRequest("password", { email: `user${i + 1}@example.com`, password: PASSWORD }),
);
const READS = Array.from({ length: 200 }, (_, i) => ({
  method: "GET" as const,
  path: `/rest/v1/articles?id=eq.${1 + ((i * 997) % ARTICLES)}`,
  headers: { apikey: ANON_KEY, Authorization: bearer(USERS + 1 + i) },
  body: null,
}));

/** What is measured alone, and beside so many sign-ins a second. `reads`: a second; null for as many as can be. */
type Kind = Case & { readonly beside?: number; readonly reads?: number | null };

const caseOf = (name: string, about: string, more: Partial<Kind> = {}): Kind => ({
  ...{ name, about, writes: true, ownFields: [], refused: [], requests: () => LOGINS },
  ...more,
});

const CASES: readonly Kind[] = [
  caseOf("sign-in", "`POST /auth/v1/token?grant_type=password`, the next after a response"),
  caseOf("refresh", "`POST /auth/v1/token?grant_type=refresh_token`, each with the token of the response before"),
  caseOf("full", "`GET /rest/v1/articles?id=eq.…` at full load, alone and beside 30 sign-ins a second", {
    beside: 30,
    reads: null,
  }),
  caseOf("fixed", "the same read 1,000 times a second, alone and beside 60 sign-ins a second", {
    beside: 60,
    reads: 1000,
  }),
];

/** A second, and milliseconds. */
type Rate = { readonly perSecond: number; readonly p99: number };
/** `cpu`: microseconds of the service for one of them; null beside others. */
type Sample = {
  readonly measured: Rate;
  readonly cpu: number | null;
  readonly beside: Rate | null;
  readonly logins: Rate | null;
};

export const SIGN_INS: Bench = {
  name: "sign-ins",
  about: "Measures sign-ins with passwords, refreshes, and reads beside sign-ins.",
  cases: CASES.map(({ name }) => name),
  defaults: { rounds: "3", seconds: "5", connections: "16" },
  run: async (options, command) => {
    options.progress("creating the database");
    await using database = await createDatabase("", signUp(await hashPassword(PASSWORD)));
    await using server = await startServer(PROGRAM, database);
    for (const each of [LOGINS, READS]) await rateOf(each, server, 8, options, WARM_UP_SECONDS);
    await refreshes(server, 8, WARM_UP_SECONDS);
    const measured = await sampleEach<Sample>(CASES, options, (each) => measure(each, server, options), textOf);
    return reportSignIns(database.version, measured, options, command);
  },
};

const WARM_UP_SECONDS = 5;

async function measure(
  { case: kind, connections }: Measured<Sample>,
  server: RunningServer,
  options: BenchOptions,
): Promise<Sample> {
  const { seconds } = options;
  const { name, beside: logins, reads } = kind as Kind;
  const cpu = exactCpuOf(server.pid);
  if (logins === undefined) {
    const measured = await (name === "refresh"
      ? refreshes(server, connections, seconds)
      : rateOf(LOGINS, server, connections, options));
    return {
      measured,
      cpu: (exactCpuOf(server.pid) - cpu) / (measured.perSecond * seconds),
      beside: null,
      logins: null,
    };
  }
  const read = () =>
    reads
      ? fixedRate(READS, server, reads, options)
      : rateOf(READS, server, connections, options, seconds + SETTLE_SECONDS);
  const measured = await read();
  const [beside, signedIn] = await Promise.all([read(), fixedRate(LOGINS, server, logins, options)]);
  // Those that wait have been answered.
  await sleep(2000);
  return { measured, cpu: null, beside, logins: signedIn };
}

async function rateOf(
  requests: readonly HttpRequest[],
  { address }: RunningServer,
  connections: number,
  { seconds, signal }: BenchOptions,
  own = seconds,
): Promise<Rate> {
  const { requestsPerSecond, p99 } = await applyLoad(
    { address, requests, refused: [], connections, seconds: own },
    signal,
  );
  return { perSecond: requestsPerSecond, p99: p99 ?? 0 };
}

const SETTLE_SECONDS = 1;
const MAX_OPEN = 500;

/** Of those that were not refused. */
async function fixedRate(
  requests: readonly HttpRequest[],
  { address }: RunningServer,
  rate: number,
  { seconds, signal }: BenchOptions,
): Promise<Rate> {
  const load = { address, requests, rate, connections: MAX_OPEN, seconds, settleSeconds: SETTLE_SECONDS };
  const { admittedPerSecond, admittedP99, unexpected } = await applyOpenLoad(load, signal);
  if (unexpected !== null) throw new Error(`the service responded with ${unexpected}`);
  return { perSecond: admittedPerSecond, p99: admittedP99 };
}

/** Each connection refreshes the session of one user, again and again. */
async function refreshes({ address }: RunningServer, connections: number, seconds: number): Promise<Rate> {
  const times: number[] = [];
  const end = performance.now() + seconds * 1000;
  await Promise.all(LOGINS.slice(0, connections).map((login) => refreshUntil(address, login, end, times)));
  times.sort((a, b) => a - b);
  return { perSecond: times.length / seconds, p99: times[Math.floor(times.length * 0.99)] ?? 0 };
}

function refreshUntil(address: string, login: HttpRequest, end: number, times: number[]): Promise<void> {
  const { hostname, port } = new URL(address);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    const reader = new AnswerReader(MAX_SESSION);
    let asked = 0;
    const ask = (request: HttpRequest) => {
      asked = performance.now();
      socket.write(bytesOf(request, address));
    };
    socket.on("connect", () => ask(login));
    socket.on("error", reject);
    socket.on("data", (chunk: Buffer) => {
      const answer = reader.read(chunk);
      if (answer === null) return;
      if (answer.status !== 200) return reject(new Error(`${answer.status} ${answer.body}`));
      times.push(performance.now() - asked);
      if (performance.now() < end)
        return ask(tokenRequest("refresh_token", { refresh_token: JSON.parse(answer.body).refresh_token }));
      socket.destroy();
      resolve();
    });
  });
}

/** Bytes of a response with the tokens and the user. */
const MAX_SESSION = 100_000;

const rateText = (rate: Rate | null) =>
  rate === null ? "" : `${rate.perSecond.toFixed(0)}/s with p99 ${rate.p99.toFixed(0)} ms`;

const textOf = ({ measured, beside, logins }: Sample) =>
  beside === null ? rateText(measured) : `${rateText(measured)}, then ${rateText(beside)} beside ${rateText(logins)}`;

const kept = ({ samples }: Measured<Sample>) =>
  samples.map(({ measured, beside }) => beside!.perSecond / measured.perSecond);

const GOALS: Readonly<Record<string, (each: Measured<Sample>) => Goal>> = {
  "sign-in": ({ samples }) => ({
    name: "sign-ins a second",
    aim: atLeast(30),
    values: samples.map(({ measured }) => measured.perSecond),
  }),
  refresh: ({ samples }) => ({
    name: "refreshes a second",
    aim: atLeast(2000),
    values: samples.map(({ measured }) => measured.perSecond),
  }),
  full: (each) => ({
    name: "reads at full load beside 30 sign-ins a second, to those alone",
    aim: atLeast(0.75),
    values: kept(each),
  }),
  fixed: (each) => ({
    name: "1,000 reads a second beside 60 sign-ins a second, to those alone",
    aim: atLeast(0.99),
    values: kept(each),
  }),
};

function reportSignIns(
  version: string,
  measured: readonly Measured<Sample>[],
  { rounds, seconds }: BenchOptions,
  command: string,
): string {
  const of = ({ samples }: Measured<Sample>, pick: (sample: Sample) => number | null | undefined, digits = 0) =>
    spread(
      samples.flatMap((sample) => pick(sample) ?? []),
      digits,
    );
  return [
    heading("Sign-ins", command, version),
    list([PROGRAM]),
    list(CASES),
    `Rounds: ${rounds}, ${seconds} s each, in one process. The load tools, the service and Postgres share the cores. ${USERS} users sign in ` +
      "from one IP address, and others read. A password takes about 7 ms of a core. Sign-ins at a fixed rate are sent whether earlier ones have been " +
      "answered or not; those beyond what the service takes are refused with 503 and not counted.",
    "### Goals",
    "A goal is reached if the median of the rounds reaches it.",
    goalsTable(measured.map((each) => GOALS[each.case.name]!(each))),
    "### All numbers",
    "Medians (minimum–maximum). CPU in microseconds of the service for each.",
    table(
      ["case", "connections", "a second", "p99 ms", "CPU", "beside sign-ins", "p99 ms", "sign-ins", "p99 ms"],
      measured.map((each) => [
        each.case.name,
        String(each.connections),
        of(each, ({ measured }) => measured.perSecond),
        of(each, ({ measured }) => measured.p99),
        of(each, ({ cpu }) => cpu),
        of(each, ({ beside }) => beside?.perSecond),
        of(each, ({ beside }) => beside?.p99),
        of(each, ({ logins }) => logins?.perSecond),
        of(each, ({ logins }) => logins?.p99),
      ]),
    ),
  ].join("\n\n");
}
