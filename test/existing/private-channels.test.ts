import { readFile } from "node:fs/promises";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import jwt from "jsonwebtoken";
import pino from "pino";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { organisationId, startTrackit, type Trackit } from "./trackit.ts";

/** As Supabase creates it: with partitions, and without the one that a message of today would need. */
const MESSAGES = `
  create schema realtime;
  create table realtime.messages (
    topic text not null, extension text not null, payload jsonb, event text, private boolean default false,
    updated_at timestamp not null default now(), inserted_at timestamp not null default now(),
    id uuid not null default gen_random_uuid(), primary key (id, inserted_at)
  ) partition by range (inserted_at);
  alter table realtime.messages enable row level security;
  create function realtime.topic() returns text language sql stable as
    $$ select nullif(current_setting('realtime.topic', true), '')::text; $$;
  grant usage on schema realtime to trackit_anon, trackit_user, trackit_support;
  grant select, insert, update on realtime.messages to trackit_anon, trackit_user, trackit_support;`;

/** A topic is the id of an organisation. Owners and admins send broadcasts, every member is present. */
const POLICIES = `
  create policy "members receive" on realtime.messages for select to trackit_user using (
    realtime.messages.extension in ('broadcast', 'presence')
    and (select realtime.topic()) in (select m.organisation_id::text from public.members as m)
  );
  create policy "guests receive nothing" on realtime.messages as restrictive for select to trackit_user
    using (not app_private.has_role(topic::uuid, 'guest'));
  create policy "owners broadcast" on realtime.messages for insert to trackit_user
    with check (extension = 'broadcast' and app_private.has_role(realtime.topic()::uuid, 'owner', 'admin'));
  create policy "members are present" on realtime.messages for insert to trackit_user
    with check (extension = 'presence' and app_private.has_role(realtime.topic()::uuid, 'owner', 'admin', 'member'));`;

let trackit: Trackit;
/** The log of the service. */
const lines: string[] = [];
beforeAll(async () => {
  const log = pino({ level: "info" }, { write: (line: string) => lines.push(JSON.parse(line).msg) });
  trackit = await startTrackit({ GRAPHQL_DOCUMENTS: "none" }, log, MESSAGES + POLICIES);
});
afterAll(() => trackit.stop());

const clients: SupabaseClient[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) void client.realtime.disconnect();
});

/** The owner, an admin, a member and a guest of organisation 5, and the owner of organisation 1. */
const [OWNER, MEMBER, GUEST, STRANGER] = [4, 14, 19, 5];
const TOPIC = organisationId(5);

/** With the anonymous key of the application, as in a browser. */
function connect(token: string): SupabaseClient {
  const key = jwt.sign({ role: trackit.role("anon") }, trackit.secret);
  const client = createClient(trackit.url, key, { auth: { persistSession: false }, accessToken: async () => token });
  clients.push(client);
  return client;
}

async function join(client: SupabaseClient, name = TOPIC, config: object = {}) {
  const states: string[] = [];
  const received: any[] = [];
  const system: string[] = [];
  await client.realtime.setAuth();
  const channel = client.channel(name, { config: { private: true, ...config } });
  channel
    .on("broadcast", { event: "*" }, (message) => received.push(message.payload))
    .on("system" as never, {} as never, (({ message }: any) => system.push(message)) as never)
    .subscribe((status, error) => states.push(error ? `${status}: ${error.message}` : status));
  await expect.poll(() => states.length).toBeGreaterThan(0);
  return { channel, states, received, system };
}

const joinAs = (n: number, config: object = {}) => join(connect(trackit.token(n)), TOPIC, config);
const refusal = (verb: string) => `Unauthorized: You do not have permissions to ${verb} this Channel topic: ${TOPIC}`;
const UNREAD = `CHANNEL_ERROR: ${refusal("read from")}`;

test("the policies of a database from Supabase decide who joins a private channel", async () => {
  expect((await joinAs(OWNER)).states).toEqual(["SUBSCRIBED"]);
  expect((await joinAs(MEMBER)).states).toEqual(["SUBSCRIBED"]);
  expect((await joinAs(GUEST)).states[0]).toBe(UNREAD);
  expect((await joinAs(STRANGER)).states[0]).toBe(UNREAD);
  expect((await join(connect(trackit.token(1, "anon")))).states[0]).toBe(UNREAD);
  // No policy restricts the role of the support team.
  expect((await join(connect(trackit.token(1, "support")))).states).toEqual(["SUBSCRIBED"]);
  expect((await trackit.database.owner.query("select from realtime.messages")).rows).toEqual([]);
});

