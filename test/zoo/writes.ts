import { expect, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { errorTexts } from "../support/http-client.ts";
import type { RestSent } from "../support/rest-client.ts";
import type { Zoo } from "./zoo.ts";

const BACK = "return=representation";
const UPSERT = "resolution=merge-duplicates,return=representation";
const OBJECT = { accept: "application/vnd.pgrst.object+json" };

/** A write over REST or GraphQL, and its answer: the status and the JSON, or the data or the errors. */
type Write = readonly [write: readonly [path: string, sent?: RestSent] | string, answer: unknown];

const post = (path: string, body: unknown, prefer = BACK, headers = {}): Write[0] => [
  path,
  { method: "POST", body, prefer, headers },
];
const patch = (path: string, body: unknown): Write[0] => [path, { method: "PATCH", body, prefer: BACK }];
const leftOut = (type: string) => [`RESOURCE_NOT_FOUND: a trigger or rule has left out the ${type}`];

/** A trigger keeps the row out: nothing is written, and no interface says that it is. `rejects` has the row 1. */
const LEFT_OUT: readonly Write[] = [
  [post("rejects", { id: 9, note: "drop" }), [201, []]],
  [post("rejects", { id: 9, note: "drop" }, "return=minimal"), [201, undefined]],
  [post("rejects", { id: 9, note: "drop" }, BACK, OBJECT), [406, expect.objectContaining({ code: "PGRST116" })]],
  [post("rejects", "id,note\n9,drop\n", BACK, { "content-type": "text/csv" }), [201, []]],
  [post("rejects?on_conflict=id", { id: 1, note: "drop" }, UPSERT), [200, []]],
  [patch("rejects?id=eq.1", { note: "drop" }), [200, []]],
  ['createReject(input: { id: 9, note: "drop" }) { id }', leftOut("Reject")],
  ['createReject(input: { id: 9, note: "drop" }) { __typename }', leftOut("Reject")],
  ['updateReject(id: 1, input: { note: "drop" }) { id }', ["RESOURCE_NOT_FOUND: Reject not found"]],
  [
    'createRejects(input: [{ id: 9, note: "drop" }]) { success count errors { code } }',
    { success: true, count: 0, errors: null },
  ],
  [
    'upsertReject(input: { id: 1, note: "drop" }, onConflict: PRIMARY_KEY) { success count }',
    { success: true, count: 0 },
  ],
  [
    'updateRejects(filter: { id: { equalTo: 1 } }, input: { note: "drop" }, limit: 5) { success count }',
    { success: true, count: 0 },
  ],
  [post("signs", { id: 9, label: "DROP" }), [201, []]],
  ['createSign(input: { id: 9, label: "DROP" }) { id }', leftOut("Sign")],
  ['createSigns(input: [{ id: 9, label: "DROP" }]) { success count }', { success: true, count: 0 }],
];

const TAKEN = [409, expect.objectContaining({ code: "23505", message: expect.stringContaining("seats_pos_key") })];
const TAKEN_TEXT = ["RESOURCE_CONFLICT: pos is already taken"];
const NO_KEY = [400, expect.objectContaining({ code: "55000", message: expect.stringContaining("deferrable") })];

const UNFIT = "a constraint that is deferrable, or about overlaps, cannot decide which row is updated";

/** A constraint that is checked at the commit. `seats` has the rows 1 and 2, at these places. */
const DEFERRED: readonly Write[] = [
  [post("seats", { id: 9, pos: 1 }), TAKEN],
  [post("seats", { id: 9, pos: 1 }, "return=minimal"), TAKEN],
  [
    post("seats", [
      { id: 9, pos: 9 },
      { id: 10, pos: 9 },
    ]),
    TAKEN,
  ],
  [post("seats", "id,pos\n9,1\n", BACK, { "content-type": "text/csv" }), TAKEN],
  [post("seats?on_conflict=id", { id: 9, pos: 1 }, UPSERT), TAKEN],
  [patch("seats?id=eq.2", { pos: 1 }), TAKEN],
  [post("rpc/take_seat", { id: 9, pos: 1 }), TAKEN],
  ["createSeat(input: { id: 9, pos: 1 }) { id }", TAKEN_TEXT],
  ["updateSeat(id: 2, input: { pos: 1 }) { id }", TAKEN_TEXT],
  ["takeSeat(id: 9, pos: 1) { id }", TAKEN_TEXT],
  [
    "createSeats(input: [{ id: 9, pos: 9 }, { id: 10, pos: 9 }]) { success errors { field code } seats { id } }",
    { success: false, errors: [{ field: "pos", code: "RESOURCE_CONFLICT" }], seats: [] },
  ],
  [post("seats?on_conflict=pos", { id: 9, pos: 1 }, UPSERT), NO_KEY],
  [post("seats?on_conflict=pos", { id: 9, pos: 1 }, "resolution=ignore-duplicates"), NO_KEY],
  [
    "upsertSeat(input: { id: 9, pos: 1 }, onConflict: POS) { success errors { code message } }",
    {
      success: false,
      errors: [{ code: "VALIDATION_ERROR", message: UNFIT }],
    },
  ],
  [
    'upsertStay(input: { id: 1, during: { start: { value: "2026-01-01", inclusive: true } } }) { success errors { message } }',
    { success: false, errors: [{ message: UNFIT }] },
  ],
];

/** Writes of which nothing remains have the same meaning on each interface, and cause no change. */
export function testWrites(zoo: () => Zoo): void {
  const stored = () =>
    zoo().sql(
      "select (select json_agg(r) from rejects r) a, (select json_agg(s) from seats s) b, (select json_agg(x) from animals x) c",
    );

  test.each([...LEFT_OUT, ...DEFERRED])("writes nothing: %j", async (write, answer) => {
    const { sql, service, rest, graphql } = zoo();
    await sql("insert into rejects values (1, 'keep') on conflict do nothing");
    const before = await stored();
    const client = await new ChannelClient(service, "127.0.0.1").open();
    const received: any[] = [];
    client.socket.on("message", (data) => received.push(JSON.parse(String(data))));
    for (const table of ["rejects", "seats", "animals"])
      await client.ask(table, "phx_join", { config: { postgres_changes: [{ event: "*", schema: "public", table }] } });
    if (typeof write === "string") {
      const { data, errors } = await graphql(`mutation { written: ${write} }`);
      expect(errors ? errorTexts({ errors }) : JSON.parse(JSON.stringify(data.written))).toEqual(answer);
    } else {
      const { status, json } = await rest(...write);
      expect([status, json]).toEqual(answer);
    }
    expect(await stored()).toEqual(before);
    // Changes arrive in order.
    await sql("update rejects set note = note || '!' where id = 1");
    const [last] = await sql("select * from rejects where id = 1");
    const changes = () =>
      received.flatMap(([, , , event, { data }]) =>
        event === "postgres_changes" ? [data.record ?? data.old_record] : [],
      );
    await expect.poll(() => changes().at(-1)).toEqual(last);
    expect(changes().filter(({ id }) => id !== 1)).toEqual([]);
  });

  test("rows may trade the values of a deferred constraint", async () => {
    const traded = [
      { id: 1, pos: 2 },
      { id: 2, pos: 1 },
    ];
    const { rest, graphql, sql } = zoo();
    const [path, sent] = post("seats?on_conflict=id", traded, UPSERT) as [string, RestSent];
    expect((await rest(path, sent)).json).toEqual(traded);
    const back =
      "mutation { updateSeats(filter: { id: { lessThan: 3 } }, input: { pos: 1 }, limit: 2) { errors { code } } }";
    expect((await graphql(back)).data.updateSeats.errors).toEqual([{ code: "RESOURCE_CONFLICT" }]);
    expect(await sql("update seats set pos = id returning pos")).toHaveLength(2);
  });

  test.each([
    [
      "left_boards",
      "createLeftBoard(input: { id: 9, depotId: 1 }) { id depotId city }",
      { id: "9", depotId: "1", city: null },
      "deleteLeftBoard(id: 9, depotId: 1)",
    ],
    [
      "signs",
      'createSign(input: { id: 9, label: "OWL" }) { id label }',
      { id: "9", label: "OWL" },
      "deleteSign(id: 9)",
    ],
  ])("%s: a view is written by its rules or triggers in GraphQL", async (_, create, row, remove) => {
    const written = await zoo().graphql(`mutation { written: ${create} }`);
    expect(written).toEqual({ data: { written: row } });
    expect(await zoo().graphql(`mutation { ${remove} }`)).toEqual({ data: { [remove.replace(/\(.*/, "")]: true } });
  });
}
