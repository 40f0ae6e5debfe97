import { once } from "node:events";
import { expect, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { useRealtime } from "../support/realtime.ts";
import { POLL } from "../support/until.ts";

/** Everyone receives in private channels. A stored broadcast is read when the lock is free. */
const SLOW = `
  create policy "everyone receives" on realtime.messages for select
    using (event is null or pg_advisory_xact_lock_shared(7)::text is not null);`;

const { service, sql } = useRealtime({ CLIENT_MEMORY: "4000000", clientMemoryPerAddress: 800_000 }, SLOW);

test("a replay is refused if what arrives meanwhile is more than the share of its network, and nothing stays", async () => {
  const client = await new ChannelClient(service(), "127.0.0.25").open();
  const join = (topic: string) =>
    client.ask(topic, "phx_join", { config: { private: true, broadcast: { replay: { since: 0 } } } });
  const bystander = await new ChannelClient(service(), "127.0.0.26").open();
  await bystander.ask("bell", "phx_join", { config: {} });
  const send = (size: number) => sql("select realtime.send(to_jsonb(repeat('x', $1)), 'x', 'den')", size);
  await send(1);
  await sql("select pg_advisory_lock(7)");
  const reply = join("den");
  await expect
    .poll(() => sql("select from pg_locks where locktype = 'advisory' and not granted"), POLL)
    .toHaveLength(1);
  for (let i = 0; i < 4; i++) await send(250_000);
  // What is sent after them arrives after them.
  const rings = once(bystander.socket, "message");
  await sql("select realtime.send('{}', 'ring', 'bell', false)");
  await rings;
  await sql("select pg_advisory_unlock(7)");
  expect(await reply).toEqual({
    status: "error",
    response: { reason: "UnableToReplayMessages: Realtime was unable to replay messages" },
  });
  await bystander.ask("bell", "phx_leave");
  expect(service().service.clientMemory()).toBe(0);
  expect(await join("attic")).toMatchObject({ status: "ok" });
});
