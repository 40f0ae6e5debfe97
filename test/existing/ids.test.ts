import { afterAll, beforeAll, expect, test } from "vitest";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    {},
    undefined,
    `
    create table public.badges (code smallint primary key, rank int unique, level int unique);
    create table public.awards (
      person bigint, badge smallint references public.badges, rank int references public.badges (rank), size smallint,
      primary key (person, badge)
    );
    grant all on public.badges, public.awards to trackit_user;
    insert into public.badges values (3, 5, 9);
    insert into public.awards values (1, 3, 5, 2);`,
  );
});
afterAll(() => trackit?.stop());

const gql = async (query: string) => {
  const { data, errors } = await trackit.gql(query, { as: 1 });
  return errors ? errors.map(({ message }) => message).join() : data;
};

/** The fields of a type, with their types. */
async function fieldsOf(type: string): Promise<Readonly<Record<string, string>>> {
  const { __type } = await gql(`{ __type(name: "${type}") { fields { name type { name ofType { name } } } } }`);
  return Object.fromEntries(__type.fields.map(({ name, type }: any) => [name, type.name ?? type.ofType.name]));
}

test("an integer of any size is an ID in a primary or foreign key and where a foreign key refers to it, and else a number", async () => {
  expect(await fieldsOf("Award")).toMatchObject({ person: "ID", badge: "ID", rank: "ID", size: "Int" });
  expect(await fieldsOf("Badge")).toMatchObject({ code: "ID", rank: "ID", level: "Int" });
});

test("an ID that the column cannot have finds no row", async () => {
  const row = { badge: "3", rank: "5", badgeByRank: { code: "3" } };
  const fields = "{ badge rank badgeByRank { code } }";
  expect(
    await gql(`{ found: award(person: 1, badge: 3) ${fields}, none: award(person: 1, badge: "x") ${fields} }`),
  ).toEqual({
    found: row,
    none: null,
  });
  expect(await gql('{ badge(code: 40000) { code } awards(filter: { badge: { in: ["3"] } }) { totalCount } }')).toEqual({
    badge: null,
    awards: { totalCount: 1 },
  });
  expect(await gql("{ badges { aggregates { max { code rank } } } }")).toEqual({
    badges: { aggregates: { max: { code: "3", rank: "5" } } },
  });
});
