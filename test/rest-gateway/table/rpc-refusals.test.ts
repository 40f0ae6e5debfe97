import { beforeEach, describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";
import { POLL } from "../../support/until.ts";

const { rest, sql } = useRest(
  { DB_SCHEMAS: "clinic" },
  `create schema clinic;
   create table clinic.dentists (id int primary key, name text unique);
   create table clinic.visits (
     id int primary key, dentist_id int references clinic.dentists, minutes int not null, during int4range,
     constraint visits_minutes_check check (minutes <= 60),
     constraint visits_during_excl exclude using gist (during with &&)
   );
   comment on constraint visits_during_excl on clinic.visits is 'there is another visit at this time';
   comment on constraint visits_minutes_check on clinic.visits is 'a visit has at most 60 minutes';
   alter table clinic.visits enable row level security;
   -- Without policies: it may write what others may not read.
   create function clinic.book(id int, dentist_id int, minutes int, during int4range) returns void
     language sql volatile security definer set search_path = ''
     as 'insert into clinic.visits values (id, dentist_id, minutes, during)';
   create function clinic.reserve(visit int, place int4range) returns void language sql volatile security definer
     set search_path = '' as 'insert into clinic.visits values (visit, 1, 30, place)';
   create function clinic.add_dentist(id int, name text) returns void language plpgsql volatile security definer
     set search_path = '' as 'begin insert into clinic.dentists values (add_dentist.id, add_dentist.name); end';
   create function clinic.remove_dentist(id int) returns void language sql volatile security definer set search_path = ''
     as 'delete from clinic.dentists as d where d.id = remove_dentist.id';
   create function clinic.refuse(seats int) returns void language plpgsql volatile as $$
   begin
     raise unique_violation using message = 'taken', detail = 'seat 7 is free', column = 'seats';
   end $$;
   grant usage on schema clinic to anon, service_role;
   grant select on clinic.dentists, clinic.visits to anon, service_role;
   grant execute on all functions in schema clinic to anon, service_role`,
);

const VISIT = { id: 2, dentist_id: 1, minutes: 30, during: "[10,20)" };

const refused = async (name: string, body: unknown, as?: "service") => {
  const { status, json } = await rest(`rpc/${name}`, { body, ...(as && { as }) });
  return { status, ...json };
};

beforeEach(() =>
  sql(`truncate clinic.dentists, clinic.visits; insert into clinic.dentists values (1, 'Dora'), (2, 'Dan');
       insert into clinic.visits values (1, 1, 30, '[5,15)')`),
);

describe("a constraint that a function violates", () => {
  test.each<[given: object, status: number, sqlstate: string, field: string, message: string, constraint?: string]>([
    [{}, 409, "23P01", "during", "there is another visit at this time", "visits_during_excl"],
    [{ id: 1, during: null }, 409, "23505", "id", "id is already taken", "visits_pkey"],
    [
      { dentist_id: 9, during: null },
      ...([409, "23503", "dentist_id", "dentist_id refers to a record that does not exist"] as const),
      "visits_dentist_id_fkey",
    ],
    [{ minutes: 90 }, 400, "23514", "minutes", "a visit has at most 60 minutes", "visits_minutes_check"],
    [{ minutes: null }, 400, "23502", "minutes", "minutes must not be null"],
  ])("is in fields, under the argument with the name of its column: %j", async (given, ...expected) => {
    const [, , field, message, constraint] = expected;
    const answer = await refused("book", { ...VISIT, ...given });
    const code = expected[0] === 409 ? "RESOURCE_CONFLICT" : "VALIDATION_ERROR";
    expect([answer.status, answer.code, answer.details]).toEqual([expected[0], expected[1], `in ${field}`]);
    expect(answer.fields).toEqual([{ field, message, code, ...(constraint && { constraint }) }]);
  });

  test("has no fields if no argument has the name of a column", async () => {
    const { code, fields, details, hint } = await refused("reserve", { visit: 2, place: "[10,20)" });
    expect([code, fields, details, hint]).toEqual(["23P01", undefined, null, "there is another visit at this time"]);
  });

  test("has no fields if other rows refer to the row", async () => {
    const { code, fields, details } = await refused("remove_dentist", { id: 1 });
    expect([code, fields, details]).toEqual([
      "23503",
      undefined,
      'Key (id)=(1) is still referenced from table "visits".',
    ]);
  });

  test("has the values of rows in its details only if policies show all of them to the caller", async () => {
    const during = "Key (during)=([10,20)) conflicts with existing key (during)=([5,15)).";
    expect((await refused("book", VISIT, "service")).details).toBe(during);
    expect((await refused("add_dentist", { id: 3, name: "Dan" })).details).toBe("Key (name)=(Dan) already exists.");
    await sql("revoke select on clinic.dentists from anon; grant select (id) on clinic.dentists to anon");
    await expect.poll(async () => (await refused("add_dentist", { id: 3, name: "Dan" })).details, POLL).toBe("in name");
  });

  test("has the details and the column of a function that raises the error itself", async () => {
    const { code, details, fields } = await refused("refuse", { seats: 3 });
    expect([code, details]).toEqual(["23505", "seat 7 is free"]);
    expect(fields).toEqual([{ field: "seats", message: "taken", code: "RESOURCE_CONFLICT" }]);
  });
});
