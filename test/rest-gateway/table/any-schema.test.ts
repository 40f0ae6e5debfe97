import fc from "fast-check";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { quoted, randomSchema } from "../../support/random-schema.ts";
import { samples } from "../../support/samples.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const SEED = 20_261_121;
const RUNS = samples(4);

const logged: {
  readonly level: number;
  readonly msg: string;
  readonly requestId?: string;
  readonly err?: { readonly code: string; readonly message: string };
}[] = [];
const log = pino({ level: "info" }, { write: (line: string) => void logged.push(JSON.parse(line)) });
let database: TestDatabase;
let service: TestService;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.owner.query(`
    drop event trigger announce_schema_change;
    drop event trigger announce_schema_drop;
    create extension postgres_fdw;
    create server unreachable foreign data wrapper postgres_fdw options (host '127.0.0.1', port '1');
    create foreign data wrapper handlerless;
    create server handlerless foreign data wrapper handlerless`);
  const { name, owner, url } = database;
  await owner.query(`
    create role ${name}_login login noinherit password 'secret';
    grant anon to ${name}_login;
    grant connect on database ${name} to ${name}_login`);
  await renew([]);
  const login = new URL(url);
  login.username = `${name}_login`;
  login.password = "secret";
  const settings = {
    MIGRATE: "off",
    DATABASE_URL: login.href,
    DB_SCHEMAS: "zoo",
    API_KEY_REQUIRED: "off",
    dbAnonStatementTimeout: 2000,
  };
  service = await startTestService(settings, database, log);
});
afterAll(async () => {
  const { name, owner } = database;
  await owner.query(`drop schema zoo cascade; drop owned by ${name}_login; drop role ${name}_login`).catch(() => {});
  await service.stop();
});

/** Replaces the schema by one with the statements that Postgres accepts, and a few tables that must always be served. */
async function renew(statements: readonly string[]): Promise<string[]> {
  const { owner } = database;
  await owner.query(`
    drop schema if exists zoo cascade;
    create schema zoo;
    grant usage on schema zoo to anon;
    alter default privileges in schema zoo grant all on tables to anon;
    alter default privileges in schema zoo grant execute on functions to anon;
    set search_path = zoo;
    create table zoo."control one" (id int primary key, "the name" text);
    create table zoo.control_two (id int primary key, one int references zoo."control one");
    create view zoo.control_view as select id, one from zoo.control_two;
    insert into zoo."control one" values (1, 'x');
    insert into zoo.control_two values (2, 1);
    begin`);
  const accepted: string[] = [];
  for (const statement of statements) {
    await owner.query("savepoint before");
    await owner.query(statement).then(
      () => accepted.push(statement),
      () => owner.query("rollback to savepoint before"),
    );
  }
  await owner.query("commit; reset search_path");
  return accepted;
}

type Relation = {
  readonly oid: number;
  readonly kind: string;
  readonly name: string;
  readonly isPartition: boolean;
  readonly comment: string | null;
  /** `zoo."the name"` */
  readonly label: string;
  /** The number of columns that callers may read. */
  readonly columns: number;
};
const token = ({ oid }: Relation) => `relation ${oid}`;

/** What Postgres responds to a caller who reads everything: the number of rows, or the code of the error. */
async function readByPostgres({ name }: Pick<Relation, "name">): Promise<string> {
  const { owner } = database;
  try {
    await owner.query(
      "begin; set local role anon; set local search_path = zoo, public; set local statement_timeout = '2s'",
    );
    const { rows } = await owner.query(`select to_json(t.*)::text as row from zoo.${quoted(name)} as t limit 1000`);
    return `${rows.length} rows`;
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await owner.query("rollback");
  }
}

async function readByService({ name }: Pick<Relation, "name">): Promise<string | undefined> {
  const response = await fetch(`${service.url}/rest/v1/${encodeURIComponent(name)}`);
  const body = (await response.json()) as any;
  if (response.ok) return `${body.length} rows`;
  // The cause of a masked error is in the log.
  const id = response.headers.get("x-request-id");
  return body.code === "PGRSTX00" ? logged.find((line) => line.err && line.requestId === id)?.err?.code : body.code;
}

const relations = async (): Promise<Relation[]> =>
  (
    await database.owner.query(
      `select oid, relname as name, relispartition as "isPartition",
         obj_description(oid, 'pg_class') as comment, format('zoo.%I', relname) as label,
         (select count(*)::int from pg_attribute
          where attrelid = oid and attnum > 0 and not attisdropped and has_column_privilege('anon', oid, attnum, 'select')) as columns,
         case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end as kind
       from pg_class
       where relnamespace = 'zoo'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f') order by oid`,
    )
  ).rows;

