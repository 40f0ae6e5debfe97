import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { isDeepStrictEqual, promisify } from "node:util";
import fc from "fast-check";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { type ScratchCluster, startScratchCluster } from "../../cli/scratch-cluster.ts";
import { adviseCommand } from "../../parts/advisor/advise.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { samples } from "../support/samples.ts";
import { type Application, type RunningApplication, startApplication } from "./application.ts";
import { type Changes, OPERATIONS, subscribe } from "./deliveries.ts";
import { ask, graphqlOf, questions, restOf } from "./questions.ts";
import { readShapes, type Shape } from "./shapes.ts";

/** A request and its answer, over REST or GraphQL. The answer may have more than `json` and `data`. */
export type Step = { readonly as?: string } & (
  | {
      readonly rest: string;
      readonly body?: unknown;
      readonly schema?: string;
      readonly status: number;
      readonly json?: unknown;
    }
  | { readonly gql: string; readonly data?: unknown; readonly codes?: readonly string[] }
);

/** An application with what its tests need to know. */
export type TestedApplication = Application & {
  /** Those of DB_SCHEMAS. */
  readonly schemas: readonly string[];
  /** The claims of each caller. Undefined claims are those of an anonymous caller. */
  readonly callers: Readonly<Record<string, object | undefined>>;
  /** Those of the anon key of supabase-js. Without one, each caller sends their token as the key. */
  readonly anonClaims?: object;
  /** The role that claims name. */
  roleOf(claims: object | undefined): string | null;
  /** Calls that change nothing, in both languages, with equal results: `rpc/search?q=x` and `{ search(q: "x") { … } }`. */
  readonly functions: readonly FunctionCall[];
  readonly steps: readonly Step[];
  readonly changes: readonly Changes[];
  /** What npx content-service advise finds, without the names of roles, and why it is true. */
  readonly findings: Readonly<Record<string, string>>;
};

type FunctionCall = {
  readonly as: string;
  readonly schema?: string;
  readonly rest: string;
  readonly gql: string;
  /** The result of REST, by that of GraphQL. */
  result(data: any): unknown;
};

/** With `pg_dump` of the same version. */
const DEBIAN_15 = "/usr/lib/postgresql/15/bin";
const hasDump = existsSync(`${DEBIAN_15}/pg_dump`);
if (!hasDump) console.warn(`skipped: comparing dumps, because ${DEBIAN_15} is missing: apt-get install postgresql-15`);

const SEED = 20_261_123;
const QUESTIONS = samples(300);

