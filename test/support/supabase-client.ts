import { readFileSync } from "node:fs";
import { createClient, type SupabaseClient, type SupabaseClientOptions } from "@supabase/supabase-js";
import { useRest } from "./rest-client.ts";
import type { DemoUser } from "./service.ts";

/** The result of an awaited request. */
export type Answering = PromiseLike<{ readonly data: any; readonly error: any; readonly status: number }>;

/** The Supabase clients of a test file for a separate service, created as applications do. */
export type SupabaseClients = {
  /** With the anonymous key: the content, in the client's default schema. */
  content(): SupabaseClient<any, any>;
  /** The same in the schema `cinema`. */
  cinema(): SupabaseClient<any, any>;
  clientOf(key: "anon" | "service_role", options?: SupabaseClientOptions<any>): SupabaseClient<any, any>;
  /** With the anonymous key and a user's token. */
  clientAs(user: DemoUser): SupabaseClient<any, any>;
  url(): string;
  token(user: DemoUser): string;
  sql(text: string): Promise<any[]>;
};

const SCHEMA = `${readFileSync(new URL("../rest-gateway/table/cinema.sql", import.meta.url), "utf8")}
  grant usage on schema cinema to service_role;
  grant select on all tables in schema cinema to service_role;`;
const SETTINGS = {
  DB_SCHEMAS: "public, cinema, archive",
  DB_TX_END: "commit-allow-override",
  DB_PLAN: "on",
  GRAPHQL_DOCUMENTS: "none",
};

export function useSupabase(): SupabaseClients {
  const { service, sql } = useRest(SETTINGS, SCHEMA);
  const clientOf: SupabaseClients["clientOf"] = (key, options) => {
    const { url, service: own } = service();
    return createClient(url, own.tokens.issueKey(key), { auth: { persistSession: false }, ...options });
  };
  const token = (user: DemoUser) => service().token(user);
  return {
    content: once(() => clientOf("anon")),
    cinema: once(() => clientOf("anon", { db: { schema: "cinema" } })),
    clientOf,
    clientAs: (user) => clientOf("anon", { accessToken: async () => token(user) }),
    url: () => service().url,
    token,
    sql,
  };
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** The result of a successful request; throws after a failure. */
export async function dataOf(request: Answering): Promise<any> {
  const { data, error } = await request;
  if (error) throw new Error(JSON.stringify(error));
  return data;
}

/** `[404, "PGRST205"]` */
export async function failureOf(request: Answering): Promise<[status: number, code: string]> {
  const { status, error } = await request;
  return [status, error?.code];
}
