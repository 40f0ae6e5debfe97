import type { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { hashCheaply } from "../support/cluster.ts";
import { sendTo } from "../support/resource-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { appCode } from "../support/totp.ts";
import {
  applicationOf,
  connected,
  EMBEDDED,
  type ForeignServer,
  signInSql,
  startForeignServer,
} from "./foreign-server.ts";

const PASSWORD = "Correct-Horse-7!";
const SETTINGS = {
  MIGRATE: "modules",
  MODULES: "auth,tasks,channels",
  GRAPHQL_DOCUMENTS: "any",
  API_KEY_REQUIRED: "off",
  SIGNUP: "off",
};

/** The login of the other application, which has rights on its tables and none on what the service adds. */
const SUPPORT = `
  create role shop_support login password 'support';
  grant shop_support to current_user;
  grant usage on schema public to shop_support;
  grant select, insert, update, delete on public.users, public.notes to shop_support;
  alter table public.users add password_hash text, add deactivated_at timestamptz;
  create function public.add_account() returns trigger language plpgsql security definer set search_path = '' as $$
  begin
    perform auth.try_add_account(new.id, new.name, new.email, new.password_hash);
    return null;
  end $$;
  create trigger add_account after insert on public.users for each row execute function public.add_account();
  create trigger replace_email after update on public.users
    for each row execute function auth_api.replace_email('id', 'email');
  create trigger replace_password after update on public.users
    for each row execute function auth_api.replace_password('id', 'password_hash');
  create trigger follow_name after update on public.users
    for each row execute function auth_api.follow_name('id', 'name');
  create trigger disable_account after update on public.users
    for each row when (new.deactivated_at is not null) execute function auth_api.disable_account('id');
  notify pgrst, 'reload schema'`;

/** After triggers that a statement of the application fires by foreign keys, with the text of their functions. */
const FIRED_BY_CASCADES = `
  with recursive changed (relation, event) as (
    select k.conrelid, e.event
    from pg_constraint as k
    join pg_class as c on c.oid = k.confrelid and c.relnamespace = 'public'::regnamespace
    cross join lateral (values
      (case k.confdeltype when 'c' then 8 when 'n' then 16 when 'd' then 16 end),
      (case when k.confupdtype in ('c', 'n', 'd') then 16 end)) as e (event)
    where k.contype = 'f' and e.event is not null
    union
    select k.conrelid, case when r.event = 8 and k.confdeltype = 'c' then 8 else 16 end
    from changed as r
    join pg_constraint as k on k.contype = 'f' and k.confrelid = r.relation
      and case when r.event = 8 then k.confdeltype else k.confupdtype end in ('c', 'n', 'd')
  )
  select distinct r.relation::regclass::text as table, p.oid::regprocedure::text as function, p.prosecdef as is_definer,
    p.proconfig as settings, p.prosrc as text
  from changed as r
  join pg_trigger as t on t.tgrelid = r.relation and not t.tgisinternal and (t.tgtype::integer & r.event) > 0
    and (t.tgtype::integer & 2) = 0
  join pg_proc as p on p.oid = t.tgfoid
  where r.relation in (
    select oid from pg_class where relnamespace in (
      select oid from pg_namespace where nspname ~ '^(auth|auth_private|auth_api|tasks|realtime|changes|content_service)$'))
  order by 1, 2`;

describe("a role with rights on its tables alone", () => {
  let server: ForeignServer;
  let started: TestService;
  let support: Client;
  beforeAll(async () => {
    server = await startForeignServer(undefined, EMBEDDED);
    const database = await server.makeDatabase("shop", applicationOf("uuid"));
    started = await startTestService(SETTINGS, database, undefined, undefined, { definition: NO_APPLICATION });
    await database.owner.query(signInSql("uuid"));
    await database.owner.query(SUPPORT);
    const login = { username: "shop_support", password: "support" };
    support = await connected(Object.assign(new URL(database.url), login).href);
  });
  afterAll(async () => {
    await support?.end();
    await started?.stop();
    await server?.cluster.remove();
  });

  /** Runs a statement of the other application, and returns the ids. */
  const asSupport = async (text: string, values: unknown[] = []): Promise<string[]> =>
    (await support.query(text, values)).rows.map(({ id }) => id);

  const add = async (email: string): Promise<string> =>
    (
      await asSupport("insert into public.users (email, name, password_hash) values ($1, 'Ada', $2) returning id", [
        email,
        await hashCheaply(PASSWORD),
      ])
    )[0]!;
  const accounts = async (id: string) =>
    (await started.database.owner.query("select from auth_private.accounts where user_id = $1", [id])).rowCount;

  /** A user with an account and a second factor. */
  async function addWithFactor(email: string): Promise<string> {
    const id = await add(email);
    const send = (request: string, token?: string, body?: object) =>
      sendTo(started.url, request, { body, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } });
    const { accessToken } = (await send("POST /auth/login", undefined, { username: email, password: PASSWORD })).json;
    const { secret } = (await send("POST /api/mfa/enable", accessToken)).json;
    expect((await send(`POST /api/mfa/verify?code=${appCode(secret, Date.now())}`, accessToken)).status).toBe(200);
    return id;
  }

  const withServiceKey = (request: string) => {
    const key = started.service.tokens.issueKey("service_role");
    return sendTo(started.url, request, { headers: { apikey: key, authorization: `Bearer ${key}` } });
  };

  test("adds, changes and deletes users, and their accounts follow", async () => {
    const id = await addWithFactor("ada@example.com");
    expect(await accounts(id)).toBe(1);
    await asSupport(
      "update public.users set email = 'new@example.com', name = 'Bea', password_hash = $2, deactivated_at = now() where id = $1",
      [id, await hashCheaply("Another-Horse-8!")],
    );
    expect(await asSupport("delete from public.users where id = $1 returning id", [id])).toEqual([id]);
    expect(await accounts(id)).toBe(0);
    await asSupport("delete from public.users");
  });

  test("reads in a warning why a user has no account, or no password", async () => {
    const warnings: (string | undefined)[] = [];
    support.on("notice", ({ message }) => void warnings.push(message));
    const insert = "insert into public.users (email, name, password_hash) values ($1, $2, $3) returning id";
    const [unusable] = await asSupport(insert, ["", "", "!"]);
    const [cut] = await asSupport(insert, ["cut@example.com", "Cut", "$2a$06$"]);
    const [costly] = await asSupport(insert, ["costly@example.com", "Costly", await hashCheaply(PASSWORD)]);
    await asSupport("update public.users set password_hash = replace(password_hash, 'm=', 'm=99999') where id = $1", [
      costly,
    ]);
    expect(warnings).toEqual([
      `user ${unusable} has no account: email must be a valid address`,
      `user ${cut} has no password: the hash is malformed or beyond the limits`,
      `user ${costly} has no password: the hash is malformed or beyond the limits`,
    ]);
    const { rows } = await started.database.owner.query(
      "select from auth_private.accounts where password_hash is null",
    );
    expect(rows).toHaveLength(2);
    await asSupport("delete from public.users");
  });

  test("lets the service key delete users in the table and as accounts", async () => {
    await started.database.owner.query("grant shop_support to service_role; notify pgrst, 'reload schema'");
    const ada = await addWithFactor("ada@example.com");
    const bob = await addWithFactor("bob@example.com");
    await expect
      .poll(async () => (await withServiceKey("GET /rest/v1/users?select=id&order=email")).json)
      .toEqual([{ id: ada }, { id: bob }]);
    expect((await withServiceKey("DELETE /rest/v1/users?email=eq.ada@example.com")).status).toBe(204);
    expect((await withServiceKey(`DELETE /auth/admin/users/${bob}`)).status).toBe(204);
    expect([await accounts(ada), await accounts(bob)]).toEqual([0, 0]);
  });

  test("fires no trigger function that needs a right on what the service adds", async () => {
    const { rows } = await started.database.owner.query(FIRED_BY_CASCADES);
    expect(rows.map(({ table }) => table)).toEqual(
      expect.arrayContaining(["auth_private.accounts", "auth_private.factors", "auth_private.passkeys"]),
    );
    // After triggers run in the role of the statement, also those of rows that a cascade deletes.
    const unsafe = rows.filter(({ is_definer, settings, text }) =>
      is_definer
        ? !settings?.includes('search_path=""')
        : /\b(auth|auth_private|auth_api|tasks|realtime|changes|content_service)\./.test(text),
    );
    expect(unsafe).toEqual([]);
  });
});
