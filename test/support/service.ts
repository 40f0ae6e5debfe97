import type { Logger } from "pino";
import { applicationOf } from "../../app/application.ts";
import { type Definition, NO_APPLICATION } from "../../app/load.ts";
import type { Config } from "../../config/config.ts";
import { createLog } from "../../gate/pipeline/log.ts";
import { type Service, startService } from "../../server.ts";
import type { Limits } from "../../service/limits.ts";
import type { Tracer } from "../../telemetry/span.ts";
import { hashCheaply } from "./cluster.ts";
import { readConfig, settingsOf } from "./config.ts";
import { count } from "./counts.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { DEMO } from "./demo.ts";

/** A GraphQL response as a client receives it. */
export type Answer = {
  readonly status: number;
  readonly headers: Headers;
  readonly data?: any;
  readonly errors?: { message: string; path?: (string | number)[]; extensions: { code: string; requestId?: string } }[];
};

export type TestService = {
  readonly url: string;
  readonly service: Service;
  readonly database: TestDatabase;
  /** `gql("{ me { id } }", { as: "ada" })` */
  gql(query: string, options?: GqlOptions): Promise<Answer>;
  /** The access token of a demo account: ada (1), bob (2), admin (3). The user has just signed in, if `signIn` says nothing else. */
  token(user: DemoUser, signIn?: TestSignIn): string;
  /** What `/health` reports to an operator. */
  health(): Promise<any>;
  stop(): Promise<void>;
};

export type TestSignIn = { readonly epoch?: number; readonly session?: string; readonly signedInAt?: number };
export type DemoUser = "ada" | "bob" | "admin";
export type GqlOptions = {
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly operationName?: string;
  readonly as?: DemoUser;
  readonly headers?: Readonly<Record<string, string>>;
};

const USERS: Record<DemoUser, { id: string; name: string; role: string; permissions: string[] }> = {
  ada: { id: "1", name: "Ada Lovelace", role: "authenticated", permissions: [] },
  bob: { id: "2", name: "Bob Kahn", role: "authenticated", permissions: [] },
  admin: { id: "3", name: "Administrator", role: "admin", permissions: [] },
};

export const JWT_SECRET = "a secret of the tests, long enough for HS256";

/** Settings of the environment, and limits, which have no variable: `{ PORT: "0", restMaxEmbeds: 3 }`. */
export type TestSettings = { readonly [setting: Uppercase<string>]: string } & Limits;

/** The configuration of the settings, without the limits. */
export const readTestConfig = (settings: TestSettings, definition = NO_APPLICATION): Config =>
  readConfig(ofType("string", settings), settingsOf(definition));

/** The limits among the settings. */
export const limitsIn = (settings: TestSettings): Limits => ofType("number", settings);

const ofType = (type: "string" | "number", settings: TestSettings): any =>
  Object.fromEntries(Object.entries(settings).filter(([, value]) => typeof value === type));

/** The real service with the demo on a new database, which is dropped at the end. `settings` are for `readTestConfig`; `log` and `clock` replace those of the service. */
export async function startTestService(
  settings: TestSettings = {},
  given?: TestDatabase,
  log?: Logger,
  clock?: () => number,
  {
    buildsGraphQL = false,
    definition = DEMO,
    tracer,
  }: { readonly buildsGraphQL?: boolean; readonly definition?: Definition; readonly tracer?: Tracer } = {},
): Promise<TestService> {
  count("services");
  const database = given ?? (await createTestDatabase());
  const all: TestSettings = {
    DATABASE_URL: database.url,
    JWT_SECRET,
    PORT: "0",
    LOG_LEVEL: "silent",
    SEED: "none",
    RATE_LIMIT: "0",
    // On a busy machine, a request that waits for the lock of a test may take longer.
    dbAnonStatementTimeout: 0,
    // On a busy machine, many requests at once may take longer than a burst may.
    dbPoolQueue: 0,
    maxQueueTime: 0,
    // A replication slot waits for the transactions of all tests that run on the server.
    changesOpenTimeout: 60_000,
    // Only few tests are about them.
    ADVISOR: "off",
    TASK_CONCURRENCY: "0",
    ...settings,
  };
  const config = readTestConfig(all, definition);
  const service = await startService(config, log ?? createLog(config.logLevel), {
    application: applicationOf(definition, config),
    limits: limitsIn(all),
    hashPassword: hashCheaply,
    // Most files have no GraphQL request.
    defersGraphQL: !buildsGraphQL,
    ...(clock && { clock }),
    ...(tracer && { tracer }),
  });
  const token = (user: DemoUser, { epoch = 0, ...session }: TestSignIn = {}) => {
    const refreshToken = service.tokens.issueRefresh(USERS[user].id);
    const pair = { signedInAt: Date.now(), ...session, refreshToken };
    return service.tokens.issuePair({ ...USERS[user], epoch }, pair).accessToken;
  };
  return {
    url: service.url,
    service,
    database,
    token,
    health: () => healthOf(service),
    gql: (query, options = {}) => post(service.url, query, options, options.as && token(options.as)),
    async stop() {
      await service.stop();
      await database.drop();
    },
  };
}

/** What `/health` reports to an operator. */
export async function healthOf({ url, tokens }: Pick<Service, "url" | "tokens">): Promise<any> {
  const apikey = tokens.issueKey("service_role");
  return (await fetch(`${url}/health`, { headers: { apikey } })).json();
}

async function post(
  url: string,
  query: string,
  { variables, operationName, headers }: GqlOptions,
  token?: string,
): Promise<Answer> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token && { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: JSON.stringify({ query, variables, operationName }),
  });
  return { status: response.status, headers: response.headers, ...((await response.json()) as object) };
}
