import { beforeEach, describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const DDL = `
  create table public.owners (id integer primary key, name text);
  create table public.pets (
    id integer primary key, owner_id integer references public.owners on delete set null,
    name text, legs integer default 4, tags text[], data jsonb, born date, note text
  );
  create table public.visits (id integer primary key, pet_id integer references public.pets on delete cascade, paid boolean);
  create function public.shout(public.pets) returns text language sql stable return upper($1.name);
  create function public.last_visits(public.pets) returns setof public.visits language sql stable
    begin atomic select * from public.visits as v where v.pet_id = $1.id order by v.id desc limit 1; end;
  grant execute on function public.shout(public.pets), public.last_visits(public.pets) to anon;
  grant all on public.owners, public.pets, public.visits to anon`;

const { failure, rest, rows, sql } = useRest({}, DDL);
const unguarded = useRest({ SAFE_UPDATE: "false" }, DDL);

const SEED = `
  truncate owners, pets, visits;
  insert into owners values (1, 'Ann'), (2, 'Ben');
  insert into pets (id, owner_id, name, legs, tags, data, born) values
    (1, 1, 'Rex', 4, '{big,old}', '{"chip": {"no": 7}, "likes": ["bones"]}', '2015-01-01'),
    (2, 2, 'Mia', 4, '{small}', '{"chip": null}', '2020-06-01'),
    (3, null, 'Tom', 3, null, null, null);
  insert into visits values (1, 1, true), (2, 2, false), (3, 2, true)`;
beforeEach(() => sql(SEED));

/** Requests that change or delete all matching rows and return them. */
const METHODS = {
  PATCH: { method: "PATCH", body: { note: "found" }, prefer: "return=representation" },
  DELETE: { method: "DELETE", prefer: "return=representation" },
} as const;
const METHOD_NAMES = ["PATCH", "DELETE"] as const;

/** The ids of the pets that a request has not changed. */
const untouched = async () => (await sql("select id from pets where note is null order by id")).map(({ id }) => id);

describe.each(METHOD_NAMES)("%s", (name) => {
  const sent = METHODS[name];
  const ids = async (path: string) => (await rows(path, sent)).map(({ id }: any) => id).sort();
  const quietly = (path: string) => rest(path, { ...sent, prefer: "" });

  test.each([
    ["id=eq.1", [1]],
    ["id=neq.1", [2, 3]],
    ["id=gte.2&id=lt.3", [2]],
    ["id=in.(1,3,99)", [1, 3]],
    ["id=in.()", []],
    ["id=not.in.(1,3)", [2]],
    ["name=like.*m*", [3]],
    ["name=ilike.*M*", [2, 3]],
    ["name=like(any).{R*,T*}", [1, 3]],
    ["name=imatch.^[rt]", [1, 3]],
    ["tags=cs.{big}", [1]],
    ["tags=ov.{big,small}", [1, 2]],
    ["tags=is.null", [3]],
    ["tags=not.is.null", [1, 2]],
    ["born=gt.2018-01-01", [2]],
    ["name=wfts(simple).rex", [1]],
    ["data->chip->>no=eq.7", [1]],
    ["data->chip=not.is.null&data->chip=neq.null", [1]],
    ["data->likes->>0=eq.bones", [1]],
    ["shout=eq.MIA", [2]],
    ["or=(id.eq.1,name.eq.Tom)", [1, 3]],
    ["or=(and(legs.eq.4,name.eq.Mia),id.in.(3))", [2, 3]],
    ["not.or=(id.eq.1,id.eq.2)", [3]],
    ["legs=eq.4&or=(name.eq.Mia,name.eq.Tom)", [2]],
    ["id=eq.99", []],
    ["select=id,owners()&owners=not.is.null", [1, 2]],
    ["select=id,owners()&owners=is.null", [3]],
    ["select=id,owners()&owners.name=eq.Ann&owners=not.is.null", [1]],
    ["select=id,visits()&visits=is.null", [3]],
    ["select=id,visits()&visits.paid=is.false&visits=not.is.null", [2]],
    ["select=id,owners(),visits()&or=(owners.is.null,visits.not.is.null)", [1, 2, 3]],
    ["select=id,last_visits()&last_visits.paid=is.true&last_visits=not.is.null", [1, 2]],
  ])("with ?%s changes the rows %j, whether they are returned or not", async (query, expected) => {
    expect(await ids(`pets?${query.includes("select=") ? query : `select=id&${query}`}`)).toEqual(expected);
    await sql(SEED);
    expect((await quietly(`pets?${query}`)).status).toBe(204);
    expect(await untouched()).toEqual([1, 2, 3].filter((id) => !expected.includes(id)));
  });

  test("without a filter is refused, and changes nothing", async () => {
    const command = name === "PATCH" ? "UPDATE" : "DELETE";
    expect(await rest("pets", sent)).toMatchObject({
      status: 400,
      json: { code: "21000", message: `${command} requires a WHERE clause` },
    });
    expect(await untouched()).toEqual([1, 2, 3]);
  });

  test.each([["limit=1&order=id"], ["select=id,owners!inner(name)&owners.name=eq.Ann"]])(
    "with ?%s, which is not a filter, is refused",
    async (query) => {
      expect(await failure(`pets?${query}`, sent)).toEqual([400, "21000"]);
    },
  );

  test("without a filter changes all rows if SAFE_UPDATE is off", async () => {
    await unguarded.sql(SEED);
    const changed = await unguarded.rows("visits?select=id", {
      ...sent,
      ...(name === "PATCH" && { body: { paid: null } }),
    });
    expect(changed.map(({ id }: any) => id)).toEqual([1, 2, 3]);
  });

  test.each([
    ["owners.name=eq.Ann", 400, "PGRST108"],
    ["id=eq.1&owners.name=eq.Ann", 400, "PGRST108"],
    ["select=id,owners(name)&owners=eq.1", 400, "PGRST120"],
    ["select=id,nothing()&id=eq.1", 400, "PGRST200"],
    ["colour=eq.red", 400, "42703"],
    ["id=eq.one", 400, "22P02"],
    ["id=equals.1", 400, "PGRST100"],
    ["or=(id.eq.1", 400, "PGRST100"],
  ])("with ?%s is refused, whether rows are returned or not", async (query, status, code) => {
    expect(await failure(`pets?${query}`, sent)).toEqual([status, code]);
    expect(await failure(`pets?${query}`, { ...sent, prefer: "" })).toEqual([status, code]);
    expect(await untouched()).toEqual([1, 2, 3]);
  });
});