/** Each table has a field in GraphQL that responds when Postgres does, or /health says that it is left out. */
async function expectGraphQL(round: number, all: readonly Relation[], context: () => string): Promise<void> {
  const types = await graphqlTypes(`Round${round}`, context);
  const { omissions } = await graphqlHealth();
  const root: readonly Field[] = types.find(({ name }) => name === "Query")!.fields!;
  for (const relation of all) {
    const type = types.find(({ description }) => description === token(relation))?.name;
    const field = root.find(({ type: { ofType, name } }) => (ofType?.name ?? name) === `${type}Connection`)?.name;
    const response = await readByPostgres(relation);
    if (field === undefined) {
      const isLeftOut = relation.isPartition || relation.columns === 0 || response === "42501";
      const because = isLeftOut || omissions.some((each) => each.includes(relation.label));
      expect([relation.label, because || relation.comment], context()).not.toEqual([relation.label, token(relation)]);
    } else if (response.endsWith("rows")) {
      const { errors } = await service.gql(`{ ${field}(first: 2) { totalCount edges { node { __typename } } } }`);
      expect([relation.label, errors], context()).toEqual([relation.label, undefined]);
    }
    if (relation.label.includes("control")) expect(field, context()).toMatch(/^control/);
  }
}

async function graphqlHealth(): Promise<{ schema: string; omissions: readonly string[] }> {
  const { details } = await service.health();
  return { omissions: [], ...details.graphql };
}

type Type = { readonly name: string };
type Field = { readonly name: string; readonly type: Type & { readonly ofType: Type | null } };
type Described = Type & { readonly description: string | null; readonly fields: readonly Field[] | null };

/** The types of GraphQL, as soon as this one is among them. */
async function graphqlTypes(awaited: string, context: () => string): Promise<readonly Described[]> {
  const query = "{ __schema { types { name description fields { name type { name ofType { name } } } } } }";
  let types: readonly Described[] = [];
  const read = async () => {
    const { data, errors } = await service.gql(query);
    types = data?.__schema.types ?? [];
    return types.some(({ name }) => name === awaited) ? "served" : (errors ?? (await graphqlHealth()).schema);
  };
  await expect.poll(read, { message: context() }).toBe("served");
  return types;
}

const CONTROL = "/rest/v1/control_two?select=id,one(the:%22the%20name%22)";

test("whatever a schema contains, the start and the reload serve each of its tables as Postgres does, and describe it", async () => {
  let round = 0;
  await fc.assert(
    fc.asyncProperty(randomSchema, async (statements) => {
      const accepted = await renew(statements);
      logged.length = 0;
      for (const each of (await relations()).filter(({ comment }) => comment === null))
        await database.owner.query(`comment on ${each.kind} ${each.label} is '${token(each)}'`);
      round++;
      await database.owner.query(`create view zoo.round_${round} as select 1 as id; notify pgrst`);
      const context = () => `${accepted.join(";\n")};\n-- ${JSON.stringify(logged.slice(-6))}\n`;
      await expect.poll(() => readByService({ name: `round_${round}` }), { message: context() }).toBe("1 rows");
      const control = await fetch(service.url + CONTROL);
      expect(await control.json(), context()).toEqual([{ id: 2, one: { the: "x" } }]);

      const all = await relations();
      for (const relation of all) {
        const expected = relation.isPartition ? "PGRST205" : await readByPostgres(relation);
        expect([relation.name, await readByService(relation)], context()).toEqual([relation.name, expected]);
      }

      await expectGraphQL(round, all, context);

      const document = (await (await fetch(`${service.url}/rest/v1/`)).json()) as any;
      // A table of this name has the path.
      const typesUrl = `${service.url}/rest/v1/types.ts`;
      const hasTypes = !all.some(({ name }) => name === "types.ts");
      const types = hasTypes ? await (await fetch(typesUrl)).text() : undefined;
      for (const { name } of all.filter((each) => /control/.test(each.name))) {
        expect(Object.keys(document.paths), context()).toContain(`/${encodeURIComponent(name)}`);
        expect(types ?? name, context()).toContain(name);
      }
      const openApi = await fetch(`${service.url}/rest/v1/`, {
        headers: { accept: "application/openapi+json;version=3" },
      });
      expect(openApi.status, context()).toBe(200);
    }),
    { seed: SEED, numRuns: RUNS, endOnFailure: true },
  );
}, 600_000);
