import { randomUUID } from "node:crypto";
import { beforeEach } from "vitest";
import type { Tracer } from "../../telemetry/span.ts";
import { useOwnService } from "./http-client.ts";
import { type ApiReply, type ApiSent, sendTo } from "./resource-client.ts";
import type { DemoUser, TestService, TestSettings } from "./service.ts";
import { appCode } from "./totp.ts";

/** The password of the demo accounts. */
export const PASSWORD = "Correct-Horse-7!";
const MINUTE = 60_000;
const IDS: Readonly<Record<DemoUser, number>> = { ada: 1, bob: 2, admin: 3 };

export type Enrolled = {
  readonly secret: string;
  readonly backupCodes: readonly string[];
};

type Sent = Pick<ApiSent, "headers" | "body"> & { readonly as?: DemoUser };

/** The client of a test file for a service whose clock only the tests advance. Each test begins without second factors. */
export type FactorClient = {
  service(): TestService;
  api(request: string, sent?: Sent): Promise<ApiReply>;
  /** `[400, "VALIDATION_ERROR", "the code is wrong: …"]`; `[200, undefined, undefined]` for a success. */
  failure(request: string, sent?: Sent): Promise<[status: number, code?: string, message?: string]>;
  /** A new sign-in of a user without a code, and its access token. */
  signIn(user: DemoUser): Promise<string>;
  epochOf(user: DemoUser): Promise<number>;
  /** Enables the second factor of a user. Its codes can be used immediately. */
  enrol(user: DemoUser): Promise<Enrolled>;
  /** `login("ada", { code })`, for tokens. */
  login(user: DemoUser, more?: object): Promise<ApiReply>;
  /** The code that the app shows after this number of steps of 30 s. */
  codeOf(secret: string, steps?: number): string;
  now(): number;
  pass(milliseconds: number): void;
  /** Names of the security events, oldest first. */
  events(): Promise<string[]>;
  sql(text: string, ...values: unknown[]): Promise<any[]>;
};

/** `tracer` follows the requests. */
export function useFactors(settings: TestSettings = {}, tracer?: Tracer): FactorClient {
  let now = Date.now();
  const own = { settings: { GRAPHQL_DOCUMENTS: "none", ...settings }, clock: () => now, tracer };
  const { service, sql } = useOwnService(own);
  /** The token of each user in the running test, which stays valid when it enables a factor. */
  const tokens = new Map<DemoUser, string>();
  const epochOf = async (user: DemoUser) =>
    (await sql("select epoch from auth_private.accounts where user_id = $1", IDS[user]))[0]!.epoch;
  const signIn = async (user: DemoUser) => {
    const epoch = await epochOf(user);
    const [started] = await sql(
      "select auth_api.start_session($1, $2, null, sha256($3), null, null, $4, $5, 100) as session",
      ...[IDS[user], epoch, randomUUID(), new Date(now), new Date(now + 7 * 24 * 60 * MINUTE)],
    );
    return service().token(user, { epoch, session: started!.session, signedInAt: now });
  };
  beforeEach(async () => {
    tokens.clear();
    for (const table of ["factors", "passkeys", "backup_codes", "attempts", "security_events"])
      await sql(`delete from auth_private.${table}`);
  });
  const api = async (request: string, { as, headers, body }: Sent = {}) => {
    if (as && !tokens.has(as)) tokens.set(as, await signIn(as));
    const bearer = as && { authorization: `Bearer ${tokens.get(as)}` };
    return sendTo(service().url, request, { body, headers: { ...bearer, ...headers } });
  };
  return {
    service,
    api,
    signIn,
    epochOf,
    async failure(request, sent) {
      const { status, json } = await api(request, sent);
      return [status, json?.error?.code, json?.error?.message];
    },
    async enrol(user) {
      const begun = await api("POST /api/mfa/enable", { as: user });
      const { secret } = begun.json;
      const { status, json, text } = await api(`POST /api/mfa/verify?code=${appCode(secret, now)}`, { as: user });
      if (status !== 200) throw new Error(text);
      // The code that enabled the factor cannot be used again.
      now += 2 * MINUTE;
      return { secret, backupCodes: json.backupCodes };
    },
    login: (user, more = {}) => api("POST /auth/login", { body: { username: user, password: PASSWORD, ...more } }),
    codeOf: (secret, steps = 0) => appCode(secret, now + steps * 30_000),
    now: () => now,
    pass: (milliseconds) => {
      now += milliseconds;
    },
    events: async () => (await sql("select event from security_events order by id")).map(({ event }) => event),
    sql,
  };
}
