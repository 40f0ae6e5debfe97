import { expect, test } from "vitest";
import type { DatabaseFunction, FunctionResult } from "../../../db/catalog/catalog.ts";
import { useCatalog } from "../../support/catalog.ts";

const office = useCatalog(
  `
  create schema office;
  create schema hidden;
  create schema helpers;
  create table office.files (id int primary key);
  create view office.drawers as select id from office.files;
  create table hidden.papers (id int, title varchar(20));
  create type office.pair as (a int, b numeric(5,2));
  create domain office.row_domain as office.pair;
  create domain office.positive as int check (value > 0);
  create domain office."image/png" as bytea;
  create domain office.tags as text[];

  create function office.none() returns void language sql as '';
  create function office.scalar() returns int language sql immutable as 'select 1';
  create function office.scalars() returns setof text language sql stable as 'select ''a''';
  create function office.array() returns varchar[] language sql as 'select ''{}''::varchar[]';
  create function office.of_domain() returns office.positive language sql as 'select 1';
  create function office.of_row_domain() returns office.row_domain language sql as 'select null::office.row_domain';
  create function office.picture() returns office."image/png" language sql as 'select ''''::bytea';
  create function office.one_row() returns office.files language sql as 'select null::office.files';
  create function office.rows() returns setof office.drawers language sql as 'select null::office.drawers';
  create function office.hidden_rows() returns setof hidden.papers language sql as 'select null::hidden.papers';
  create function office.system_rows() returns setof pg_class language sql as 'select null::pg_class';
  create function office.composite() returns office.pair language sql as 'select null::office.pair';
  create function office.as_table() returns table (id int, names text[]) language sql as 'select 1, null::text[]';
  create function office.one_column() returns table (id int) language sql as 'select 1';
  create function office.out_arguments(i int, out o text, inout io int) language sql as 'select ''x'', 1';
  create function office.one_out(out total bigint) language sql as 'select 1::bigint';
  create function office.out_row(out file office.files) language sql as 'select null::office.files';
  create function office.unnamed_out(out int, out text) language sql as 'select 1, ''x''';
  create function office.unknown_rows() returns setof record language sql as 'select 1, 2';

  create function office.arguments(
    required int, tags office.tags, "odd (name)" text, optional varchar default 'x', another numeric default 1
  ) returns int language sql as 'select 1';
  create function office.unnamed(json) returns json language sql as 'select $1';
  create function office.some(prefix text, variadic numbers int[]) returns int language sql as 'select 1';
  create function office.overloaded() returns int language sql as 'select 1';
  create function office.overloaded(a int) returns int language sql as 'select 1';
  create function office.overloaded(b text) returns text language sql as 'select b';

  create function office.set_up() returns int language sql
    set statement_timeout = '3s' set default_transaction_isolation = 'repeatable read' set search_path = '' set timezone = 'UTC'
    as 'select 1';
  comment on function office.set_up() is 'Sets things up.';

  create function office.trigger() returns trigger language plpgsql as 'begin return new; end';
  create function office.event() returns event_trigger language plpgsql as 'begin end';
  create function office.any_element(anyelement) returns anyelement language sql as 'select $1';
  create function office.any_array(anyarray) returns int language sql as 'select 1';
  create function office.internal(internal) returns int language internal as 'pg_backend_pid';
  create function office.text_output(text) returns cstring language internal as 'textout';
  create aggregate office.total(int) (sfunc = int4pl, stype = int);
  create function office.window() returns bigint language internal window as 'window_row_number';
  create procedure office.procedure() language sql as '';
  create function helpers.helper(int) returns int language sql as 'select 1';`,
  { schemas: ["office"], extraSearchPath: ["helpers"] },
);

const overloads = (name: string) => office().catalog.schemas.get("office")!.functions.get(name) ?? [];
const only = (name: string): DatabaseFunction => {
  const all = overloads(name);
  expect(all).toHaveLength(1);
  return all[0]!;
};
/** `setof integer`, `setof table files`, `(a integer, b text)` */
function resultOf(returns: FunctionResult): string {
  if (returns.kind === "void") return "void";
  const set = returns.isSet ? "setof " : "";
  switch (returns.kind) {
    case "scalar":
      return `${set}${returns.type}`;
    case "table":
      return `${set}table ${returns.table.schema}.${returns.table.name}`;
    case "composite":
      return `${set}(${[...returns.columns.values()].map(({ name, type }) => `${name} ${type}`).join(", ")})`;
    case "record":
      return `${set}record`;
  }
}

test.each([
  ["none", "void"],
  ["scalar", "integer"],
  ["scalars", "setof text"],
  ["array", "character varying[]"],
  ["of_domain", "office.positive"],
  ["of_row_domain", "(a integer, b numeric(5,2))"],
  ["picture", 'office."image/png"'],
  ["one_row", "table office.files"],
  ["rows", "setof table office.drawers"],
  ["hidden_rows", "setof (id integer, title character varying(20))"],
  ["composite", "(a integer, b numeric(5,2))"],
  ["as_table", "setof (id integer, names text[])"],
  ["one_column", "setof (id integer)"],
  ["out_arguments", "(o text, io integer)"],
  ["one_out", "(total bigint)"],
  ["out_row", "table office.files"],
  ["unnamed_out", "(column1 integer, column2 text)"],
  ["unknown_rows", "setof record"],
])("%s() returns %s", (name, result) => expect(resultOf(only(name).returns)).toBe(result));

test("a function that returns rows of a system table has its columns", () => {
  expect(resultOf(only("system_rows").returns)).toMatch(/^setof \(oid oid, relname name, /);
});

test("an argument is required unless it has a default", () => {
  expect(only("arguments").arguments.map(({ name, type, isRequired }) => [name, type, isRequired])).toEqual([
    ["required", "integer", true],
    ["tags", "office.tags", true],
    ["odd (name)", "text", true],
    ["optional", "character varying", false],
    ["another", "numeric", false],
  ]);
  expect(only("arguments").arguments[1]!.shape).toMatchObject({ name: "text", isArray: true, domain: "office.tags" });
});

test("OUT arguments are not arguments of a call, INOUT arguments are", () => {
  expect(only("out_arguments").arguments.map(({ name }) => name)).toEqual(["i", "io"]);
  expect(only("as_table").arguments).toEqual([]);
});

test("an argument may be unnamed, and the last may be variadic", () => {
  expect(only("unnamed").arguments).toMatchObject([{ name: "", type: "json" }]);
  expect(only("some").arguments).toMatchObject([
    { name: "prefix", isVariadic: false },
    { name: "numbers", type: "integer[]", isVariadic: true, isRequired: true },
  ]);
});

test("overloads share one name", () => {
  expect(overloads("overloaded").map((one) => one.arguments.map(({ name }) => name))).toEqual([[], ["a"], ["b"]]);
});

test("a function has its volatility, its comment and those settings that the transaction applies", () => {
  expect(only("scalar").volatility).toBe("immutable");
  expect(only("scalars").volatility).toBe("stable");
  expect(only("set_up")).toMatchObject({
    volatility: "volatile",
    comment: "Sets things up.",
    owner: "postgres",
    settings: [
      ["statement_timeout", "3s"],
      ["default_transaction_isolation", "repeatable read"],
    ],
  });
});

test.each([
  "trigger",
  "event",
  "any_element",
  "any_array",
  "internal",
  "text_output",
  "total",
  "window",
  "procedure",
  "helper",
])("%s cannot be called", (name) => expect(overloads(name)).toEqual([]));
