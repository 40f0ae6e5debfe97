import jwt from "jsonwebtoken";
import type { Logger } from "pino";
import type { Answer, GqlOptions, TestService } from "../support/service.ts";
import { type Application, type Reply, type RunningApplication, startApplication } from "./application.ts";

const SECRET = "the secret of the application, for HS256";

export type Role = "anon" | "user" | "support";

export type TrackitOptions = Omit<GqlOptions, "as"> & {
  /** The number of a user. Without one the caller is anonymous. */
  readonly as?: number;
};

/** The service on a database of another application, whose rules it does not know: see trackit/*.sql. */
export type Trackit = Pick<TestService, "url" | "service" | "database"> & {
  /** `trackit.role("user")` → `test_0123456789_user` */
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
  stop: RunningApplication["stop"];
};

const id = (letter: string) => (n: number) => `00000000-0000-4000-${letter}000-${String(n).padStart(12, "0")}`;
export const organisationId = id("a");
export const userId = id("b");
export const projectId = id("c");
export const taskId = id("d");

export const TRACKIT: Application = {
  files: ["trackit/schema.sql", "trackit/access.sql", "trackit/data.sql"],
  prefix: "trackit_",
  login: "trackit_api",
  settings: { DB_ANON_ROLE: "trackit_anon", JWT_SECRET: SECRET },
  sign: (claims) => jwt.sign(claims, SECRET),
};

/** The claims of user `n`. */
export const claimsOf = (n: number, role: Role = "user") => ({ role: `trackit_${role}`, sub: userId(n) });

/** `settings` are environment variables, with roles named as in trackit/*.sql. */
export async function startTrackit(
  settings: Readonly<Record<string, string>> = {},
  log?: Logger,
  /** SQL that the owner of the cluster runs before the service starts, with roles named as in trackit/*.sql. */
  change = "",
): Promise<Trackit> {
  const running = await startApplication(TRACKIT, { settings, change, ...(log && { log }) });
  const { url, service, database, withRoles, environment, stop } = running;
  const claims = (as: number | undefined) => (as === undefined ? undefined : claimsOf(as));
  return {
    url,
    service,
    database,
    role: (name) => withRoles(`trackit_${name}`),
    loginUrl: environment.DATABASE_URL!,
    secret: SECRET,
    token: (n, role) => running.token(claimsOf(n, role)),
    gql: (query, { as, ...options } = {}) => running.gql(query, claims(as), options),
    rest: (path, { as, ...sent } = {}) => running.rest(path, claims(as), sent),
    async change(sql) {
      await database.owner.query(`${withRoles(sql)}; notify pgrst, 'reload schema'`);
    },
    stop,
  };
}
