import { expect, test } from "vitest";
import { messageForSubscriber } from "../../db/masking.ts";
import { SQLSTATES } from "../../db/sqlstates.ts";
import { problemOf } from "../../rest-gateway/table/answer/error-mapping.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { connect } from "../support/graphql-client.ts";
import { observing, useRealtime } from "../support/realtime.ts";

const DDL = `
  create function public.fail(state text) returns boolean language plpgsql stable as $$
  begin
    if auth.uid() is distinct from 2 then return true; end if;
    raise exception using errcode = state, detail = '{"status":402,"headers":{}}',
      message = case state when 'PGRST' then '{"code":"A1","message":"pay first"}' else 'a detail' end;
  end $$;
  grant execute on function public.fail to anon, authenticated;
  create table public.faults (id int primary key generated always as identity, state text);
  alter table public.faults enable row level security;
  grant select on public.faults to anon, authenticated;
  create policy p on public.faults using (public.fail(state));
  create policy p on realtime.messages for select to authenticated using (public.fail(realtime.topic()))`;

const { client, service, sql } = useRealtime({ GRAPHQL_DOCUMENTS: "any" }, DDL);

/** What a policy raises, and what everyone gets for whom it runs. */
const RAISED: readonly (readonly [sqlstate: string, message: string, more?: string])[] = [
  ["XX001", "internal error"],
  ["P0003", "internal error"],
  ["38000", "internal error"],
  ["58030", "internal error"],
  ["F0000", "internal error"],
  ["PT999", "internal error"],
  ["PT402", "a detail", ' (PT402; detail: {"status":402,"headers":{}})'],
  ["PGRST", "pay first", " (A1)"],
  ["P0001", "a detail"],
  ["22012", "a detail"],
  ["ABC12", "a detail", ' (ABC12; detail: {"status":402,"headers":{}})'],
];

test.each(RAISED.map(([state, message, more = ""]) => [state, message, more] as const))(
  'of an error %s, "%s" is sent to requests, channels, private joins, streams and GraphQL',
  async (state, message, more) => {
    const headers = {
      apikey: service().service.tokens.issueKey("anon"),
      authorization: `Bearer ${service().token("bob")}`,
    };
    const answer = await fetch(`${service().url}/rest/v1/rpc/fail?state=${state}`, { headers });
    expect(((await answer.json()) as any).message).toBe(message);

    await sql("truncate faults");
    const bob = client({ as: "bob" });
    const channel = await observing(bob, "faults", [{ event: "*", schema: "public", table: "faults" }]);
    const stream = new EventStreamClient(`${service().url}/rest/v1/faults`, { headers });
    await stream.take(1, "snapshot");
    const subscription = await connect(service(), { as: "bob" }).subscribe("subscription { onFaultCreated { id } }");
    await sql("insert into faults (state) values ($1)", state);
    await expect
      .poll(() => channel.system.at(-1)?.message)
      .toBe(`a policy of public.faults failed, so changes are not sent: ${message}${more}`);
    expect((await stream.take(1, "problem"))[0]!.data).toEqual({ message: message + more });
    await expect.poll(() => subscription.error).toMatchObject([{ message: message + more }]);

    const states: string[] = [];
    bob.channel(state, { config: { private: true } }).subscribe((_, error) => states.push(error?.message ?? ""));
    await expect.poll(() => states[0]).toBe(`Unauthorized: ${message}${more}`);
  },
);

const context = {
  isAnonymous: false,
  role: null,
  plan: null,
  refused: [],
  catalog: { constraints: new Map(), schemas: new Map() },
};

test.each(SQLSTATES.map(([prefix]) => prefix))("requests and subscribers get the same of an error %s", (prefix) => {
  for (const code of [prefix.padEnd(5, "0"), prefix.padEnd(5, "9")]) {
    const raised = Object.assign(new Error("a detail"), { code, severity: "ERROR" });
    const problem = problemOf(raised, context as any);
    expect(messageForSubscriber(raised)).toBe(problem?.message ?? "internal error");
    // The message of a status 500 that is not chosen is for the DBA.
    if (problem?.status === 500 && !code.startsWith("PT")) expect(code).toMatch(/^42|^53400/);
  }
});
