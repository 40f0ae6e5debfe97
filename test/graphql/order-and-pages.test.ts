import { beforeAll, describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { data, errors, service, sql } = useService({ GRAPHQL_UNINDEXED_FILTERS: "on" });

type Page = {
  edges: { cursor: string; node: any }[];
  pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; startCursor: string | null; endCursor: string | null };
  totalCount: number;
};

beforeAll(async () => {
  await sql(
    `
    create type public.level as enum ('LOW', 'HIGH');
    create table public.teams (id integer primary key, name text, rank numeric);
    create table public.players (
      team_id integer references public.teams, shirt integer, name text not null, born date, level public.level,
      joined timestamptz, goals double precision, score integer not null, primary key (team_id, shirt)
    );
    create table public.notes (note text, pinned boolean);
    insert into public.teams values (1, 'Reds', 1.5), (2, 'Blues', null), (3, null, 1.5), (4, 'Greens', 2), (5, 'Blues', 'NaN');
    insert into public.players
      select 1 + n % 4, n, case n % 5 when 0 then 'Ann' when 1 then 'bob' else 'Åse ' || n % 3 end,
        case when n % 3 > 0 then date '2000-01-01' + n % 2 end,
        case n % 3 when 0 then 'LOW'::level when 1 then 'HIGH' end,
        case when n % 4 > 0 then timestamptz '2026-01-01 00:00:00.000001+00' + n % 2 * interval '1 microsecond' end,
        case n % 4 when 0 then 'NaN'::float8 when 1 then 0.1 + 0.2 when 2 then '-Infinity' end, n
      from generate_series(1, 30) as n;
    insert into public.notes values ('a', true), ('b', null), ('c', false), ('d', true), ('e', null);
    create table public.hits (page text, code integer unique);
    insert into public.hits select 'p' || n % 2, nullif(n, 7) % 7 from generate_series(1, 7) as n;
    insert into public.hits select 'p' || n % 2 from generate_series(1, 6) as n;
    create function public.players_of(team integer) returns setof public.players language sql stable
      return null;
  `.replace("return null;", "begin atomic select * from public.players where team_id = team order by shirt desc; end;"),
  );
  await sql("grant select on public.teams, public.players, public.notes, public.hits to anon, authenticated");
  await sql("grant execute on function public.players_of to anon, authenticated");
});

const PLAYERS = `query ($first: Int, $last: Int, $after: String, $before: String, $offset: Int, $orderBy: [PlayerOrderBy!]) {
  players(first: $first, last: $last, after: $after, before: $before, offset: $offset, orderBy: $orderBy) {
    totalCount edges { cursor node { shirt } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}`;
const page = async (variables: Record<string, unknown>): Promise<Page> => (await data(PLAYERS, { variables })).players;
const shirts = ({ edges }: Page): number[] => edges.map(({ node }) => Number(node.shirt));
const inSql = async (order: string): Promise<number[]> =>
  (await sql(`select p.shirt from players as p left join teams as t on t.id = p.team_id order by ${order}`)).map(
    ({ shirt }) => shirt,
  );

const ORDERS: [orderBy: string[], sql: string][] = [
  [["PRIMARY_KEY_DESC"], "p.team_id desc, p.shirt desc"],
  // The first column of a composite key is not unique.
  [["TEAM_ID_DESC"], "p.team_id desc, p.shirt desc"],
  [["NAME_ASC"], "p.name, p.team_id, p.shirt"],
  [["LEVEL_DESC", "NAME_ASC"], "level desc, p.name, p.team_id desc, p.shirt desc"],
  [["BORN_ASC"], "born, p.team_id, p.shirt"],
  [["BORN_ASC_NULLS_FIRST"], "born nulls first, p.team_id, p.shirt"],
  [["BORN_DESC"], "born desc, p.team_id desc, p.shirt desc"],
  [["BORN_DESC_NULLS_LAST", "SHIRT_ASC"], "born desc nulls last, p.shirt"],
  [["JOINED_ASC"], "joined, p.team_id, p.shirt"],
  [["GOALS_DESC"], "goals desc, p.team_id desc, p.shirt desc"],
  [["TEAM__NAME_ASC"], "t.name, p.team_id, p.shirt"],
  [["TEAM__RANK_DESC", "SHIRT_ASC"], "t.rank desc, p.shirt"],
];