test("the policies for insert decide who sends broadcasts, and who is present", async () => {
  const config = { broadcast: { ack: true } };
  const [owner, member] = [await joinAs(OWNER, config), await joinAs(MEMBER, config)];
  expect(await owner.channel.send({ type: "broadcast", event: "x", payload: { from: "owner" } })).toBe("ok");
  await expect.poll(() => member.received).toEqual([{ from: "owner" }]);
  expect(await member.channel.send({ type: "broadcast", event: "x", payload: {} })).toBe("error");
  expect(member.system).toEqual([refusal("write to")]);
  expect(await member.channel.track({ mood: "glad" })).toBe("ok");
  await expect(
    connect(trackit.token(MEMBER))
      .channel(TOPIC, { config: { private: true } })
      .httpSend("x", {}),
  ).rejects.toThrow("permissions to write");
  const sender = connect(trackit.token(OWNER));
  await sender.realtime.setAuth();
  expect(await sender.channel(TOPIC, { config: { private: true } }).httpSend("x", { by: "http" })).toEqual({
    success: true,
  });
  await expect.poll(() => member.received).toEqual([{ from: "owner" }, { by: "http" }]);
});

test("a new token is checked again: with fewer rights it ends the channel, with others it changes who may send", async () => {
  const client = connect(trackit.token(MEMBER));
  const { channel, states, system } = await join(client, TOPIC, { broadcast: { ack: true } });
  const send = () => channel.send({ type: "broadcast", event: "x", payload: {} });
  expect(await send()).toBe("error");
  await client.realtime.setAuth(trackit.token(OWNER));
  await expect.poll(send).toBe("ok");
  await client.realtime.setAuth(trackit.token(STRANGER));
  await expect.poll(() => system.at(-1)).toBe(refusal("read from"));
  await expect.poll(() => states.slice(1).join()).toContain("CHANNEL_ERROR");
});

test("a changed policy, an error in one and a missing grant count for the next join", async () => {
  const owner = (text: string) => trackit.database.owner.query(text);
  const user = trackit.role("user");
  expect((await joinAs(GUEST)).states[0]).toBe(UNREAD);
  await owner(`alter policy "guests receive nothing" on realtime.messages using (true)`);
  expect((await joinAs(GUEST)).states).toEqual(["SUBSCRIBED"]);
  await owner(`alter policy "guests receive nothing" on realtime.messages using (topic::integer > 0)`);
  expect((await joinAs(GUEST)).states[0]).toMatch(
    /^CHANNEL_ERROR: Unauthorized: invalid input syntax for type integer/,
  );
  await owner(`alter policy "guests receive nothing" on realtime.messages using (true)`);
  await owner(`revoke select on realtime.messages from ${user}`);
  expect((await joinAs(OWNER)).states[0]).toBe(UNREAD);
  await owner(`grant select on realtime.messages to ${user}; revoke usage on schema realtime from ${user}`);
  expect((await joinAs(OWNER)).states[0]).toBe(UNREAD);
  await owner(`grant usage on schema realtime to ${user}; revoke usage on schema app_private from ${user}`);
  expect((await joinAs(OWNER)).states[0]).toBe("CHANNEL_ERROR: Unauthorized: permission denied for schema app_private");
  expect(lines).toContainEqual(
    expect.stringContaining(`${user} was refused: permission denied for schema app_private`),
  );
  await owner(`grant usage on schema app_private to ${user}`);
  expect((await joinAs(OWNER)).states).toEqual(["SUBSCRIBED"]);
});

/** The SQL of the documentation that creates the table. */
async function documented(): Promise<string> {
  const text = await readFile(new URL("../../docs/realtime.md", import.meta.url), "utf8");
  const [, sql] = /```sql\n(create schema realtime;.*?)```/s.exec(text)!;
  return sql!.replace(/\bto anon, authenticated\b/g, `to ${trackit.role("anon")}, ${trackit.role("user")}`);
}

test("without the table, private channels are refused with the reason, until it is created", async () => {
  await trackit.database.owner.query("alter schema realtime rename to old_realtime");
  expect((await joinAs(OWNER)).states[0]).toBe(
    "CHANNEL_ERROR: RealtimeDisabledForConfiguration: this database has no table realtime.messages, whose policies decide who may use private channels",
  );
  await trackit.database.owner.query(`${await documented()}
    create policy p on realtime.messages for select using (app_private.has_role(realtime.topic()::uuid, 'owner'))`);
  expect((await joinAs(OWNER)).states).toEqual(["SUBSCRIBED"]);
  expect((await joinAs(MEMBER)).states[0]).toBe(UNREAD);
});
