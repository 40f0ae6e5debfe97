import { randomUUID } from "node:crypto";
import pino from "pino";
import { expect, test } from "vitest";
import { observing, useRealtime } from "../support/realtime.ts";

const logged: string[] = [];
const log = pino({ level: "error" }, { write: (line: string) => logged.push(line) });

const { client, service, sql } = useRealtime(
  {},
  `create table public.members (room text, user_id bigint, may_write boolean, primary key (room, user_id));
  grant select on public.members to authenticated;
  alter table public.members enable row level security;
  create policy own on public.members using (user_id = auth.uid());
  insert into public.members values ('den', 1, true), ('den', 2, false);
  create policy "members receive" on realtime.messages for select to authenticated
    using (exists (select from public.members as m where m.room = realtime.topic()));
  create policy "some members send" on realtime.messages for insert to authenticated
    with check (exists (select from public.members as m where m.room = realtime.topic() and m.may_write));
  create function public.broken() returns boolean language plpgsql as
    $$ begin raise exception 'the secret of the policy' using errcode = 'XX000'; end $$;
  grant execute on function public.broken to anon;
  create policy "is broken" on realtime.messages for select to anon
    using (case when realtime.topic() = 'broken' then public.broken() end);
  create table public.leaks (id int primary key);
  alter table public.leaks enable row level security;
  grant select on public.leaks to anon;
  create policy "is broken" on public.leaks using (public.broken());`,
  log,
);

async function join(made: ReturnType<typeof client>, name: string, config: object = { private: true }) {
  const states: string[] = [];
  const received: any[] = [];
  const system: any[] = [];
  await made.realtime.setAuth();
  const channel = made.channel(name, { config });
  channel
    .on("broadcast", { event: "*" }, (message) => received.push(message.payload))
    .on("system" as never, {} as never, ((message: unknown) => system.push(message)) as never)
    .subscribe((status, error) => states.push(error ? `${status}: ${error.message}` : status));
  await expect.poll(() => states.length).toBeGreaterThan(0);
  return { channel, states, received, system };
}

const DENIED = "Unauthorized: You do not have permissions to read from this Channel topic: den";

test("the policies on realtime.messages decide who joins a private channel", async () => {
  expect((await join(client({ as: "ada" }), "den")).states).toEqual(["SUBSCRIBED"]);
  expect((await join(client({ as: "bob" }), "den")).states).toEqual(["SUBSCRIBED"]);
  expect((await join(client({ as: "admin" }), "den")).states[0]).toBe(`CHANNEL_ERROR: ${DENIED}`);
  expect((await join(client(), "den")).states[0]).toBe(`CHANNEL_ERROR: ${DENIED}`);
  // The same name without `private` is another channel.
  expect((await join(client(), "den", {})).states).toEqual(["SUBSCRIBED"]);
  expect(await sql("select from realtime.messages")).toEqual([]);
});

test("on a private channel, the policies for insert decide who sends broadcasts and presences", async () => {
  const config = { private: true, broadcast: { ack: true } };
  const [ada, bob] = [
    await join(client({ as: "ada" }), "den", config),
    await join(client({ as: "bob" }), "den", config),
  ];
  const outside = await join(client(), "den", {});
  expect(await ada.channel.send({ type: "broadcast", event: "x", payload: { from: "ada" } })).toBe("ok");
  await expect.poll(() => bob.received).toEqual([{ from: "ada" }]);
  expect(await bob.channel.send({ type: "broadcast", event: "x", payload: { from: "bob" } })).toBe("error");
  expect(await bob.channel.track({ mood: "glad" })).toBe("error");
  const reason = "Unauthorized: You do not have permissions to write to this Channel topic: den";
  expect(bob.system.map(({ message }) => message)).toEqual([reason, reason]);
  expect([ada.received, outside.received]).toEqual([[], []]);
});

test("a token that may not read a private channel ends it", async () => {
  const ada = client({ as: "ada" });
  const { states, system } = await join(ada, "den");
  await ada.realtime.setAuth(service().token("admin"));
  await expect.poll(() => system.at(-1)?.message).toBe(DENIED);
  await expect.poll(() => states.slice(1).join()).toContain("CHANNEL_ERROR");
});

