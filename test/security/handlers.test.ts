import { expect, onTestFinished, test, vi } from "vitest";
import { EventStream } from "../../gate/pipeline/event-stream.ts";
import { ChangeEvents } from "../../graphql/execute/change-events.ts";
import { ChannelSocket } from "../../realtime/socket.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { connect, type Subscription } from "../support/graphql-client.ts";
import { type Observed, observing, summary, useRealtime } from "../support/realtime.ts";

const DDL = `
  create table public.boats (id int primary key);
  alter table public.boats enable row level security;
  grant select on public.boats to anon;
  create policy "everyone" on public.boats using (true)`;

const { client, service, sql } = useRealtime({ GRAPHQL_DOCUMENTS: "any" }, DDL);

/** The first subscriber that a change is sent to from now on cannot be sent changes. */
function failForOne<K extends string, T extends Record<K, any>>(
  prototype: T,
  method: K,
  isChange: (...parameters: any[]) => boolean,
): void {
  const send = prototype[method];
  let failing: unknown = null;
  const spy = vi.spyOn(prototype as any, method).mockImplementation(function (this: any, ...parameters: any[]) {
    if (isChange(...parameters)) {
      failing ??= this;
      if (failing === this) throw new TypeError("a fault of one subscriber");
    }
    return send.apply(this, parameters);
  });
  onTestFinished(() => spy.mockRestore());
}

const insert = async (from: number) => {
  await sql("insert into boats select generate_series($1::int, $1::int + 2)", from);
  await sql("insert into boats values ($1::int + 3)", from);
};
const all = (from: number) => [0, 1, 2, 3].map((i) => from + i);

test("a fault while a channel is sent a change ends this channel, and the others get the change once", async () => {
  const bindings = [{ event: "*", schema: "public", table: "boats" }];
  const channels: Observed[] = [];
  for (let i = 0; i < 3; i++) channels.push(await observing(client(), `boats ${i}`, bindings));
  failForOne(ChannelSocket.prototype, "send", (message) => String(message).includes('"INSERT"'));
  await insert(1);
  const ended = () => channels.filter(({ states }) => states.length > 1);
  await expect.poll(() => ended().length).toBe(1);
  expect(ended()[0]!.system.at(-1)).toMatchObject({ status: "error", message: expect.stringContaining("ended") });
  const others = channels.filter((each) => !ended().includes(each));
  const expected = all(1).map((id) => `INSERT ${id}`);
  for (const each of others) await expect.poll(() => summary(each)).toEqual(expected);
  expect(others.map(({ states }) => states)).toEqual([["SUBSCRIBED"], ["SUBSCRIBED"]]);
});

test("a fault while a stream is sent a change ends this stream, and the others get the change once", async () => {
  const headers = { apikey: service().service.tokens.issueKey("anon") };
  const open = () => new EventStreamClient(`${service().url}/rest/v1/boats?id=gt.10`, { headers });
  const streams = [open(), open(), open()];
  for (const each of streams) await each.take(1, "snapshot");
  failForOne(EventStream.prototype, "send", ({ event }) => event === "INSERT");
  await insert(11);
  await expect.poll(() => streams.filter(({ isEnded }) => isEnded).length).toBe(1);
  for (const each of streams) {
    if (each.isEnded)
      expect(each.events.at(-1)).toMatchObject({ event: "problem", data: { message: "internal error" } });
    else expect((await each.take(4, "INSERT")).map(({ data }) => data.new.id)).toEqual(all(11));
  }
  expect(streams.filter(({ isEnded }) => isEnded)).toHaveLength(1);
});

test("a fault while a subscription is sent an event ends this subscription, and the others get the event once", async () => {
  const socket = connect(service());
  const subscriptions: Subscription[] = [];
  for (let i = 0; i < 3; i++) subscriptions.push(await socket.subscribe("subscription { onBoatCreated { id } }"));
  failForOne(ChangeEvents.prototype, "receive", () => true);
  await insert(21);
  const failed = () => subscriptions.filter(({ error }) => error !== null);
  await expect.poll(() => failed().length).toBe(1);
  expect(failed()[0]!.error).toMatchObject([{ message: "internal error", extensions: { code: "INTERNAL_ERROR" } }]);
  const expected = all(21).map((id) => ({ onBoatCreated: { id: String(id) } }));
  for (const each of subscriptions) if (!each.error) await each.expect(...expected);
  expect(failed()).toHaveLength(1);
});
