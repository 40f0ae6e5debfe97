import { describe, expect, test } from "vitest";
import { useRest } from "../support/rest-client.ts";

const DDL = `
  create table public.members (id int primary key, name text);
  create table public.patients (id int primary key, diagnosis text, salary int);
  create table public.visits (id int primary key, patient_id int not null references public.patients);
  insert into public.patients select n, case when n % 6 = 0 then 'hiv' else 'flu' end, n from generate_series(1, 3000) n;
  insert into public.visits select n, n from generate_series(1, 3000) n;
  insert into public.members values (1, 'somebody else');
  alter table public.patients enable row level security;
  create policy "of members" on public.patients for select to anon
    using (exists (select from public.members where name = current_setting('request.jwt.claims', true)::json ->> 'sub'));
  create policy "all" on public.patients for select to authenticated using (true);
  create view public.own_patients as select * from public.patients where current_user = 'authenticated';
  create function public.all_patients() returns setof public.patients stable language sql as 'select * from public.patients';
  grant select on all tables in schema public to anon, authenticated;
  grant execute on function public.all_patients() to anon;
  analyze public.patients, public.visits`;

const { rest } = useRest({ GRAPHQL_DOCUMENTS: "none", DB_PLAN: "on", DB_MAX_ROWS: "10" }, DDL);
const unlimited = useRest({ GRAPHQL_DOCUMENTS: "none", DB_MAX_ROWS: "0" }, DDL);

const HIDDEN = [
  "patients?diagnosis=eq.flu",
  "patients?salary=lt.1000",
  "own_patients?diagnosis=eq.hiv",
  "visits?select=id,patients!inner(id)&patients.diagnosis=eq.flu",
];

describe.each(["planned", "estimated"])("count=%s", (count) => {
  test.each(HIDDEN)("tells nothing about the hidden rows of %s", async (path) => {
    for (const client of [rest, unlimited.rest]) {
      const { headers } = await client(path, { prefer: `count=${count}` });
      expect(headers.get("content-range")).toBe("*/0");
    }
  });

  test("of rows that the caller may see is exact up to 1000, and then an estimate that is not less", async () => {
    const total = async (filter: string) => {
      const { headers } = await rest(`patients?${filter}`, { as: "ada", prefer: `count=${count}` });
      return headers.get("content-range");
    };
    expect(await total("diagnosis=eq.hiv")).toBe("0-9/500");
    expect(await total("id=lte.1000")).toBe("0-9/1000");
    expect(await total("diagnosis=eq.flu")).toMatch(/^0-9\/2\d\d\d$/);
    const all = await unlimited.rest("patients?diagnosis=eq.flu", { as: "ada", prefer: `count=${count}` });
    expect(all.headers.get("content-range")).toBe("0-2499/2500");
  });
});

test.each([...HIDDEN, "rpc/all_patients"])("the plan of %s has no numbers of rows", async (path) => {
  const accept = "application/vnd.pgrst.plan+json; options=analyze|verbose|buffers|wal";
  const { status, text } = await rest(path, { headers: { accept } });
  expect(status, text).toBe(200);
  expect(text).toContain("Node Type");
  expect(text).not.toMatch(/Rows|Cost|Width|Loops|Removed|Blocks/);
});

test("the plan and the planned count of a table without policies are those of the planner", async () => {
  const { headers } = await rest("visits?id=gt.0", { prefer: "count=planned" });
  expect(headers.get("content-range")).toBe("0-9/3000");
  const plan = await rest("visits", { headers: { accept: "application/vnd.pgrst.plan+json; options=analyze" } });
  expect(plan.text).toContain("Actual Rows");
});