describe("pages in any order", () => {
  test.each(ORDERS)("%j, forwards and backwards, have every row once", async (orderBy, order) => {
    const expected = await inSql(order);
    const forwards: number[] = [];
    let after: string | null = null;
    for (let more = true; more; ) {
      const next: Page = await page({ first: 7, after, orderBy });
      forwards.push(...shirts(next));
      ({ hasNextPage: more, endCursor: after } = next.pageInfo);
      expect(next.pageInfo.hasPreviousPage).toBe(forwards.length > 7);
      expect(more).toBe(forwards.length < 30);
    }
    expect(forwards).toEqual(expected);

    const backwards: number[] = [];
    let before: string | null = null;
    for (let more = true; more; ) {
      const next: Page = await page({ last: 7, before, orderBy });
      backwards.unshift(...shirts(next));
      ({ hasPreviousPage: more, startCursor: before } = next.pageInfo);
      expect(next.pageInfo.hasNextPage).toBe(backwards.length > 7);
      expect(more).toBe(backwards.length < 30);
    }
    expect(backwards).toEqual(expected);
  });

  test("NATURAL, an empty list and null keep the order of the table", async () => {
    const expected = (await inSql("p.team_id, p.shirt")).slice(0, 10);
    for (const orderBy of [["NATURAL"], [], null]) expect(shirts(await page({ orderBy }))).toEqual(expected);
  });

  test("between two cursors have the rows between them", async () => {
    const all = await page({ first: 30, orderBy: ["GOALS_ASC"] });
    const [after, before] = [all.edges[3]!.cursor, all.edges[9]!.cursor];
    const between = await page({ first: 10, after, before, orderBy: ["GOALS_ASC"] });
    expect(shirts(between)).toEqual(shirts(all).slice(4, 9));
    expect(between.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: true });
    expect(shirts(await page({ last: 2, after, before, orderBy: ["GOALS_ASC"] }))).toEqual(shirts(all).slice(7, 9));
  });

  test("neither repeat nor skip a row when others come and go, in any order", async () => {
    await sql("insert into teams values (9, 'Zebras', 9)");
    for (const orderBy of [["NAME_DESC"], ["TEAM__RANK_ASC", "SHIRT_ASC"], ["SCORE_ASC"]]) {
      await sql(
        "insert into players (team_id, shirt, name, score) values (9, 90, 'C', 100), (9, 91, 'B', 101), (9, 92, 'A', 102)",
      );
      const filter = 'filter: { teamId: { equalTo: "9" } }';
      const shirtsAfter = async (after: string | null, first: number) => {
        const query = `query ($after: String, $orderBy: [PlayerOrderBy!], $first: Int) {
          players(first: $first, after: $after, orderBy: $orderBy, ${filter}) { edges { node { shirt } } pageInfo { endCursor } } }`;
        return (await data(query, { variables: { after, orderBy, first } })).players as Page;
      };
      const [first, second, third] = shirts(await shirtsAfter(null, 3)) as [number, number, number];
      const { pageInfo } = await shirtsAfter(null, 2);
      await sql("delete from players where team_id = 9 and shirt in ($1, $2)", first, second);
      await sql("insert into players (team_id, shirt, name, score) values (9, 89, 'Z', 1)");
      expect([orderBy, shirts(await shirtsAfter(pageInfo.endCursor, 9))]).toEqual([
        orderBy,
        // In the order by the rank of the team, the new row would be before the cursor too.
        [third],
      ]);
      await sql("delete from players where team_id = 9");
    }
    await sql("delete from teams where id = 9");
  });

  test("skip the rows of offset", async () => {
    const expected = await inSql("p.name, p.team_id, p.shirt");
    const skipped = await page({ first: 5, offset: 20, orderBy: ["NAME_ASC"] });
    expect(shirts(skipped)).toEqual(expected.slice(20, 25));
    expect(skipped).toMatchObject({ totalCount: 30, pageInfo: { hasNextPage: true, hasPreviousPage: true } });
    const { edges } = await page({ first: 1, orderBy: ["NAME_ASC"] });
    expect(shirts(await page({ first: 2, after: edges[0]!.cursor, offset: 3, orderBy: ["NAME_ASC"] }))).toEqual(
      expected.slice(4, 6),
    );
  });

  test("of no rows know whether there are rows", async () => {
    const empty = {
      edges: [],
      pageInfo: { hasNextPage: true, hasPreviousPage: false, startCursor: null, endCursor: null },
    };
    expect(await page({ first: 0 })).toEqual({ ...empty, totalCount: 30 });
    const { pageInfo } = await page({ first: 30 });
    expect(await page({ first: 0, after: pageInfo.endCursor })).toMatchObject({
      edges: [],
      pageInfo: { hasNextPage: false, hasPreviousPage: true },
    });
    expect(await page({ last: 0 })).toEqual({
      ...empty,
      pageInfo: { ...empty.pageInfo, hasNextPage: false, hasPreviousPage: true },
      totalCount: 30,
    });
    const { teams } = await data('{ teams(first: 0, filter: { id: { equalTo: "99" } }) { pageInfo { hasNextPage } } }');
    expect(teams.pageInfo.hasNextPage).toBe(false);
  });

  test("exist for a table without a key", async () => {
    const notes = async (after: string | null, orderBy: string) =>
      (
        await data(
          `query ($after: String) { notes(first: 2, after: $after, orderBy: ${orderBy}) { edges { node { note } } pageInfo { hasNextPage endCursor } } }`,
          { variables: { after } },
        )
      ).notes as Page;
    for (const orderBy of ["[]", "PINNED_DESC_NULLS_LAST", "NOTE_ASC"]) {
      const seen: string[] = [];
      let after: string | null = null;
      for (let more = true; more; ) {
        const next: Page = await notes(after, orderBy);
        seen.push(...next.edges.map(({ node }) => node.note));
        ({ hasNextPage: more, endCursor: after } = next.pageInfo);
      }
      expect(seen).toHaveLength(5);
      expect(new Set(seen)).toEqual(new Set(["a", "b", "c", "d", "e"]));
      if (orderBy === "NOTE_ASC") expect(seen).toEqual(["a", "b", "c", "d", "e"]);
    }
  });

  test.each(["[]", "PAGE_ASC", "CODE_DESC"])(
    "have each of the equal rows of a table without a key, in the order %s",
    async (orderBy) => {
      const hits = async (args: string) =>
        (
          await data(
            `{ hits(${args}, orderBy: ${orderBy}) { edges { node { page code } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`,
          )
        ).hits as Page;
      const all = (await hits("first: 20")).edges;
      expect(all).toHaveLength(13);
      const [forwards, backwards]: [Page["edges"], Page["edges"]] = [[], []];
      for (let [after, more] = ["null", true]; more; ) {
        const { edges, pageInfo } = await hits(`first: 2, after: ${after}`);
        forwards.push(...edges);
        [after, more] = [JSON.stringify(pageInfo.endCursor), pageInfo.hasNextPage];
      }
      for (let [before, more] = ["null", true]; more; ) {
        const { edges, pageInfo } = await hits(`last: 2, before: ${before}`);
        backwards.unshift(...edges);
        [before, more] = [JSON.stringify(pageInfo.startCursor), pageInfo.hasPreviousPage];
      }
      expect({ forwards, backwards }).toEqual({ forwards: all, backwards: all });
    },
  );
});

