import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Line, placeInLayers } from "../../../parts/console/layers.ts";
import { type ConsoleClient, consoleClient, textOf } from "../../support/console-client.ts";
import { createTestDatabase } from "../../support/database.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const SCHEMA = `
  create table public.teams (id bigint primary key, name text not null unique, parent bigint references public.teams);
  create table public.plans (
    team bigint references public.teams, number integer, body text default '<b>none</b>', length integer generated always as (length(body)) stored,
    primary key (team, number));
  create index plans_body_idx on public.plans (lower(body)) where number > 3;
  create table public.steps (id bigint primary key, team bigint, plan integer, done_by bigint references public.teams,
    foreign key (team, plan) references public.plans (team, number));
  create table public.logs (id bigint, at date) partition by range (at);
  create table public.logs_of_2026 partition of public.logs for values from ('2026-01-01') to ('2027-01-01');
  create table public.hidden (id bigint);
  create view public.open_steps with (security_invoker) as select * from public.steps;
  insert into public.teams select i, 'team ' || i from generate_series(1, 1200) as i;
  insert into public.logs select i, '2026-02-02' from generate_series(1, 300) as i;
  alter table public.teams enable row level security;
  alter table public.plans enable row level security;
  grant select, insert (id, name), delete on public.teams to authenticated;
  grant select on public.teams to anon;
  grant select on public.hidden to anon;
  create policy "teams are <public>" on public.teams for select using (name <> 'secret');
  create policy "only long ones" on public.teams as restrictive for insert to authenticated with check (length(name) > 3);
  comment on table public.teams is E'@omit something\\nPeople who <work> together.';
  analyze;`;

let service: TestService;
let operator: ConsoleClient;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(SCHEMA);
  service = await startTestService({ PARTS: "+console" }, database);
  operator = await consoleClient(service, service.service.tokens.issueKey("service_role"));
});
afterAll(() => service.stop());

describe("/console/schema", () => {
  const list = async () => textOf(await operator.page("/schema"));
  const pageOf = async (table: string) => textOf(await operator.page(`/schema?table=public.${table}`));

  test("lists every table with its kind, estimated rows, sizes and row-level security", async () => {
    const text = await list();
    expect(text).toMatch(/public\.teams table 3 1\.2K \d+ KiB \d+ KiB 2 policies/);
    expect(text).toMatch(/public\.plans table 4 0 [\d.]+ \w+ [\d.]+ KiB 0 policies/);
    expect(text).toMatch(/public\.hidden table 1 0 0 bytes 0 bytes off/);
    expect(text).toMatch(/public\.open_steps view 4 – – – that of its tables/);
  });

  test("counts the partitions of a table with it", async () => {
    expect(await list()).toMatch(/public\.logs partitioned table 2 300 [1-9][\d.]* KiB/);
  });

  test("shows what each role may do with each table, and which rows", async () => {
    const text = await list();
    const matrix = text.slice(text.indexOf("Who may what"));
    expect(matrix).toContain("Table admin anon authenticated service_role");
    expect(matrix).toMatch(
      /public\.teams read, insert 2, delete by 2 policies read by 1 policy read, insert 2, delete by 2 policies –/,
    );
    expect(matrix).toMatch(/public\.hidden – read all rows – –/);
  });

  test("draws each table once, with a line for each foreign key, also to itself", async () => {
    const page = await operator.page("/schema");
    const keys = [...page.matchAll(/<path class="key"[^>]*><title>([^<]+)</g)].map(([, title]) => textOf(title!));
    expect(keys.filter((key) => /^(plans|steps|teams)/.test(key)).sort()).toEqual([
      "plans_team_fkey: public.plans.team → public.teams.id",
      "steps_done_by_fkey: public.steps.done_by → public.teams.id",
      "steps_team_plan_fkey: public.steps.team → public.plans.team",
      "teams_parent_fkey: public.teams.parent → public.teams.id",
    ]);
    for (const table of ["plans", "steps", "teams"])
      expect(page.match(new RegExp(`<a href="/console/schema\\?table=public\\.${table}" transform`, "g"))).toHaveLength(
        1,
      );
  });

  test("has a page for each table: columns, keys, indexes, policies and rights", async () => {
    const plans = await pageOf("plans");
    expect(plans).toContain("team bigint no –");
    expect(plans).toContain("body text yes '<b>none</b>'::text");
    expect(plans).toContain("length integer yes generated always");
    expect(plans).toContain("primary key team, number");
    expect(plans).toContain("foreign key plans_team_fkey team public.teams (id)");
    expect(plans).toContain("referred to by steps_team_plan_fkey team, number public.steps (team, plan)");
    expect(plans).toMatch(
      /plans_body_idx CREATE INDEX plans_body_idx ON public\.plans USING btree \(lower\(body\)\) WHERE \(number > 3\) [\d.]+ KiB 0/,
    );
    expect(plans).toContain("No policy: only roles that bypass row-level security may use a row.");
    const teams = await pageOf("teams");
    expect(teams).toContain("People who <work> together.");
    expect(teams).not.toContain("@omit");
    expect(teams).toContain("teams are <public> select (name <> 'secret'::text) – public");
    expect(teams).toContain("only long ones restrictive insert – (length(name) > 3) authenticated");
    expect(teams).toContain("authenticated read, insert 2, delete by 2 policies all columns id, name –");
    expect(await pageOf("open_steps")).toContain("A view has none: the policies of its tables apply.");
    expect(await pageOf("hidden")).toContain("There is no primary key");
  });

  test("shows names and comments as text, and says when there is no such table", async () => {
    expect(await operator.page("/schema?table=public.teams")).not.toContain("<work>");
    const page = await operator.page("/schema?table=%3Cb%3E");
    expect(textOf(page)).toContain("There is no table “<b>” in the served schemas.");
    expect(textOf(await operator.page("/schema?q=%3Cb%3E"))).toContain("No table has such a name.");
  });

  test("shows all that needs no lock while a table is locked", async () => {
    const { owner: client } = service.database;
    try {
      await client.query("begin; lock table public.steps");
      expect(await pageOf("steps")).toContain("The indexes cannot be read now, because the table is locked");
      expect(await list()).toContain("The sizes cannot be read now");
    } finally {
      await client.query("rollback");
    }
  });
});

describe("the layout of a diagram", () => {
  const boxes = (...ids: readonly string[]) => ids.map((id) => ({ id, width: 100, height: 60 }));

  test("places each box to the right of those that it refers to", () => {
    const lines = [
      { from: "c", to: "b" },
      { from: "b", to: "a" },
      { from: "c", to: "a" },
    ];
    const { corners, bends } = placeInLayers(boxes("c", "b", "a"), lines);
    expect(["a", "b", "c"].map((id) => corners.get(id)!.x)).toEqual([0, 184, 368]);
    expect(bends.map((points) => points.map(({ x }) => x))).toEqual([[], [], [184]]);
  });

  /** One of its layers reaches exactly the height 0. */
  const AT_ZERO: Line[] = [
    ["t5", "t12"],
    ["t10", "t0"],
    ["t4", "t12"],
    ["t8", "t0"],
    ["t0", "t12"],
  ].map(([from, to]) => ({ from: from!, to: to! }));

  test("overlaps no boxes, also with circles and lines to itself", () => {
    const ids = Array.from({ length: 14 }, (_, i) => `t${i}`);
    const id = fc.constantFrom(...ids);
    fc.assert(
      fc.property(fc.array(fc.record({ from: id, to: id }), { maxLength: 30 }), (lines: Line[]) => {
        const { corners, width, height } = placeInLayers(boxes(...ids), lines);
        const all = ids.map((each) => corners.get(each)!);
        for (const [i, a] of all.entries()) {
          expect(a.x >= 0 && a.y >= 0 && a.x + 100 <= width && a.y + 60 <= height).toBe(true);
          for (const b of all.slice(i + 1)) expect(Math.abs(a.x - b.x) >= 100 || Math.abs(a.y - b.y) >= 60).toBe(true);
        }
      }),
      { examples: [[AT_ZERO]] },
    );
  });
});
