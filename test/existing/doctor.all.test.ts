import { afterAll, beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { clockCheck } from "../../parts/advisor/doctor/database-checks.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { hasPgBouncer, startPooler } from "../support/pooler.ts";
import { startTrackit, type Trackit } from "./trackit.ts";

// What npx content-service advise calls errors is corrected or accepted.
const ADVISED = `
  alter view public.organisation_billing set (security_invoker = true);
  comment on table public.import_staging is '@accept table-without-row-security rows of a job';
  comment on table public.plan_features is '@accept table-without-row-security public';
  comment on table public.plans is '@accept table-without-row-security public';
  create table public.folders (id bigint primary key, words tsvector[]);
  grant select on public.folders to trackit_user; alter table public.folders enable row level security`;

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit({ GRAPHQL_DOCUMENTS: "none" }, undefined, ADVISED);
});
afterAll(() => trackit.stop());

async function examine(more: Readonly<Record<string, string>> = {}) {
  const settings = {
    DATABASE_URL: trackit.loginUrl,
    MIGRATE: "off",
    DB_ANON_ROLE: trackit.role("anon"),
    API_KEY_REQUIRED: "off",
    ...more,
  };
  const { exitCode, stdout, stderr } = await outcomeOf(doctor([], settings));
  return { exitCode, stderr, lines: stdout.trimEnd().split("\n") };
}

const ABOUT_TABLES =
  "Of your tables, policies and functions. The service runs with these, and the exit code does not count them; npx content-service advise does:";

test("a database that can be served has one line per subject, and each finding names its fix", async () => {
  const { exitCode, lines } = await examine();
  const [support, login] = [trackit.role("support"), trackit.role("api")];
  expect([exitCode, lines]).toEqual([
    0,
    [
      expect.stringMatching(`^ok        connection: ${login} at `),
      expect.stringMatching(/^ok {8}version: PostgreSQL \d/),
      `ok        roles: ${login} may become the roles of callers`,
      expect.stringMatching(/^ok {8}grants: callers may read \d+ of \d+ tables$/),
      "ok        migrations: MIGRATE=off: none are run",
      expect.stringMatching(/^warning {3}changes: .*create role .* replication.*create publication .* for table /),
      expect.stringMatching(
        /^warning {3}schema changes: changes of the schema are not announced .*create event trigger /,
      ),
      "ok        pooler: DATABASE_URL names the server",
      "ok        clock: this machine and the database agree",
      "ok        extensions: none is required",
      "ok        settings: they are valid",
      ...lines.slice(11),
    ],
  ]);
  const [empty, about, ...advice] = lines.slice(11);
  expect([empty, about]).toEqual(["", ABOUT_TABLES]);
  expect(advice.every((line) => /^(warning|ok) +advice: /.test(line))).toBe(true);
  expect(advice.join("\n")).toContain(`service key of Supabase: -- revoke ${support} from ${login};`);
  expect(advice.join("\n")).not.toContain("GraphQL has no type");
  expect(advice.join("\n")).not.toContain("tasks.search");
});

test.each<[string, () => Readonly<Record<string, string>>, RegExp]>([
  ["a role that does not exist", () => ({ DB_ANON_ROLE: "nowhere" }), /^error +roles: the role "nowhere" .* does not/],
  [
    "a role that the login may not become",
    () => ({ DB_ANON_ROLE: trackit.role("owner") }),
    /^error +roles: .*grant it/,
  ],
  [
    "a function before each request that does not exist",
    () => ({ DB_PRE_REQUEST: "pg_catalog.nowhere" }),
    /^error +roles: DB_PRE_REQUEST: each request would fail, because there is no function nowhere\(\) in pg_catalog$/,
  ],
  [
    "a function before each request that callers without a token may not execute",
    () => ({ DB_PRE_REQUEST: "pg_catalog.pg_reload_conf" }),
    /^error +roles: DB_PRE_REQUEST: requests without a token fail, because \S+ may not execute pg_reload_conf\(\): grant it/,
  ],
  ["a schema that does not exist", () => ({ DB_SCHEMAS: "gone" }), /^error +roles: DB_SCHEMAS names .*: gone$/],
  [
    "a pool that is too large",
    () => ({ DB_POOL: "900" }),
    /^error +settings: the service may open 919 connections, and the server accepts \d+ .*: raise max_connections/,
  ],
  [
    "a server that does not answer",
    () => ({ DATABASE_URL: "postgres://a:b@127.0.0.1:1/c" }),
    /^error +connection: cannot connect to the database: .*ECONNREFUSED/,
  ],
])("%s is an error, and the exit code is 1", async (_what, settings, line) => {
  const { exitCode, lines } = await examine(settings());
  expect(lines.filter((each) => line.test(each))).toHaveLength(1);
  expect(exitCode).toBe(1);
});