describe("arguments that contradict each other are VALIDATION_ERROR", () => {
  test.each([
    [{ first: 1, last: 1 }, "use either first or last, not both"],
    [{ last: -1 }, "last must be from 0 to 1000"],
    [{ last: 1001 }, "last must be from 0 to 1000"],
    [{ offset: -1 }, "offset must not be negative"],
    [{ last: 1, offset: 1 }, "offset cannot be used with last"],
    [{ before: "garbage" }, "Invalid 'before' cursor: use a cursor of this list, in the same order"],
  ])("%j", async (variables, message) =>
    expect(await errors(PLAYERS, { variables })).toEqual([`VALIDATION_ERROR: ${message}`]),
  );

  test("a cursor of another order", async () => {
    const { edges } = await page({ first: 1, orderBy: ["NAME_ASC"] });
    const variables = { after: edges[0]!.cursor, orderBy: ["NAME_DESC", "BORN_ASC"] };
    expect(await errors(PLAYERS, { variables })).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR: Invalid 'after' cursor/),
    ]);
  });
});

describe("rows are ordered by aggregates of the rows that refer to them", () => {
  const teams = async (orderBy: string) =>
    (await data(`{ teams(orderBy: ${orderBy}) { edges { node { id } } } }`)).teams.edges.map(({ node }: any) =>
      Number(node.id),
    );

  test.each([
    ["[PLAYERS__COUNT_DESC, ID_DESC]", "count(p.*) desc, t.id desc"],
    ["[PLAYERS__MAX_NAME_ASC_NULLS_FIRST, ID_ASC]", "max(p.name) nulls first, t.id"],
    ["[PLAYERS__MIN_BORN_ASC, ID_ASC]", "min(p.born), t.id"],
    ["[PLAYERS__SUM_SCORE_DESC_NULLS_LAST, ID_ASC]", "sum(p.score) desc nulls last, t.id"],
    ["[PLAYERS__AVERAGE_SCORE_ASC, ID_ASC]", "avg(p.score), t.id"],
  ])("%s", async (orderBy, order) => {
    const rows = await sql(
      `select t.id from teams t left join players p on p.team_id = t.id group by t.id order by ${order}`,
    );
    const expected = rows.map(({ id }) => id);
    expect(await teams(orderBy)).toEqual(expected);
    const pages = async (first: string, cursorOf: "endCursor" | "startCursor", argument: string) => {
      const query = `query ($cursor: String) { teams(${first}: 2, ${argument}: $cursor, orderBy: ${orderBy}) {
        edges { node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`;
      const seen: number[][] = [];
      let cursor: string | null = null;
      for (let more = true; more; ) {
        const { teams: found }: { teams: Page } = await data(query, { variables: { cursor } });
        seen.push(found.edges.map(({ node }) => Number(node.id)));
        cursor = found.pageInfo[cursorOf];
        more = found.pageInfo[cursorOf === "endCursor" ? "hasNextPage" : "hasPreviousPage"];
      }
      return seen;
    };
    expect((await pages("first", "endCursor", "after")).flat()).toEqual(expected);
    expect((await pages("last", "startCursor", "before")).reverse().flat()).toEqual(expected);
  });
});

