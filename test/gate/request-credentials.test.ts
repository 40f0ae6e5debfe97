import { describe, expect, test } from "vitest";
import { connect } from "../support/graphql-client.ts";
import { useRest } from "../support/rest-client.ts";

const DDL = `
  create function public.sent() returns json language sql stable set search_path = ''
    return json_build_object('headers', current_setting('request.headers')::json, 'cookies', current_setting('request.cookies')::json);
  grant execute on function public.sent() to anon, authenticated;
  create table public.heard (headers json);
  create function public.hear() returns trigger language plpgsql security definer set search_path = '' as $$
  begin
    insert into public.heard values (current_setting('request.headers')::json);
    return new;
  end $$;
  create trigger _100_hear before update on public.articles for each row execute function public.hear();`;

const CREDENTIALS = ["apikey", "authorization", "cookie", "x-api-key", "x-csrf-token"];

/** What a function of the database sees of the request, by the interface. */
function useInterfaces(settings: Readonly<Record<string, string>>) {
  const { service, rows, sql } = useRest({ GRAPHQL_DOCUMENTS: "any", ...settings }, DDL);
  const bearer = () => ({ authorization: `Bearer ${service().token("ada")}` });
  return {
    table: (headers: Readonly<Record<string, string>> = {}) => rows("rpc/sent", { as: "ada", headers }),
    async resource() {
      const headers = { "content-type": "application/json", ...bearer() };
      const body = JSON.stringify({ title: "A title that is heard" });
      await fetch(`${service().url}/articles/1`, { method: "PATCH", headers, body });
      return { headers: (await sql("select headers from heard"))[0].headers };
    },
    async graphql() {
      const { data } = await service().gql("{ sent }", { as: "ada" });
      return typeof data.sent === "string" ? JSON.parse(data.sent) : data.sent;
    },
    async socket() {
      const { data } = (await connect(service(), { headers: bearer() }).run("{ sent }")) as { data: { sent: unknown } };
      return typeof data.sent === "string" ? JSON.parse(data.sent) : data.sent;
    },
  };
}

const INTERFACES = ["table", "resource", "graphql", "socket"] as const;

describe("with the sign-in of the service, functions read the headers of a request", () => {
  const seen = useInterfaces({});

  test.each(INTERFACES)("without credentials, on the interface %s", async (name) => {
    const { headers } = await seen[name]();
    expect(headers).toHaveProperty("host");
    // It is random: with it, no two subscribers would share a read.
    expect(headers).not.toHaveProperty("sec-websocket-key");
    for (const credential of CREDENTIALS) expect(headers).not.toHaveProperty(credential);
  });

  test("and cookies without those of sessions, sign-ins, confirmations, forms and the console", async () => {
    const own = ["console", "__Host-sign-in", "__Host-sign-in-post", "__Host-registered", "__Host-account"];
    const cookie = [...own.map((name) => `${name}=secret`), "console-theme=light", "theme=dark"].join("; ");
    expect((await seen.table({ cookie })).cookies).toEqual({ "console-theme": "light", theme: "dark" });
  });
});

describe("with DB_REQUEST_CREDENTIALS=on, functions read the headers of a request", () => {
  const seen = useInterfaces({ DB_REQUEST_CREDENTIALS: "on", API_KEY_REQUIRED: "off" });

  test.each(INTERFACES)("with the token, on the interface %s", async (name) => {
    const { headers } = await seen[name]();
    expect(headers).toMatchObject({ host: expect.any(String), authorization: expect.stringMatching(/^Bearer \S+$/) });
    expect(headers).not.toHaveProperty("sec-websocket-key");
  });

  test("with keys, cookies and the token against forgery", async () => {
    const sent = { cookie: "SESSION=of another service; theme=dark", "x-csrf-token": "a token" };
    const { headers, cookies } = await seen.table(sent);
    expect(headers).toMatchObject({ ...sent, apikey: expect.stringMatching(/^ey/) });
    expect(cookies).toEqual({ SESSION: "of another service", theme: "dark" });
  });
});
