import { readFile } from "node:fs/promises";
import jwt from "jsonwebtoken";
import type { Logger } from "pino";
import { inject } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { type Answer, type GqlOptions, startTestService, type TestService } from "../support/service.ts";

const SECRET = "the secret of the application, for HS256";
const FILES = ["schema.sql", "access.sql", "data.sql"];

export type Role = "anon" | "user" | "support";

export type TrackitOptions = Omit<GqlOptions, "as"> & {
  /** The number of a user. Without one the caller is anonymous. */
  readonly as?: number;
};

export type Reply = { readonly status: number; readonly headers: Headers; readonly json: any };

/** The service on a database of another application, whose rules it does not know: see trackit/*.sql. */
export type Trackit = Pick<TestService, "url" | "service" | "database"> & {
  /** `trackit.role("user")` → `test_0123456789_user`: roles belong to the cluster, so each database has its own. */
  role(name: Role | "api" | "owner"): string;
  /** The connection string of the login that the service uses. */
  readonly loginUrl: string;
  /** The secret that signs the tokens of the application. */
  readonly secret: string;
  /** A token of the application for user `n`. */
  token(n: number, role?: Role): string;
  /** `gql("{ me { id } }", { as: 1 })` */
  gql(query: string, options?: TrackitOptions): Promise<Answer>;
  /** `rest("tasks?select=id", { as: 1 })`: GET, or POST with a body. */
  rest(path: string, sent?: { method?: string; body?: unknown; as?: number; headers?: object }): Promise<Reply>;
  /** Runs SQL as the owner of the cluster, with roles named as in trackit/*.sql, and announces the change to the service. */
  change(sql: string): Promise<void>;
  /** Stops the service and drops the database and its roles. */
  stop(): Promise<void>;
};

const id = (letter: string) => (n: number) => `00000000-0000-4000-${letter}000-${String(n).padStart(12, "0")}`;
export const organisationId = id("a");
export const userId = id("b");
export const projectId = id("c");
export const taskId = id("d");

/** `settings` are environment variables, with roles named as in trackit/*.sql. */
export async function startTrackit(
  settings: Readonly<Record<string, string>> = {},
  log?: Logger,
  /** SQL that the owner of the cluster runs before the service starts, with roles named as in trackit/*.sql. */
  change = "",
): Promise<Trackit> {
  const database = await createTestDatabase(inject("clusterUrl"), "template1");
  const withRoles = (sql: string) => sql.replaceAll("trackit_", `${database.name}_`);
  for (const file of FILES) {
    await database.owner.query(withRoles(await readFile(new URL(`trackit/${file}`, import.meta.url), "utf8")));
  }
  await database.owner.query(withRoles(change));
  const role = (name: string) => withRoles(`trackit_${name}`);
  const login = new URL(database.url);
  Object.assign(login, { username: role("api"), password: "secret" });
  const environment = {
    DATABASE_URL: login.href,
    MIGRATE: "off",
    DB_ANON_ROLE: role("anon"),
    JWT_SECRET: SECRET,
    API_KEY_REQUIRED: "off",
    ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, withRoles(value)])),
  };
  const { url, service, gql } = await startTestService(environment, database, log);
  const token = (n: number, name: Role = "user") => jwt.sign({ role: role(name), sub: userId(n) }, SECRET);
  const headersOf = (as: number | undefined): Record<string, string> =>
    as === undefined ? {} : { authorization: `Bearer ${token(as)}` };
  return {
    url,
    service,
    database,
    role,
    loginUrl: login.href,
    secret: SECRET,
    token,
    gql: (query, { as, headers, ...options } = {}) =>
      gql(query, { ...options, headers: { ...headersOf(as), ...headers } }),
    async rest(path, { method, body, as, headers } = {}) {
      const response = await fetch(`${url}/rest/v1/${path}`, {
        method: method ?? (body === undefined ? "GET" : "POST"),
        headers: { "content-type": "application/json", ...headersOf(as), ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, json: text && JSON.parse(text) };
    },
    async change(sql) {
      await database.owner.query(`${withRoles(sql)}; notify pgrst, 'reload schema'`);
    },
    async stop() {
      await service.stop();
      const roles = ["api", "anon", "user", "support", "owner"].map(role).join();
      await database.owner.query(`drop owned by ${roles} cascade; drop role ${roles}`);
      await database.drop();
    },
  };
}
