import { describe, expect, test } from "vitest";
import type { Role } from "../../db/catalog/catalog.ts";
import { StatementTimeouts } from "../../db/transaction/identity.ts";
import { useRest } from "../support/rest-client.ts";

const role = (name: string, timeout: string): [string, Role] => [
  name,
  {
    name,
    inherits: new Set(),
    mayBecome: new Set(),
    isSuperuser: false,
    bypassesRowSecurity: false,
    settings: [
      ["work_mem", "9MB"],
      ["statement_timeout", timeout],
    ],
  },
];

describe("without settings of roles,", () => {
  test.each([
    ["the shorter limit", 10_000, 5000, 5000],
    ["the limit of everyone if it is shorter", 1000, 5000, 1000],
    ["a limit even if others have none", 0, 5000, 5000],
    ["the limit of everyone if they have no separate one", 10_000, 0, 10_000],
    ["no limit if there is none", 0, 0, 0],
  ])("anonymous callers have %s", (_what, everyone, anonymous, expected) => {
    const timeouts = new StatementTimeouts({ everyone, anonymous, anonymousRoles: ["anon", "users_editor"] });
    expect([timeouts.of("anon"), timeouts.of("users_editor"), timeouts.of("authenticated")]).toEqual([
      expected,
      expected,
      everyone,
    ]);
  });
});

test.each([
  ["3s", 3000],
  ["250", 250],
  ["1.5 min", 90_000],
  ["2h", 7_200_000],
  ["1d", 86_400_000],
  ["7000us", 7],
  ["0", 0],
])(
  "a role with statement_timeout = '%s' has a limit of %d ms, longer or shorter than the default",
  (text, expected) => {
    const timeouts = new StatementTimeouts({ everyone: 10_000, anonymous: 5000, anonymousRoles: ["anon"] });
    timeouts.follow(new Map([role("anon", text), role("clerk", text)]));
    expect([timeouts.of("anon"), timeouts.of("clerk"), timeouts.of("other")]).toEqual([expected, expected, 10_000]);
    timeouts.follow(new Map());
    expect([timeouts.of("anon"), timeouts.of("clerk")]).toEqual([5000, 10_000]);
  },
);

/** Functions and a trigger that show the limit of the transaction. */
const SHOW = `
  create function public.my_timeout() returns text language sql stable return current_setting('statement_timeout');
  grant execute on function public.my_timeout() to anon, authenticated, service_role;
  create function public.keep_timeout() returns trigger language plpgsql as $$
  begin new.name := current_setting('statement_timeout'); return new; end $$;
  create trigger keep_timeout before update on public.users for each row execute function public.keep_timeout();`;
const setRole = (text: string) => `
  do $$ begin execute format('alter role authenticated in database %I ', current_database()) || $q$${text}$q$; end $$;
  notify pgrst, 'reload schema'`;

describe("dbAnonStatementTimeout limits callers without credentials, and the setting of a role its callers", () => {
  const settings = { USERS_WRITE: "open", dbAnonStatementTimeout: 4000, GRAPHQL_DOCUMENTS: "any" };
  const { service, rows, sql } = useRest(settings, SHOW + setRole("set statement_timeout = '3s'"));

  test("in GraphQL", async () => {
    const { gql } = service();
    expect(await gql("{ myTimeout }")).toMatchObject({ data: { myTimeout: "4s" } });
    expect(await gql("{ myTimeout }", { as: "ada" })).toMatchObject({ data: { myTimeout: "3s" } });
  });

  test("in the resources, for open changes too", async () => {
    const change = async (headers: Record<string, string>) => {
      const init = { method: "PATCH", body: '{"age":40}', headers: { "content-type": "application/json", ...headers } };
      const response = await fetch(`${service().url}/users/1`, init);
      return ((await response.json()) as { name: string }).name;
    };
    expect(await change({})).toBe("4s");
    expect(await change({ authorization: `Bearer ${service().token("ada")}` })).toBe("3s");
  });

  test("in the table interface, and a change of the setting applies after a reload", async () => {
    expect(await rows("rpc/my_timeout")).toBe("4s");
    expect(await rows("rpc/my_timeout", { as: "ada" })).toBe("3s");
    expect(await rows("rpc/my_timeout", { as: "service" })).toBe("10s");
    await sql(setRole("reset statement_timeout"));
    await expect.poll(() => rows("rpc/my_timeout", { as: "ada" })).toBe("10s");
  });
});
