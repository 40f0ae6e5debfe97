import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { useRealtime } from "../support/realtime.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** Users receive in the private channel "den", where Ada sends. Changes of `rooms` are sent there. */
const DEN = `
  create policy "users receive" on realtime.messages for select to authenticated using (realtime.topic() = 'den');
  create policy "ada sends" on realtime.messages for insert to authenticated with check (auth.uid() = 1);
  create table public.rooms (id int primary key, name text);
  grant select, insert, update, delete on public.rooms to authenticated;
  alter table public.rooms enable row level security;
  create policy "open" on public.rooms using (true);
  create function public.send_room() returns trigger language plpgsql security definer set search_path = '' as $$
  begin
    perform realtime.broadcast_changes('den', tg_op, tg_op, tg_table_name, tg_table_schema, new, old);
    return null;
  end $$;
  create trigger send_room after insert or update or delete on public.rooms for each row execute function public.send_room();`;

const { client, service, sql } = useRealtime({}, DEN);
let second: TestService;
beforeAll(async () => {
  second = await startTestService({}, service().database);
  return () => second.service.stop();
});

/** A channel at one of two instances, and the broadcasts that it receives. */
async function join(made: ReturnType<typeof client>, topic: string, isPrivate = false) {
  const received: any[] = [];
  const states: string[] = [];
  await made.realtime.setAuth();
  const channel = made.channel(topic, { config: { private: isPrivate } });
  channel
    .on("broadcast", { event: "*" }, ({ event, payload }) => received.push([event, payload]))
    .subscribe((status) => states.push(status));
  await expect.poll(() => states, POLL).toEqual(["SUBSCRIBED"]);
  return received;
}

const joinBoth = async (topic: string) => [await join(client(), topic), await join(client({ url: second.url }), topic)];

/** Runs SQL in one transaction as a role. */
async function runAs(role: string, sub: string, text: string, ...values: unknown[]) {
  const { owner } = service().database;
  await owner.query("begin");
  try {
    await owner.query(`set local role ${role}`);
    await owner.query("select set_config('request.jwt.claims', $1, true)", [JSON.stringify({ sub, role })]);
    await owner.query(text, values);
    await owner.query("commit");
  } catch (error) {
    await owner.query("rollback");
    throw error;
  }
}

test("realtime.send reaches the channels of all instances once, in order, when the transaction is committed", async () => {
  const topic = randomUUID();
  const both = await joinBoth(topic);
  const { owner } = service().database;
  const send = (n: number) => owner.query("select realtime.send($1, 'count', $2, false)", [{ n }, topic]);
  await owner.query("begin");
  await send(0);
  await owner.query("rollback");
  await owner.query("begin");
  // Equal ones are not merged.
  for (const n of [1, 2, 2]) await send(n);
  await owner.query("commit");
  await send(3);
  const expected = [1, 2, 2, 3].map((n) => ["count", { n }]);
  for (const received of both) await expect.poll(() => received, POLL).toEqual(expected);
});

test("a broadcast from SQL has at most 256 kB", async () => {
  const topic = randomUUID();
  const both = await joinBoth(topic);
  const text = "\u{1f600}é%s'\\\n ".repeat(15_000);
  await sql("select realtime.send(jsonb_build_object('text', $1::text), 'long', $2, false)", text, topic);
  for (const received of both) await expect.poll(() => received, POLL).toEqual([["long", { text }]]);
  await expect(
    sql("select realtime.send(to_jsonb(repeat('x', 262144)), 'long', $1, false)", topic),
  ).rejects.toMatchObject({ code: "54000", message: "a broadcast has at most 262144 bytes" });
});

test("realtime.send_binary sends bytes, under the rules of realtime.send", async () => {
  const topic = randomUUID();
  const both = await joinBoth(topic);
  const bytes = Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 256));
  await sql("select realtime.send_binary($1, 'bytes', $2, false)", bytes, topic);
  await sql("select realtime.send_binary(null, 'none', $1, false)", topic);
  for (const received of both) {
    await expect.poll(() => received.length, POLL).toBe(2);
    expect(received.map(([event, payload]) => [event, Buffer.from(payload)])).toEqual([
      ["bytes", bytes],
      ["none", Buffer.from("")],
    ]);
  }
  const send = (size: number) =>
    sql("select realtime.send_binary(convert_to(repeat('x', $1), 'utf8'), 'x', 'a')", size);
  await expect(send(262_144)).rejects.toMatchObject({ code: "54000" });
  await expect(runAs("anon", "", "select realtime.send_binary('', 'x', 'a', false)")).rejects.toMatchObject({
    code: "42501",
  });
  await expect(runAs("authenticated", "2", "select realtime.send_binary('', 'x', 'den')")).rejects.toMatchObject({
    message: "You do not have permissions to write to this Channel topic: den",
  });
});

