import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeAll } from "vitest";
import { anonymous, type Caller } from "../../db/caller.ts";
import { ChangeFeed } from "../../db/changes/feed.ts";
import { provisionLogins } from "../../db/cluster/provision.ts";
import { type Head, RequestNotes } from "../../gate/pipeline/exchange.ts";
import type { RequestIdentity } from "../../identity/caller-resolver.ts";
import { Lifecycle } from "../../rest-gateway/conventions/version.ts";
import { CurrentResources } from "../../rest-gateway/resources/current.ts";
import type { Description } from "../../rest-gateway/resources/description.ts";
import { ResourceInterface } from "../../rest-gateway/resources/index.ts";
import { PreferenceParser } from "../../rest-gateway/resources/parse/headers.ts";
import { openCore } from "../../service/core.ts";
import { createTestDatabase } from "./database.ts";
import { type ApiReply, type ApiSent, sendTo } from "./resource-client.ts";
import { FEW_CONNECTIONS } from "./rights.ts";

export type OwnResources = {
  /** `as` is the id of the signed-in user. */
  api(request: string, sent?: Omit<ApiSent, "as"> & { readonly as?: number }): Promise<ApiReply>;
  /** Runs SQL as the owner of the database. */
  sql(text: string, ...values: unknown[]): Promise<any[]>;
  /** The descriptions, looked up in the current database, and why they are invalid. */
  describe(...descriptions: readonly Description[]): CurrentResources & { readonly invalid: readonly string[] };
};

const ANONYMOUS = anonymous("anon");
const head = (): Head => ({
  requestId: "a request",
  headers: ["X-Request-Id", "a request"],
  notes: new RequestNotes(),
});

/** A server with resources that the service itself does not have, on a test database with their tables. */
export function useOwnResources(ddl: string, descriptions: readonly Description[]): OwnResources {
  let url: string;
  let client: Pick<OwnResources, "sql" | "describe">;
  beforeAll(async () => {
    const test = await createTestDatabase();
    await test.owner.query(ddl);
    const logins = await provisionLogins(test.owner, test.url, "a secret for the tests of resources");
    const settings = { ...FEW_CONNECTIONS, dbSchemas: ["public"], dbExtraSearchPath: [] };
    const { database, catalog, close } = await openCore(settings, "catalog", { logins, anonymousRoles: [] });
    const describe = (...given: readonly Description[]) => {
      const invalid: string[] = [];
      const onInvalidDescription = (reason: string) => invalid.push(reason);
      const options = { descriptions: given, catalog, onInvalidDescription };
      return Object.assign(new CurrentResources(options), { invalid });
    };
    const resources = new ResourceInterface({
      resources: describe(...descriptions),
      database,
      catalog,
      feed: new ChangeFeed({ source: null, maxBytes: 0, openTimeout: 0 }),
      anonymousRole: "anon",
      limits: { bodyLimit: 1_048_576, jsonMaxDepth: 100, apiMaxRecords: 1000, passwords: null },
      preferences: new PreferenceParser([]),
      lifecycle: new Lifecycle({ status: "supported", sunset: null, guide: "" }),
      endpoints: new Map(),
      // These resources have no accounts.
      auth: undefined as never,
      tasks: null,
      onInternalError: (error) => console.error(error),
    });
    const server = createServer((request, response) => {
      const { "x-user": id } = request.headers;
      const caller = () => (id === undefined ? ANONYMOUS : signedIn(String(id)));
      const identity = {
        caller,
        nameOf: () => null,
        address: "127.0.0.1",
        network: "127.0.0.1",
      } as Partial<RequestIdentity> as RequestIdentity;
      void resources.handle({ request, response, head: head(), identity, countMore() {} });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    client = { describe, sql: async (text, ...values) => (await test.owner.query(text, values)).rows };
    return async () => {
      server.close();
      server.closeAllConnections();
      await close();
      await test.drop();
    };
  });
  return {
    api: (request, { as, ...sent } = {}) =>
      sendTo(url, request, as === undefined ? sent : { ...sent, headers: { ...sent.headers, "X-User": String(as) } }),
    sql: (text, ...values) => client.sql(text, ...values),
    describe: (...given) => client.describe(...given),
  };
}

const signedIn = (sub: string): Caller => ({
  role: "authenticated",
  claims: { sub },
  expiresAt: null,
  refused: null,
});