test("settings in the database count, and an error names the one that is wrong", async () => {
  const login = trackit.role("api");
  await trackit.database.owner.query(`alter role ${login} set pgrst.db_schemas = 'public, gone'`);
  try {
    const { exitCode, lines } = await examine();
    expect(lines).toContain(
      "error     roles: pgrst.db_schemas, a setting in the database, names schemas that do not exist: gone",
    );
    expect(exitCode).toBe(1);
  } finally {
    await trackit.database.owner.query(`alter role ${login} reset pgrst.db_schemas`);
  }
});

test("a function auth.uid() that reads an older setting is a warning", async () => {
  const { owner } = trackit.database;
  const uid = (setting: string) => `create or replace function auth.uid() returns uuid language sql stable as
    $$ select (${setting})::uuid $$`;
  await owner.query(`create schema auth; grant usage on schema auth to public;
    ${uid("nullif(current_setting('request.jwt.claim.sub', true), '')")}`);
  try {
    const warned = async () => (await examine()).lines.filter((line) => line.includes("auth.uid()"));
    expect(await warned()).toEqual([
      expect.stringMatching(
        /^warning {3}roles: auth\.uid\(\) does not return .* request\.jwt\.claims, .*: let it return/,
      ),
    ]);
    await owner.query(uid("nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'"));
    expect(await warned()).toEqual([]);
  } finally {
    await owner.query("drop schema auth cascade");
  }
});

test("an error in the tables, with which the service runs, is named apart, and the exit code is 0", async () => {
  await trackit.database.owner.query("comment on table public.plans is null");
  try {
    const { exitCode, lines } = await examine();
    expect(lines.slice(0, lines.indexOf(ABOUT_TABLES)).filter((line) => line.startsWith("error"))).toEqual([]);
    expect(lines.slice(lines.indexOf(ABOUT_TABLES)).filter((line) => line.startsWith("error"))).toEqual([
      expect.stringMatching(
        /advice: table public\.plans: .*to fix it: begin; create policy .* alter table public\.plans enable row level security; commit;/,
      ),
    ]);
    expect(exitCode).toBe(0);
  } finally {
    await trackit.database.owner.query("comment on table public.plans is '@accept table-without-row-security public'");
  }
});

test.skipIf(!hasPgBouncer)("a pooler needs a direct URL, and a setting", async () => {
  const pooler = await startPooler([trackit.loginUrl]);
  try {
    const DATABASE_URL = pooler.pooled(trackit.loginUrl);
    const ofPooler = async (more: Readonly<Record<string, string>>) => {
      const { exitCode, lines } = await examine({ DATABASE_URL, ...more });
      return [exitCode, ...lines.filter((line) => line.includes(" pooler: ")).map((line) => line.split(" ")[0])];
    };
    expect(await ofPooler({})).toEqual([1, "error", "warning"]);
    expect(await ofPooler({ DATABASE_DIRECT_URL: trackit.loginUrl })).toEqual([0, "warning"]);
    const sound = { DATABASE_DIRECT_URL: trackit.loginUrl, DB_PREPARED_STATEMENTS: "0" };
    expect(await ofPooler(sound)).toEqual([0, "ok"]);
  } finally {
    await pooler.stop();
  }
});

test("clocks that differ by more than the time of the question are an error", () => {
  expect(clockCheck({ sent: 0, received: 60_000, database: 30_000 }).level).toBe("ok");
  for (const database of [-6000, 66_000]) {
    expect(clockCheck({ sent: 0, received: 60_000, database })).toEqual({
      level: "error",
      text: "this machine and the database differ by 6 s: synchronize both with NTP",
    });
  }
});
