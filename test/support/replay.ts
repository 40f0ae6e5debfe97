import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { useRealtime } from "./realtime.ts";
import { POLL } from "./until.ts";

/**
 * Users receive in the private channels "den …", where Ada sends. Bob does not see the events "secret". To read an event "slow" takes a
 * moment, and to read an event "broken" raises an error.
 */
const DEN = `
  create function public.refuse() returns boolean language plpgsql as
    $$ begin raise exception using errcode = 'PT403', message = 'the den is closed'; end $$;
  grant execute on function public.refuse() to authenticated;
  create policy "users receive" on realtime.messages for select to authenticated
    using (realtime.topic() like 'den %' and (auth.uid() = 1 or event is distinct from 'secret')
      and case when event = 'slow' then pg_sleep(0.5)::text is not null when event = 'broken' then public.refuse() else true end);
  create policy "ada sends" on realtime.messages for insert to authenticated
    with check (realtime.topic() like 'den %' and auth.uid() = 1);`;

type JoinOptions = { readonly as?: "ada" | "bob"; readonly vsn?: string };

/** The name of a private channel that no other test uses. */
export const den = () => `den ${randomUUID()}`;

export const numbers = (received: readonly any[]) => received.map(({ payload }) => payload.n);

/** A service with private channels, and what its tests do there. */
export function useReplay() {
  const { client, service, sql } = useRealtime({ RATE_LIMIT: "1000" }, DEN);
  return {
    client,
    service,
    sql,
    /** A channel of a user that is joined with a replay: what it receives, and its states. */
    async join(topic: string, replay: unknown, { as = "bob", vsn = "2.0.0" }: JoinOptions = {}) {
      const made = client({ as, realtime: { vsn } });
      const received: any[] = [];
      const states: string[] = [];
      await made.realtime.setAuth();
      const channel = made.channel(topic, { config: { private: true, broadcast: { replay } } } as never);
      channel
        .on("broadcast", { event: "*" }, (message) => received.push(message))
        .subscribe((status, error) => states.push(error ? `${status}: ${error.message}` : status));
      await expect.poll(() => states.length, POLL).toBeGreaterThan(0);
      return { received, states };
    },
    /** Resolves when the service has heard of all broadcasts so far: they reach no channel that joins later, but by a replay. */
    async heard() {
      const topic = randomUUID();
      let isHeard = false;
      const channel = client().channel(topic);
      const joined = new Promise((resolve) => channel.subscribe(resolve));
      channel.on("broadcast", { event: "*" }, () => {
        isHeard = true;
      });
      expect(await joined).toBe("SUBSCRIBED");
      await sql("select realtime.send('{}', 'x', $1, false)", topic);
      await expect.poll(() => isHeard, POLL).toBe(true);
    },
    send: (topic: string, n: number, event = "n") => sql("select realtime.send($1, $2, $3)", { n }, event, topic),
  };
}