describe("nested lists", () => {
  test("have limit, offset, filter and orderBy, and a connection beside them, in one round trip", async () => {
    const query = `{ teams(orderBy: ID_ASC, first: 2) { edges { node { id
      players(limit: 2, offset: 1, orderBy: SHIRT_DESC) { score }
      playersConnection(last: 2, orderBy: SHIRT_ASC, filter: { score: { lessThan: 20 } }) {
        totalCount pageInfo { hasPreviousPage hasNextPage } edges { cursor node { score } } }
    } } } }`;
    const before = service().service.databaseWaits();
    const { teams } = await data(query);
    expect(service().service.databaseWaits() - before).toBe(1);
    expect(
      teams.edges.map(({ node }: any) => [
        node.players,
        node.playersConnection.edges.map((edge: any) => edge.node.score),
      ]),
    ).toEqual([
      [
        [{ score: 24 }, { score: 20 }],
        [12, 16],
      ],
      [
        [{ score: 25 }, { score: 21 }],
        [13, 17],
      ],
    ]);
    expect(teams.edges[0].node.playersConnection).toMatchObject({
      totalCount: 4,
      pageInfo: { hasPreviousPage: true, hasNextPage: false },
    });
    const [{ cursor }] = teams.edges[0].node.playersConnection.edges;
    const { team } = await data(
      `query ($before: String) { team(id: 1) { playersConnection(last: 5, before: $before, orderBy: SHIRT_ASC) { edges { node { score } } } } }`,
      { variables: { before: cursor } },
    );
    expect(team.playersConnection.edges.map(({ node }: any) => node.score)).toEqual([4, 8]);
  });

  test("of the contract keep their defaults", async () => {
    const { user, usersConnection } = await data(
      `{ user(id: 1) { articles { id } articlesConnection(first: 1) { totalCount edges { node { id } } } } usersConnection(last: 1) { totalCount } }`,
    );
    expect(user.articlesConnection.edges[0].node.id).toBe(user.articles[0].id);
    expect(user.articlesConnection.totalCount).toBe(user.articles.length);
    expect(usersConnection.totalCount).toBe(4);
  });

  test("the rows of a function keep its order unless orderBy is given", async () => {
    const shirtsOf = async (given: string) =>
      (await data(`{ playersOf(team: 2${given}) { edges { node { score } } } }`)).playersOf.edges.map(
        ({ node }: any) => node.score,
      );
    expect(await shirtsOf("")).toEqual([29, 25, 21, 17, 13, 9, 5, 1]);
    expect(await shirtsOf(", orderBy: SHIRT_ASC, first: 2")).toEqual([1, 5]);
    const { playersOf } = await data("{ playersOf(team: 2, first: 3) { pageInfo { endCursor hasNextPage } } }");
    expect(playersOf.pageInfo.hasNextPage).toBe(true);
    expect(await shirtsOf(`, first: 2, offset: 1, after: "${playersOf.pageInfo.endCursor}"`)).toEqual([13, 9]);
    expect(await shirtsOf(`, orderBy: SCORE_DESC, first: 2, offset: 1`)).toEqual([25, 21]);
    expect(await shirtsOf(", filter: { score: { greaterThan: 20 } }")).toEqual([29, 25, 21]);
  });
});