/** The tests that the service passes on the database of every application. They share one database and one service. */
export function testApplication(application: TestedApplication): void {
  const { schemas, callers, roleOf } = application;
  let cluster: ScratchCluster | undefined;
  let running: RunningApplication;
  let before: string;
  let shapes: readonly Shape[];

  beforeAll(async () => {
    cluster = hasDump ? await startScratchCluster(DEBIAN_15) : undefined;
    running = await startApplication(application, {
      settings: { GRAPHQL_MAX_COMPLEXITY: "100000" },
      clusterUrl: cluster?.url("postgres") ?? inject("clusterUrl"),
      prepare: async ({ owner, url }, environment) => {
        before = await dump(url);
        // The statement that the doctor prints is everything that changes need.
        const { stdout } = await outcomeOf(doctor([], environment));
        await owner.query(/create publication .*? with \([^)]*\)/.exec(stdout)![0]);
      },
    });
    const roles = Object.values(callers).map((claims) => running.withRoles(roleOf(claims) ?? ""));
    const reader = Object.values(callers).find((claims) => claims !== undefined);
    shapes = await readShapes(
      running,
      schemas,
      roles.filter((role) => role !== ""),
      reader,
    );
  });
  afterAll(async () => {
    await running?.stop();
    await cluster?.remove();
  });

  test("npx content-service advise finds only what is true", async () => {
    const { stdout } = await outcomeOf(adviseCommand(["--json"], running.environment));
    const found = JSON.parse(stdout).findings.map(({ rule, object }: any) => `${rule} ${object}`);
    const prefix = `${running.database.name}_`;
    expect(found.map((finding: string) => finding.replaceAll(prefix, application.prefix)).sort()).toEqual(
      Object.keys(application.findings).sort(),
    );
  });

  test.each(Object.keys(callers))("GET returns the rows that %s sees in SQL, and no others", async (caller) => {
    const claims = callers[caller];
    for (const shape of shapes) {
      const expected = await rowsInSql(running, shape, claims, roleOf(claims));
      const path = `${shape.name}?select=${expected?.columns ?? ""}&order=${shape.key.map(({ name }) => name)}`;
      const { status, json } = await running.rest(path, claims, { headers: { "accept-profile": shape.schema } });
      if (expected) expect([path, status, json]).toEqual([path, 200, expected.rows]);
      else expect([path, status]).toEqual([path, claims === undefined ? 401 : 403]);
    }
  });

  test(`${QUESTIONS} random questions get the answers of REST, without an internal error`, async () => {
    let answered = 0;
    await fc.assert(
      fc.asyncProperty(questions(shapes), fc.constantFrom(...Object.keys(callers)), async (question, caller) => {
        const claims = callers[caller];
        const { graphql, rest } = await ask(running, question, claims);
        const status = (rest as any).status as number | undefined;
        if (status === undefined) answered++;
        const denied = claims === undefined ? [401, "AUTH_REQUIRED"] : [403, "PERMISSION_DENIED"];
        const codes = (graphql as any).codes as string[] | undefined;
        const isEqual =
          status === undefined
            ? isDeepStrictEqual(graphql, rest)
            : status === denied[0] && codes?.every((code) => code.startsWith(`${denied[1]}: `));
        if (isEqual) return;
        throw new Error(
          [
            `as ${caller}: ${graphqlOf(question)}`,
            `with filter ${JSON.stringify(question.condition?.filter)} of ${question.condition?.column.field}`,
            `GET ${question.selection.shape.schema}: ${restOf(question)}`,
            `GraphQL: ${JSON.stringify(graphql)}`,
            `REST: ${JSON.stringify(rest)}`,
          ].join("\n"),
        );
      }),
      { numRuns: QUESTIONS, seed: SEED },
    );
    expect(answered).toBeGreaterThanOrEqual(QUESTIONS / 2);
  });

  test("functions return the same over REST and GraphQL", async () => {
    for (const { as, schema = schemas[0]!, rest, gql, result } of application.functions) {
      const { data, errors } = await running.gql(gql, callers[as]);
      expect([gql, errors]).toEqual([gql, undefined]);
      const { json } = await running.rest(rest, callers[as], { headers: { "accept-profile": schema } });
      expect([gql, result(data)]).toEqual([gql, json]);
    }
  });

  test.skipIf(!hasDump)("after all of these reads, pg_dump writes the same bytes as before the start", async () => {
    expect(await dump(running.database.url)).toBe(before);
  });

  test("writes take effect, or are refused with the reason", async () => {
    for (const step of application.steps) {
      const claims = step.as === undefined ? undefined : callers[step.as];
      if ("gql" in step) {
        const { data, errors } = await running.gql(step.gql, claims);
        expect([step.gql, data, errors?.map(({ extensions }) => extensions.code)]).toEqual([
          step.gql,
          step.data === undefined ? data : expect.objectContaining(step.data as object),
          step.codes,
        ]);
      } else {
        const [method, path] = step.rest.split(" ") as [string, string];
        const schema = step.schema ?? schemas[0]!;
        const headers = { prefer: "return=representation", "accept-profile": schema, "content-profile": schema };
        const { status, json } = await running.rest(path, claims, { method, body: step.body, headers });
        expect([step.rest, status, json]).toEqual([step.rest, step.status, step.json ?? expect.anything()]);
      }
    }
  });

  test("INSERT, UPDATE and DELETE are delivered, or refused with the reason", async () => {
    const expected: Record<string, unknown> = {};
    const outcomes: Record<string, unknown> = {};
    const keyOf = (claims: object | undefined) => running.token(application.anonClaims ?? claims ?? {});
    const subscriptions = [];
    for (const changes of application.changes) {
      const shape = shapes.find(({ schema, name }) => `${schema}.${name}` === changes.table)!;
      subscriptions.push({
        changes,
        watched: await subscribe(running, shape, callers[changes.as], keyOf(callers[changes.as])),
      });
    }
    for (const { changes, watched } of subscriptions) {
      for (const [i, operation] of OPERATIONS.entries()) {
        await running.database.owner.query(changes.sql[i]!);
        const name = `${operation} of ${changes.table}`;
        const refusal = changes.refused?.[operation];
        outcomes[name] = await watched.outcome(operation);
        const [onChannel, inGraphql = onChannel] = refusal ?? [];
        expected[name] = [onChannel, inGraphql].map((reason) =>
          reason === undefined ? "delivered" : expect.stringContaining(reason),
        );
      }
    }
    expect(outcomes).toEqual(expected);
  });

  test.skipIf(!hasDump)("after writes and subscriptions, the schema is the same", async () => {
    const schemaOf = (text: string) =>
      text.replace(/^COPY .*?^\\\.$/gms, "").replace(/^SELECT pg_catalog\.setval.*$/gm, "");
    expect(schemaOf(await dump(running.database.url))).toBe(schemaOf(before));
  });
}

/** Without publications: a DBA creates that of the service. */
async function dump(url: string): Promise<string> {
  if (!hasDump) return "";
  const options = ["--no-publications", "--restrict-key=fixed", url];
  return (await promisify(execFile)(`${DEBIAN_15}/pg_dump`, options, { maxBuffer: 1e9 })).stdout;
}

/** The rows of a table as the caller sees them, and the columns that they may read; null if there are none. */
async function rowsInSql(
  { database, withRoles, token }: RunningApplication,
  shape: Shape,
  claims: object | undefined,
  role: string | null,
) {
  if (role === null) return null;
  const { owner } = database;
  const table = `${owner.escapeIdentifier(shape.schema)}.${owner.escapeIdentifier(shape.name)}`;
  const { rows } = await owner.query(
    `select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped
       and has_schema_privilege($2, $3, 'usage') and has_column_privilege($2, attrelid, attnum, 'select') order by attnum`,
    [table, withRoles(role), shape.schema],
  );
  if (rows.length === 0) return null;
  const columns = rows.map(({ name }) => owner.escapeIdentifier(name)).join();
  const key = shape.key.map(({ name }) => owner.escapeIdentifier(name)).join();
  const payload =
    claims === undefined
      ? { role: withRoles(role) }
      : JSON.parse(atob(token(claims).split(".")[1]!.replace(/-/g, "+").replace(/_/g, "/")));
  await owner.query("begin");
  try {
    await owner.query("select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)", [
      withRoles(role),
      JSON.stringify(payload),
    ]);
    const result = await owner.query(
      `select coalesce(json_agg(t), '[]') as rows from (select ${columns} from ${table} order by ${key}) as t`,
    );
    return { columns: rows.map(({ name }) => name).join(), rows: result.rows[0].rows };
  } finally {
    await owner.query("rollback");
  }
}