const post = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${service().url}/realtime/v1/api/broadcast${path}`, {
    method: "POST",
    headers: { apikey: service().service.tokens.issueKey("anon"), "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

test("a broadcast over HTTP reaches the channels of the topic, and answers 202", async () => {
  const topic = randomUUID();
  const { received } = await join(client(), topic, {});
  const { received: inDen } = await join(client({ as: "bob" }), "den");
  // Before it is subscribed, the client sends broadcasts over HTTP.
  const sender = client().channel(topic);
  expect(await sender.httpSend("cursor", { x: 1 })).toEqual({ success: true });
  const messages = [
    { topic, event: "one", payload: { x: 2 } },
    { topic: "den", event: "two", payload: { x: 3 }, private: true },
  ];
  const ada = { authorization: `Bearer ${service().token("ada")}` };
  expect((await post("", { messages }, ada)).status).toBe(202);
  await expect.poll(() => received).toEqual([{ x: 1 }, { x: 2 }]);
  await expect.poll(() => inDen).toEqual([{ x: 3 }]);
  // Nothing is sent unless all messages may be sent.
  const refused = await post("", { messages }, { authorization: `Bearer ${service().token("bob")}` });
  expect([refused.status, ((await refused.json()) as any).message]).toEqual([
    403,
    "You do not have permissions to write to this Channel topic: den",
  ]);
  const own = client({ as: "bob" });
  await own.realtime.setAuth();
  await expect(own.channel("den", { config: { private: true } }).httpSend("x", { x: 4 })).rejects.toThrow(
    "permissions to write",
  );
  await sender.httpSend("cursor", { x: 5 });
  await expect.poll(() => received).toEqual([{ x: 1 }, { x: 2 }, { x: 5 }]);
  expect(inDen).toEqual([{ x: 3 }]);
});

test.each([
  ["the body is not valid JSON", 400, "", "{"],
  ["messages must be an array", 400, "", {}],
  ["the body must be {messages: [...]}", 400, "", []],
  ["messages[0].topic must be a string", 400, "", { messages: [{ topic: 5, event: "x" }] }],
  ["the topic must not be empty", 400, "", { messages: [{ topic: "", event: "x" }] }],
  ["the event must have at most 255 bytes", 400, "", { messages: [{ topic: "a", event: "x".repeat(300) }] }],
  [
    "a payload has at most 65536 bytes",
    413,
    "",
    { messages: [{ topic: "a", event: "x", payload: "x".repeat(70_000) }] },
  ],
  ["the payload is not valid JSON", 400, "/a/events/b", "{"],
  ...["yes", "1", 1, {}].map((flag): [string, number, string, object] => [
    "messages[0].private must be true or false",
    400,
    "",
    { messages: [{ topic: "a", event: "x", private: flag }] },
  ]),
  ["private must be true or false", 400, "/a/events/b?private=yes", "{}"],
  ["persist is not possible because broadcasts of clients are not stored", 400, "/a/events/b?persist=true", "{}"],
  ["persist is not possible because broadcasts of clients are not stored", 400, "/a/events/b?persist%5Bttl%5D=5", "{}"],
  ["the URL is not valid", 400, "/a/events/%ff", "{}"],
  ["there is nothing here", 404, "/a", "{}"],
])("a broadcast over HTTP that is not valid is refused: %s, %i", async (message, status, path, body) => {
  const response = await post(path, body);
  expect([response.status, ((await response.json()) as any).message]).toEqual([
    status,
    expect.stringContaining(message),
  ]);
});

test("a channel is private for each spelling of true, and a broadcast over HTTP as well", async () => {
  for (const flag of [true, "true", "TRUE"]) {
    expect((await join(client(), "den", { private: flag })).states[0]).toBe(`CHANNEL_ERROR: ${DENIED}`);
    expect((await post("", { messages: [{ topic: "den", event: "x", private: flag }] })).status).toBe(403);
    expect((await post(`/den/events/x?private=${flag}`, {})).status).toBe(403);
  }
  const reason = "MalformedJoin: config.private must be true or false";
  expect((await join(client(), "den", { private: "yes" })).states[0]).toBe(`CHANNEL_ERROR: ${reason}`);
});

test("a broadcast over HTTP requires a key, and only POST is allowed", async () => {
  expect((await post("", { messages: [] }, { apikey: "" })).status).toBe(401);
  const headers = { apikey: service().service.tokens.issueKey("anon") };
  expect((await fetch(`${service().url}/realtime/v1/api/broadcast`, { headers })).status).toBe(405);
});

test("an error of a policy that clients may not read is in the log: of a private channel, and of a table", async () => {
  const { states } = await join(client(), "broken");
  expect(states[0]).toBe("CHANNEL_ERROR: Unauthorized: internal error");
  expect(logged).toEqual([expect.stringContaining("the secret of the policy")]);
  const leaks = await observing(client(), "leaks", [{ event: "*", schema: "public", table: "leaks" }]);
  await sql("insert into leaks values (1)");
  await expect.poll(() => leaks.system.at(-1)?.message).toContain("a policy of public.leaks failed");
  expect(leaks.system.at(-1).message).not.toContain("secret");
  expect(logged.slice(1)).toEqual([
    expect.stringMatching(/public\.leaks, for the role anon.*the secret of the policy/),
  ]);
});
