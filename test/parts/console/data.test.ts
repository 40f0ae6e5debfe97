import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleClient, consoleClient, textOf } from "../../support/console-client.ts";
import { createTestDatabase } from "../../support/database.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const SCHEMA = `
  create table public.things (
    team text, "order" bigint, big numeric, data jsonb, tags text[] not null default '{}', body text, is_open boolean,
    length integer generated always as (length(body)) stored, secret text, primary key (team, "order"));
  insert into public.things (team, "order", big, data, tags, body, is_open, secret) values
    ('a,b', 9007199254740993, 1.10, '{"n": 12345678901234567890}', '{x,"y z"}', '<b>one</b>', true, 's'),
    ('red', 2, null, null, '{}', null, null, null);
  insert into public.things (team, "order", body) select 'many', i, repeat('x', 300) from generate_series(1, 1040) as i;
  alter table public.things enable row level security;
  grant select (team, "order", big, data, tags, body, is_open, length), update (team, big, data, tags, body, is_open) on public.things to authenticated;
  grant select, update on public.things to service_role;
  create policy "all read" on public.things for select using (true);
  create policy "red is fixed" on public.things for update to authenticated using (team <> 'red') with check (body is distinct from 'refused');
  create table public.keyless (id integer);
  grant select, update on public.keyless to service_role;`;

let service: TestService;
let operator: ConsoleClient;
let admin: ConsoleClient;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(SCHEMA);
  service = await startTestService({ PARTS: "+console" }, database);
  operator = await consoleClient(service, service.service.tokens.issueKey("service_role"));
  admin = await consoleClient(service, service.token("admin"));
});
afterAll(() => service.stop());

const AUTHENTICATED = { as: "role", role: "authenticated" };
const pathTo = (query: Readonly<Record<string, string>>) =>
  `/data?${new URLSearchParams({ table: "public.things", ...query })}`;
const FIRST = JSON.stringify(["a,b", "9007199254740993"]);
const rowPath = (key: string, as: Readonly<Record<string, string>> = AUTHENTICATED) => pathTo({ ...as, key });
const stored = async (columns: string, where = `"order" = 9007199254740993`) =>
  (
    await service.database.owner.query({
      text: `select ${columns} from public.things where ${where}`,
      rowMode: "array",
    })
  ).rows[0];

describe("/console/data", () => {
  const browse = (query: Readonly<Record<string, string>>, as = operator) => as.page(pathTo(query));

  test("shows the rows and columns that the chosen caller may read, exactly and as text", async () => {
    const query = { ...AUTHENTICATED, where: '["team","neq","many"]' };
    const page = await browse(query);
    const text = textOf(page);
    expect(text).toContain(
      'Row team order big data tags body is_open length Edit a,b 9007199254740993 1.10 {"n": 12345678901234567890} {x,"y z"} <b>one</b> true 10',
    );
    expect(text).toContain("Edit red 2 null null {} null null null");
    expect(page).not.toContain("<b>one");
    expect(textOf(await browse({ where: '["team","neq","many"]' }))).toContain("length secret");
  });

  test("offers each table with a link to its rows, until one is chosen", async () => {
    const page = await operator.page("/data");
    expect(page).toContain('href="/console/data?table=public.things"');
    expect(page).toContain('href="/console/data?table=public.users"');
    expect(textOf(page)).toContain("public.users A person who writes articles and comments.");
  });

  test("filters, sorts and pages", async () => {
    const many = { where: '["team","eq","many"]', order: "order", direction: "desc" };
    const first = await browse(many);
    expect(textOf(first)).toContain("many 1040 ");
    expect(textOf(first)).toContain("Rows 1 to 50");
    const next = /href="\/console([^"]+)">Next rows/.exec(first)![1]!.replaceAll("&#38;", "&");
    expect(textOf(await operator.page(next))).toContain("many 990 ");
    const added = await browse({ column: "body", operator: "is.null", value: "" });
    expect(textOf(added)).toContain("body is null × ");
    expect(textOf(added)).toContain("Rows 1 to 1 ");
    expect(textOf(await browse({ where: '["body","ilike","ONE<"]' }))).toContain("Edit a,b");
    expect(textOf(await browse({ where: '["team","eq","none"]' }))).toContain(
      "No row is visible to the role service_role.",
    );
    expect(textOf(await browse({ where: '["big","eq","x"]' }))).toContain("Invalid input syntax for type numeric");
  });

  test("exports all rows of the filter as CSV, more than a response may have", async () => {
    const csv = await browse({ ...AUTHENTICATED, where: '["team","eq","many"]', export: "csv" });
    const lines = csv.trimEnd().split("\n");
    expect(lines).toHaveLength(1041);
    expect(lines[0]).toBe("team,order,big,data,tags,body,is_open,length");
    await service.database.owner.query("insert into public.keyless select generate_series(1, 501)");
    const refused = textOf(await operator.page("/data?table=public.keyless&export=csv"));
    expect(refused).toContain("Without a primary key, an export has at most 500 rows");
    await service.database.owner.query("delete from public.keyless");
    expect(new Set(lines.map((line) => line.split(",")[1])).size).toBe(1041);
  });

  test("exports what a spreadsheet would calculate as text, which the API sends as it is", async () => {
    const { owner } = service.database;
    const bodies = ["=1+1", '=HYPERLINK("http://evil.example","x")', "@a", "+1 2", "-1.5e-3", "x\n=1,=2", "a=b", '"=3'];
    await owner.query(
      "insert into public.things (team, \"order\", big, body) select 'sum', i, -i, body from unnest($1::text[]) with ordinality as t(body, i)",
      [bodies],
    );
    const [header, ...lines] = (await browse({ ...AUTHENTICATED, where: '["team","eq","sum"]', export: "csv" })).split(
      /\n(?=sum|$)/,
    );
    expect(header).toMatch(/^team,/);
    expect(lines.filter((line) => line !== "").map((line) => line.split(/^sum,\d,/)[1])).toEqual([
      "-1,,{},'=1+1,,4",
      `-2,,{},"'=HYPERLINK(""http://evil.example"",""x"")",,37`,
      "-3,,{},'@a,,2",
      `-4,,{},"'+1 2",,4`,
      "-5,,{},-1.5e-3,,7",
      '-6,,{},"x\n=1,=2",,7',
      "-7,,{},a=b,,3",
      '-8,,{},"""=3",,3',
    ]);
    const headers = { apikey: service.service.tokens.issueKey("service_role"), accept: "text/csv" };
    const answer = await fetch(`${service.url}/rest/v1/things?select=body&team=eq.sum&order=order&limit=1`, {
      headers,
    });
    expect(await answer.text()).toBe("body\n=1+1");
    await owner.query("delete from public.things where team = 'sum'");
  });

  test("shows a change with its SQL, and makes it only after the confirmation", async () => {
    const changes = { "value body": "two\r\nlines", "value is_open": "false", "value big": "1.10" };
    const path = rowPath(FIRST);
    const page = await operator.page(path);
    const version = / name="version" value="([^"]+)"/.exec(page)![1]!;
    const shown = await operator.send(path, { version, ...changes });
    const text = textOf(shown);
    expect(text).toContain("body <b>one</b> two lines");
    expect(text).toContain("is_open true false");
    expect(text).toContain("length 10 9");
    expect(text).toContain('update "public"."things"');
    expect(text).not.toContain("big 1.10");
    expect(await stored("body, is_open")).toEqual(["<b>one</b>", true]);
    const body = textOf(/ name="body" value="([^"]+)"/.exec(shown)![1]!);
    expect(textOf(await operator.send(path, { version, body, action: "apply" }))).toContain("The change is made.");
    expect(await stored("body, is_open, big")).toEqual(["two\nlines", false, "1.10"]);
    expect(textOf(await operator.send(path, { version, body, action: "apply" }))).toContain(
      "The row has changed since you opened it.",
    );
  });

  /** What the page says of a change of the first row, or of another one. */
  async function changed(fields: Readonly<Record<string, string>>, key = FIRST, as = AUTHENTICATED): Promise<string> {
    const path = rowPath(key, as);
    const version = / name="version" value="([^"]+)"/.exec(await operator.page(path))![1]!;
    return textOf(await operator.send(path, { version, ...fields }));
  }

  test("changes JSON, arrays, numbers, keys and nulls without a loss", async () => {
    expect(await changed({ "value data": '{"n": 12345678901234567891, "t": null}' })).toContain(
      '"n": 12345678901234567891',
    );
    expect(await changed({ "value tags": '{p,"q,r"}' })).toContain('tags {x,"y z"} {p,"q,r"}');
    expect(await changed({ "value big": "98765432109876543210.5" })).toContain("big 1.10 98765432109876543210.5");
    expect(await changed({ "value big": "1.10", "null big": "on" })).toContain("big 1.10 null");
    expect(await changed({ "value team": "blue" })).toContain("team a,b blue");
    expect(await changed({ "value big": "5", "null big": "on" }, '["many","7"]')).toContain("big null 5");
  });

  test("names what is wrong with a change, and keeps what was entered", async () => {
    expect(await changed({ "value data": "{" })).toContain("This is not JSON");
    expect(await changed({ "value big": "x" })).toContain("Invalid input syntax for type numeric");
    expect(await changed({ "value body": "refused" })).toContain("violates row-level security policy");
    expect(await changed({ "value body": "other" }, '["red","2"]')).toContain(
      "No row is changed: no policy lets the caller update it.",
    );
    expect(await changed({})).toContain("Nothing differs from the row");
    expect(await changed({ action: "apply", body: "[1]" })).toContain("The change is not a JSON object.");
    expect(await changed({ action: "apply", body: '{"secret": "x"}' })).toContain("ermission denied");
    expect(await stored("secret")).toEqual(["s"]);
    const path = rowPath(FIRST);
    const version = / name="version" value="([^"]+)"/.exec(await operator.page(path))![1]!;
    expect(await operator.send(path, { version, "value data": "{<" })).toContain("{&#60;</textarea>");
  });

  test("offers only what the caller may change", async () => {
    const text = textOf(await operator.page(rowPath(FIRST)));
    expect(text).toContain("order bigint, not granted for update 9007199254740993");
    expect(text).toContain("length integer, generated");
    expect(text).not.toContain("secret");
    expect(textOf(await operator.page("/data?table=public.keyless"))).toContain("No row is visible");
    expect(textOf(await operator.page(rowPath('["none","1"]')))).toContain(
      "No row with this key is visible to the role authenticated.",
    );
    expect(textOf(await operator.page(rowPath("{")))).toContain("No row with this key is visible");
  });

  test("says what to choose when the table or the caller cannot be used", async () => {
    expect(textOf(await operator.page("/data"))).toContain("public.things");
    expect(textOf(await browse({ table: "public.<i>" }))).toContain(
      "“public.<i>” is not a table of the served schemas.",
    );
    expect(textOf(await browse({ as: "role", role: "anon" }))).toContain(
      "the role anon may read no column of public.things",
    );
    expect(textOf(await browse({ as: "user", user: "zoe" }))).toContain("No user signs in as “zoe”");
    expect(textOf(await browse({ as: "role", role: "service_role" }, admin))).toContain(
      "Only the service key may use one",
    );
  });
});
