import { readFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { PASSWORD, useAuth } from "../parts/supabase-auth/support.ts";
import { startTestService } from "../support/service.ts";

const [statements] = /(?<=```sql\n)[^`]*(?=```)/.exec(readFileSync("docs/from-supabase.md", "utf8"))!;

/** As migrations of Supabase projects have it. */
const MIGRATION = `
  create table public.profiles (
    id uuid primary key default uuid_generate_v4(),
    user_id uuid not null unique references auth.users on delete cascade,
    full_name text
  );
  alter table public.profiles enable row level security;
  create policy "own profile" on public.profiles for select using (auth.uid() = user_id);
  create policy "own profile, changed" on public.profiles for update
    using (auth.role() = 'authenticated' and (auth.jwt() ->> 'sub')::uuid = user_id and auth.email() like '%@test.example');
  create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = '' as $$
  begin
    if new.raw_user_meta_data ->> 'full_name' = '' then raise exception 'a name is needed'; end if;
    insert into public.profiles (user_id, full_name) values (new.id, new.raw_user_meta_data ->> 'full_name');
    return new;
  end $$;
  create trigger on_auth_user_created after insert on auth.users for each row execute procedure public.handle_new_user();`;

const { client, sql, service } = useAuth("uuid");
beforeAll(async () => {
  await sql(statements);
  // The search path of the database holds for new connections.
  await sql(`set search_path = "$user", public, extensions; ${MIGRATION}`);
  await service().database.owner.query("notify pgrst, 'reload schema'");
});

const profilesOf = async (caller: ReturnType<typeof client>) =>
  (await caller.from("profiles").select("user_id, full_name")).data;

test("the statements of docs/from-supabase.md are enough for profiles of users, which follow their accounts", async () => {
  const ada = client();
  const credentials = { email: "ada@test.example", password: PASSWORD };
  const { data } = await ada.auth.signUp({ ...credentials, options: { data: { full_name: "Ada Lovelace" } } });
  const id = data.user!.id;
  await expect.poll(() => profilesOf(ada)).toEqual([{ user_id: id, full_name: "Ada Lovelace" }]);
  expect(await profilesOf(client())).toEqual([]);
  const changed = await ada.from("profiles").update({ full_name: "Ada" }).eq("user_id", id).select("full_name");
  expect(changed.data).toEqual([{ full_name: "Ada" }]);

  await ada.auth.updateUser({ data: { theme: "dark" } });
  await client().auth.signInWithPassword(credentials);
  const read = "select email, raw_user_meta_data as data, last_sign_in_at is not null as has_signed_in from auth.users";
  expect(await sql(read)).toEqual([
    { email: "ada@test.example", data: { full_name: "Ada Lovelace", theme: "dark" }, has_signed_in: true },
  ]);

  const refused = await client().auth.signUp({
    email: "bob@test.example",
    password: PASSWORD,
    options: { data: { full_name: "" } },
  });
  expect(refused.error).not.toBeNull();
  expect(await sql(read)).toHaveLength(1);

  expect((await client("service_role").auth.admin.deleteUser(id)).error).toBeNull();
  expect(await sql("select from auth.users union all select from public.profiles")).toEqual([]);
});

test("a later start leaves them as they are", async () => {
  const settings = { MIGRATE: "modules", MODULES: "auth", AUTH_USER_ID: "uuid" };
  const again = await startTestService(settings, service().database, undefined, undefined, {
    definition: NO_APPLICATION,
  });
  await again.service.stop();
  const { data } = await client().auth.signUp({ email: "eve@test.example", password: PASSWORD });
  expect(await sql("select user_id::text from public.profiles")).toEqual([{ user_id: data.user!.id }]);
});
