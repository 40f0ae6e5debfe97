import { expect, test } from "vitest";
import { messageForSubscriber } from "../../db/errors.ts";
import { STATUSES } from "../../rest-gateway/table/answer/error-mapping.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { observing, useRealtime } from "../support/realtime.ts";

const DDL = `
  create function public.fail(state text) returns boolean language plpgsql stable as
    $$ begin if auth.uid() = 2 then raise 'internal detail' using errcode = state; end if; return true; end $$;
  grant execute on function public.fail to anon, authenticated;
  create table public.failing (id int primary key);
  alter table public.failing enable row level security;
  grant select on public.failing to anon, authenticated;
  create policy p on public.failing using (public.fail('XX001'));
  create policy p on realtime.messages for select to authenticated using (public.fail('XX001'))`;

const { client, service, sql } = useRealtime({}, DDL);

test("errors of policies that a request gets as internal error are masked on channels, private joins and streams", async () => {
  const bob = client({ as: "bob" });
  const channel = await observing(bob, "failing", [{ event: "*", schema: "public", table: "failing" }]);
  const events = new EventStreamClient(`${service().url}/rest/v1/failing?id=lt.0`, {
    headers: { apikey: service().service.tokens.issueKey("anon"), authorization: `Bearer ${service().token("bob")}` },
  });
  await events.take(1, "snapshot");
  await sql("insert into failing values (-1)");
  await expect
    .poll(() => channel.system.at(-1)?.message)
    .toBe("a policy of public.failing failed, so changes are not sent: internal error");
  expect((await events.take(1, "problem"))[0]!.data).toEqual({ message: "internal error" });
  const states: string[] = [];
  bob.channel("den", { config: { private: true } }).subscribe((_, error) => states.push(error?.message ?? ""));
  await expect.poll(() => states[0]).toBe("Unauthorized: internal error");
});

test.each(STATUSES.filter(([, status]) => status === 500).map(([state]) => state))(
  "an error of the class %s is masked as in requests",
  (state) => {
    // PT lets a function choose the status, and 53 is transient.
    const isMasked = !state.startsWith("PT") && !state.startsWith("53");
    const message = messageForSubscriber(Object.assign(new Error("detail"), { code: state.padEnd(5, "X") }));
    expect(message).toBe(isMasked ? "internal error" : "detail");
  },
);
