import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { promisify } from "node:util";
import pg from "pg";
import { type ScratchCluster, startScratchCluster } from "../../cli/scratch-cluster.ts";
import type { UserIdType } from "../../config/modules.ts";
import { describeDatabase } from "../../parts/development/migrations/describe.ts";
import type { TestDatabase } from "../support/database.ts";

const run = promisify(execFile);
export const DEBIAN_15 = "/usr/lib/postgresql/15/bin";

/** A PostgreSQL of the tests: the one of Debian, and the embedded one. */
export type Server = { readonly version: 15 | 18; readonly binaries: string | undefined };
export const DEBIAN: Server = { version: 15, binaries: DEBIAN_15 };
export const EMBEDDED: Server = { version: 18, binaries: undefined };
export const hasServer = existsSync(DEBIAN_15);
export const SERVERS: readonly Server[] = [...(hasServer ? [DEBIAN] : []), EMBEDDED];
if (!hasServer) console.warn("skipped: PostgreSQL 15, which is not installed: apt-get install postgresql-15");

export const ROLES = ["anon", "authenticated", "admin", "service_role", "auth_owner", "tasks_owner", "changes_owner"];
const SCHEMAS = "content_service auth auth_private auth_api tasks graphile_worker changes realtime".split(" ");

/** An application of another team: its own users, an extension in another schema, and nothing executable by everyone. */
const APPLICATION = (id: string, next: string) => `
  alter default privileges revoke execute on functions from public;
  create table public.users (id ${id} primary key default ${next}, email text not null unique, name text not null);
  create table public.notes (id integer primary key, owner_id ${id} not null references public.users, text text not null);
  create function public.count_notes() returns bigint language sql stable return (select count(*) from public.notes);
  create index notes_text_idx on public.notes using gin (text ext.gin_trgm_ops);`;

const NEXT: Readonly<Record<UserIdType, string>> = {
  uuid: "gen_random_uuid()",
  text: "'user-' || gen_random_uuid()",
  bigint: "nextval('public.ids')",
  integer: "nextval('public.ids')",
};

/** The tables of the other team, whose users have ids of this type. */
export const applicationOf = (type: UserIdType): string =>
  `create sequence public.ids; ${APPLICATION(type, NEXT[type])}`;

const PAGE = readFileSync("docs/existing-database.md", "utf8").split("### Sign-in beside your tables\n")[1]!;
/** The first block in this language of "Sign-in beside your tables" in docs/existing-database.md. */
export const blockOf = (language: string): string => new RegExp(`\`\`\`${language}\\n([^\`]*)\`\`\``).exec(PAGE)![1]!;

/** What the application adds for sign-in, as docs/existing-database.md says. */
export const signInSql = (type: UserIdType): string => blockOf("sql").replace("returns uuid", `returns ${type}`);

export async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

export type ForeignServer = {
  readonly cluster: ScratchCluster;
  /** A database whose owner is not a superuser, with this SQL. */
  makeDatabase(name: string, sql: string): Promise<TestDatabase>;
  /** The schemas of the application, as pg_dump writes them, or object by object on a server for which no npm package has a pg_dump. */
  dump(name: string): Promise<string>;
};

/** A server whose databases belong to `shop_owner`. A superuser has made the roles of the service, with this text. */
export async function startForeignServer(
  roles: string = MADE_ROLES,
  { binaries }: Server = DEBIAN,
): Promise<ForeignServer> {
  const cluster = await startScratchCluster(binaries);
  try {
    const root = await connected(cluster.url("postgres"));
    await root.query(`create role shop_owner login createrole password 'shop'; ${roles}`);
    await root.end();
  } catch (error) {
    await cluster.remove();
    throw error;
  }
  return {
    cluster,
    async makeDatabase(name, sql) {
      const root = await connected(cluster.url("postgres"));
      await root.query(`create database ${name} owner shop_owner`);
      await root.end();
      const superuser = await connected(cluster.url(name));
      await superuser.query(`create schema ext authorization shop_owner; create extension pg_trgm schema ext;
        grant execute on all functions in schema ext to shop_owner; alter schema public owner to shop_owner`);
      await superuser.end();
      const url = Object.assign(new URL(cluster.url(name)), { username: "shop_owner", password: "shop" }).href;
      const owner = await connected(url);
      await owner.query(sql);
      return { name, url, owner, drop: () => owner.end() };
    },
    async dump(name) {
      if (binaries === undefined) return describeApplication(cluster.url(name));
      const left = SCHEMAS.flatMap((schema) => ["-N", schema]);
      const args = ["--restrict-key=k", "--no-publications", ...left, cluster.url(name)];
      const { stdout } = await run(`${DEBIAN_15}/pg_dump`, args, { maxBuffer: 100_000_000 });
      return stdout;
    },
  };
}

/** Every object but those of the service and the roles. */
async function describeApplication(url: string): Promise<string> {
  const client = await connected(url);
  const lines = await describeDatabase(client);
  await client.end();
  const ofService = new RegExp(`^(role|membership|setting|publication) |^[^:]*\\b(${SCHEMAS.join("|")})\\b`);
  return lines.filter((line) => !ofService.test(line)).join("\n");
}

const MADE_ROLES = `
  ${ROLES.map((role) => `create role ${role}${role === "service_role" ? " bypassrls" : ""};`).join(" ")}
  grant authenticated to admin;
  grant ${ROLES.join(", ")} to shop_owner with admin option;`;
