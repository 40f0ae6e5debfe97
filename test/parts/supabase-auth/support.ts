import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { beforeAll, inject } from "vitest";
import { NO_APPLICATION } from "../../../app/load.ts";
import { createTestDatabase } from "../../support/database.ts";
import { type Reply, send, sentJson } from "../../support/http-client.ts";
import { startTestService, type TestService, type TestSettings } from "../../support/service.ts";

export const PASSWORD = "Correct-Horse-7!";

/** A service with users of one type of ids, as `createClient(BASE_URL, anonKey)` sees it. */
export type AuthService = {
  service(): TestService;
  /** A client of its own, which keeps its session in memory. */
  client(key?: "anon" | "service_role"): SupabaseClient;
  /** A new user, who is signed in. */
  newUser(): Promise<{ readonly client: SupabaseClient; readonly email: string; readonly id: string }>;
  sql(text: string, ...values: unknown[]): Promise<any[]>;
  /** The status and the body of a request, with the anon key and a token. */
  send(request: string, sent?: { body?: unknown; token?: string; headers?: Record<string, string> }): Promise<Reply>;
};

/** `bigint`: the demo. `uuid`: a database without tables. */
export const KINDS = ["bigint", "uuid"] as const;
export type Kind = (typeof KINDS)[number];

export function useAuth(kind: Kind, settings: TestSettings = {}, clock?: () => number): AuthService {
  let started: TestService;
  beforeAll(async () => {
    const own = { MIGRATE: "modules", MODULES: "auth", AUTH_USER_ID: "uuid", ...settings };
    started =
      kind === "bigint"
        ? await startTestService(settings, undefined, undefined, clock)
        : await startTestService(own, await createTestDatabase(inject("clusterUrl"), "template0"), undefined, clock, {
            definition: NO_APPLICATION,
          });
    return () => started.stop();
  }, 120_000);
  const client: AuthService["client"] = (key = "anon") =>
    createClient(started.url, started.service.tokens.issueKey(key), {
      auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    });
  return {
    service: () => started,
    client,
    async newUser() {
      const own = client();
      const email = `user${++users}@test.example`;
      const { data, error } = await own.auth.signUp({ email, password: PASSWORD });
      if (error) throw error;
      return { client: own, email, id: data.user!.id };
    },
    sql: async (text, ...values) => (await started.database.owner.query(text, values)).rows,
    send(request, { body, token, headers = {} } = {}) {
      const [method, path] = request.split(" ") as [string, string];
      const apikey = started.service.tokens.issueKey("anon");
      const all = {
        apikey,
        authorization: `Bearer ${token ?? apikey}`,
        "content-type": "application/json",
        ...headers,
      };
      return send(started.url + path, { method, ...sentJson({ body: JSON.stringify(body), headers: all }) });
    },
  };
}

/** A client whose sign-ins at other pages return in this way. */
export const flowClient = ({ url, service }: TestService, flowType: "pkce" | "implicit"): SupabaseClient =>
  createClient(url, service.tokens.issueKey("anon"), {
    auth: { flowType, persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });

let users = 0;

/** `[400, "invalid_credentials"]` */
export const failureOf = ({ error }: { readonly error: { status?: number; code?: string | undefined } | null }) => [
  error?.status,
  error?.code,
];

/** The claims of an access token. */
export const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());