test("a broadcast from SQL has its id as meta, the same for all, and bytes reach version 2.0.0 only", async () => {
  const topic = randomUUID();
  const received = await Promise.all(
    ["1.0.0", "2.0.0", "2.0.0"].map(async (vsn) => {
      const messages: any[] = [];
      const channel = client({ realtime: { vsn } }).channel(topic);
      const joined = new Promise((resolve) => channel.subscribe(resolve));
      channel.on("broadcast", { event: "*" }, (message) => messages.push(message));
      expect(await joined).toBe("SUBSCRIBED");
      return messages;
    }),
  );
  await sql("select realtime.send_binary('\\x00ff', 'bytes', $1, false)", topic);
  await sql("select realtime.send('{}', 'json', $1, false)", topic);
  const [older, newer, other] = received as [any[], any[], any[]];
  for (const messages of received) await expect.poll(() => messages.at(-1)?.event, POLL).toBe("json");
  const id = expect.stringMatching(/^[0-9a-f-]{36}$/);
  expect(older).toEqual([{ type: "broadcast", event: "json", payload: {}, meta: { id } }]);
  expect(newer).toMatchObject([{ event: "bytes", meta: { id } }, older[0]]);
  expect(new Uint8Array(newer[0].payload)).toEqual(new Uint8Array([0, 255]));
  expect(newer[0].meta.id).not.toBe(newer[1].meta.id);
  expect(other.map(({ meta }) => meta)).toEqual(newer.map(({ meta }) => meta));
});

test("the channels are private unless the last argument is false, and without a payload it is an object", async () => {
  const inDen = await join(client({ as: "bob", url: second.url }), "den", true);
  const outside = await join(client(), "den");
  await sql("select realtime.send(null, 'private', 'den')");
  await sql("select realtime.send('5', 'public', 'den', false)");
  await expect.poll(() => inDen, POLL).toEqual([["private", {}]]);
  await expect.poll(() => outside, POLL).toEqual([["public", 5]]);
});

test("a trigger sends the changes of rows with broadcast_changes, also for writers who may not send", async () => {
  const inDen = await join(client({ as: "ada", url: second.url }), "den", true);
  await runAs("authenticated", "2", "insert into public.rooms values (1, 'attic')");
  await runAs("authenticated", "2", "update public.rooms set name = 'cellar'");
  await runAs("authenticated", "2", "delete from public.rooms");
  const of = { table: "rooms", schema: "public" };
  const [attic, cellar] = [
    { id: 1, name: "attic" },
    { id: 1, name: "cellar" },
  ];
  await expect
    .poll(() => inDen, POLL)
    .toEqual([
      ["INSERT", { ...of, operation: "INSERT", record: attic, old_record: null }],
      ["UPDATE", { ...of, operation: "UPDATE", record: cellar, old_record: attic }],
      ["DELETE", { ...of, operation: "DELETE", record: null, old_record: cellar }],
    ]);
});

test("anon may not call realtime.send; users may send where the policies let them, and everyone with a right on public channels", async () => {
  const inDen = await join(client({ as: "bob" }), "den", true);
  const outside = await join(client(), "den");
  const send = (role: string, sub: string, isPrivate: boolean) =>
    runAs(role, sub, "select realtime.send($1, 'x', 'den', $2)", { role, sub }, isPrivate);
  await expect(send("anon", "", false)).rejects.toMatchObject({ code: "42501" });
  await expect(send("authenticated", "2", true)).rejects.toMatchObject({
    code: "42501",
    message: "You do not have permissions to write to this Channel topic: den",
  });
  await send("authenticated", "1", true);
  await send("service_role", "", true);
  await send("authenticated", "2", false);
  await expect.poll(() => inDen.map(([, { sub }]) => sub), POLL).toEqual(["1", ""]);
  await expect.poll(() => outside.map(([, { sub }]) => sub), POLL).toEqual(["2"]);
});

test.each([
  ["the topic must have 1 to 246 bytes", "'{}', 'x', ''"],
  ["the topic must have 1 to 246 bytes", "'{}', 'x', repeat('é', 124)"],
  ["the topic must have 1 to 246 bytes", "'{}', 'x', null"],
  ["the event must have at most 255 bytes", "'{}', repeat('x', 256), 'a'"],
  ["the event must have at most 255 bytes", "'{}', null, 'a'"],
  ["private must be true or false", "'{}', 'x', 'a', null"],
])("realtime.send says what is wrong: %s, with %s", async (message, values) => {
  await expect(sql(`select realtime.send(${values})`)).rejects.toMatchObject({ code: "22023", message });
});

test("a notification that realtime.send has not sent is ignored", async () => {
  const topic = randomUUID();
  const [received] = await joinBoth(topic);
  const message = (part: string) => JSON.stringify({ topic, event: "x", private: false, payload: part });
  const [id, other] = [randomUUID(), randomUUID()];
  const forged = ["", "x", `${id} 1 1 {`, `${id} 1 1 {"topic":5}`, `${id} 2 2 ${message("no beginning")}`];
  // The second part of another message.
  const mixed = [`${id} 1 2 ${message("mixed").slice(0, 20)}`, `${other} 2 2 ${message("mixed").slice(20)}`];
  for (const part of [...forged, ...mixed]) await sql("select pg_notify('broadcasts', $1)", part);
  await sql("select realtime.send('1', 'x', $1, false)", topic);
  await expect.poll(() => received, POLL).toEqual([["x", 1]]);
});
