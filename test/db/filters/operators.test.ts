import { expect, test } from "vitest";
import { isOfChanges, OPERATORS, type Operator } from "../../../db/filters/operators.ts";
import { EventStreamClient } from "../../support/event-stream.ts";
import { type Observed, observe, useRealtime } from "../../support/realtime.ts";

const { client, service, sql } = useRealtime(
  { realtimeMaxChannels: 200 },
  `create table public.things (
     id bigint primary key, body text, room text, size numeric, flag boolean, tags text[], span int4range, found tsvector
   );
   alter table public.things enable row level security;
   create policy "things are public" on public.things using (true);
   grant select on public.things to anon;`,
);

const ROWS = `
  (1, 'milk', 'a', 1.5, true, '{x,y}', '[1,5)', to_tsvector('simple', 'a cat')),
  (2, 'a,b', 'a', 2, false, '{y}', '[5,9)', to_tsvector('simple', 'a dog')),
  (3, 'Cream', null, 3, null, '{}', '[9,12)', to_tsvector('simple', 'the cat and the dog')),
  (4, null, null, null, true, null, null, null)`;
/** The last row, which is added to every question, so that all answers end with it. */
const LAST = "99";

/** For every operator, columns and values that some rows fulfil: of types that are compared in process, and of others. */
const QUESTIONS: Readonly<Record<Operator, readonly (readonly [column: string, value: string])[]>> = {
  eq: [
    ["body", "milk"],
    ["id", "2"],
    ["size", "1.50"],
    ["flag", "true"],
  ],
  neq: [
    ["body", "milk"],
    ["size", "2.0"],
  ],
  gt: [
    ["id", "2"],
    ["body", "a"],
  ],
  gte: [
    ["id", "2"],
    ["size", "2"],
  ],
  lt: [
    ["id", "2"],
    ["size", "2"],
  ],
  lte: [
    ["id", "2"],
    ["size", "2"],
  ],
  like: [["body", "m%"]],
  ilike: [["body", "C%m"]],
  match: [["body", "^m.*k$"]],
  imatch: [["body", "^c"]],
  in: [
    ["id", "(1,3)"],
    ["body", '("a,b",milk)'],
    ["size", "(1.50,3.0)"],
  ],
  is: [
    ["room", "null"],
    ["room", "not_null"],
    ["flag", "true"],
    ["flag", "false"],
    ["flag", "unknown"],
  ],
  isdistinct: [
    ["body", "milk"],
    ["id", "2"],
    ["size", "1.50"],
  ],
  cs: [["tags", "{y}"]],
  cd: [["tags", "{y,z}"]],
  ov: [["span", '"[4,6)"']],
  sl: [["span", '"[9,10)"']],
  sr: [["span", '"[1,5)"']],
  nxr: [["span", '"[5,9)"']],
  nxl: [["span", '"[5,9)"']],
  adj: [["span", '"[5,9)"']],
  fts: [["found", "cat"]],
  plfts: [["found", "cat dog"]],
  phfts: [["found", "a dog"]],
  wfts: [["found", "dog"]],
};

type Question = { readonly operator: Operator; readonly column: string; readonly filter: string };

const questions = (Object.keys(OPERATORS) as Operator[]).flatMap((operator): Question[] =>
  QUESTIONS[operator].flatMap(([column, value]) =>
    ["", "not."].map((not) => ({ operator, column, filter: `${not}${operator}.${value}` })),
  ),
);

const pathOf = ({ column, filter }: Question) =>
  `things?select=id&or=(${column}.${filter.replaceAll("%", "%25")},id.eq.${LAST})`;
const key = () => service().service.tokens.issueKey("anon");

async function rowsOf(question: Question): Promise<string[]> {
  const response = await fetch(`${service().url}/rest/v1/${pathOf(question)}&order=id`, { headers: { apikey: key() } });
  expect(response.status).toBe(200);
  return ((await response.json()) as { id: number }[]).map(({ id }) => String(id));
}

const streamOf = (question: Question) =>
  new EventStreamClient(`${service().url}/rest/v1/${pathOf(question)}`, {
    headers: { apikey: key() },
  });

function channelOf({ column, filter }: Question): Observed {
  const on = { event: "INSERT", schema: "public", table: "things" };
  return observe(client(), `${column} ${filter}`, [{ ...on, filter: `or=(${column}.${filter},id.eq.${LAST})` }]);
}

const insertRows = () =>
  sql(`insert into things values ${ROWS}, (${LAST}, null, null, null, null, null, null, null) on conflict do nothing`);

/** The ids of the rows, when the last one is there. */
async function until(read: () => readonly unknown[]): Promise<string[]> {
  await expect.poll(() => read().map(String)).toContain(LAST);
  return read().map(String);
}

test("every operator finds the same rows in a table, in a stream of events and in a channel", async () => {
  const asked = questions.filter(({ operator }) => isOfChanges(operator));
  const streams = asked.map(streamOf);
  const channels = asked.map(channelOf);
  for (const stream of streams) await stream.take(1, "snapshot");
  await expect.poll(() => channels.map(({ states }) => states[0])).toEqual(asked.map(() => "SUBSCRIBED"));
  await insertRows();
  for (const [i, question] of asked.entries()) {
    const rows = await rowsOf(question);
    const inStream = await until(() =>
      streams[i]!.events.filter(({ event }) => event === "INSERT").map(({ data }) => data.new.id),
    );
    const inChannel = await until(() => channels[i]!.changes.map((change) => change.new.id));
    expect([question, inStream, inChannel]).toEqual([question, rows, rows]);
    // Some rows, and not all.
    expect([question, rows.length > 1 && rows.length < 5]).toEqual([question, true]);
  }
});

test("an operator with which changes cannot be filtered finds rows in a table, and streams and channels refuse it", async () => {
  const asked = questions.filter(({ operator }) => !isOfChanges(operator));
  await insertRows();
  for (const question of asked) {
    const rows = await rowsOf(question);
    expect([question, rows.length > 1 && rows.length < 5]).toEqual([question, true]);
    const reason = new RegExp(`changes cannot be filtered with ${question.operator}: use eq, `);
    const stream = streamOf(question);
    await expect.poll(() => stream.isEnded).toBe(true);
    expect([stream.status, stream.text]).toEqual([400, expect.stringMatching(reason)]);
    const channel = channelOf(question);
    await expect.poll(() => channel.states[0]).toMatch(reason);
  }
});
