import { readFile } from "node:fs/promises";
import type { Logger } from "pino";
import { inject } from "vitest";
import type { Definition } from "../../app/load.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type Answer, type GqlOptions, startTestService, type TestService } from "../support/service.ts";

/** An application that was written without this service. Its tables, roles and tokens are its own. */
export type Application = {
  /** The SQL of its database, relative to this folder, in order. */
  readonly files: readonly string[];
  /** With what the names of its roles begin. Roles belong to the cluster, so each database has its own: `shop_` → `test_0123456789_`. */
  readonly prefix: string;
  /** The login of the service. Its password is `secret`, as that of every login. */
  readonly login: string;
  /** The login that reads changes. */
  readonly feed?: string;
  /** Environment variables. Names of roles are those of the files. */
  readonly settings: Readonly<Record<string, string>>;
  /** A token of the application's issuer with these claims. */
  sign(claims: object): string;
};

export type Sent = { readonly method?: string; readonly body?: unknown; readonly headers?: object };
export type Reply = { readonly status: number; readonly headers: Headers; readonly json: any };

/** The service on the database of an application. Undefined claims are those of an anonymous caller. */
export type RunningApplication = Pick<TestService, "url" | "service" | "database"> & {
  /** The same text with the roles of this database: `shop_web` → `test_0123456789_web`. */
  withRoles(text: string): string;
  /** The environment variables with which the service runs. */
  readonly environment: Settings;
  token(claims: object): string;
  gql(query: string, claims?: object, options?: Omit<GqlOptions, "as">): Promise<Answer>;
  /** GET, or POST with a body: `rest("tasks?select=id")` */
  rest(path: string, claims?: object, sent?: Sent): Promise<Reply>;
  /** Stops the service and drops the database and its roles. */
  stop(): Promise<void>;
};

export type ApplicationOptions = {
  readonly settings?: Readonly<Record<string, string>>;
  readonly log?: Logger;
  /** SQL that the owner of the cluster runs before the service starts, with roles named as in the files. */
  readonly change?: string;
  /** Called before the service starts, with its settings. */
  readonly prepare?: (database: TestDatabase, environment: Settings) => Promise<void>;
  /** The application of the service; that of the demo unless it is given. */
  readonly definition?: Definition;
  /** Instead of the cluster of all tests. */
  readonly clusterUrl?: string;
};

type Settings = Readonly<Record<string, string>>;

export async function startApplication(
  { files, prefix, login, feed, settings, sign }: Application,
  {
    settings: more = {},
    log,
    change = "",
    prepare,
    definition,
    clusterUrl = inject("clusterUrl"),
  }: ApplicationOptions = {},
): Promise<RunningApplication> {
  const database = await createTestDatabase(clusterUrl, "template1");
  const withRoles = (text: string) => text.replaceAll(prefix, `${database.name}_`);
  for (const file of files) {
    await database.owner.query(withRoles(await readFile(new URL(file, import.meta.url), "utf8")));
  }
  await database.owner.query(withRoles(change));
  const environment = {
    DATABASE_URL: urlOf(database.url, withRoles(login)),
    ...(feed !== undefined && { CHANGES_URL: urlOf(database.url, withRoles(feed)) }),
    MIGRATE: "off",
    API_KEY_REQUIRED: "off",
    ...Object.fromEntries(Object.entries({ ...settings, ...more }).map(([name, value]) => [name, withRoles(value)])),
  };
  await prepare?.(database, environment);
  const { url, service, gql } = await startTestService(environment, database, log, undefined, {
    ...(definition && { definition }),
  });
  const token = (claims: object) => sign(JSON.parse(withRoles(JSON.stringify(claims))));
  const headersOf = (claims: object | undefined): Record<string, string> =>
    claims === undefined ? {} : { authorization: `Bearer ${token(claims)}` };
  return {
    url,
    service,
    database,
    withRoles,
    environment,
    token,
    gql: (query, claims, options = {}) =>
      gql(query, { ...options, headers: { ...headersOf(claims), ...options.headers } }),
    async rest(path, claims, { method, body, headers } = {}) {
      const response = await fetch(`${url}/rest/v1/${path}`, {
        method: method ?? (body === undefined ? "GET" : "POST"),
        headers: { "content-type": "application/json", ...headersOf(claims), ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, json: text && JSON.parse(text) };
    },
    async stop() {
      await service.stop();
      await database.owner.query(`do $$
        declare name text;
        begin
          for name in select rolname from pg_roles where rolname like '${database.name}\\_%' loop
            execute format('drop owned by %I cascade; drop role %I', name, name);
          end loop;
        end $$`);
      await database.drop();
    },
  };
}

function urlOf(databaseUrl: string, login: string): string {
  const url = new URL(databaseUrl);
  Object.assign(url, { username: encodeURIComponent(login), password: "secret" });
  return url.href;
}
