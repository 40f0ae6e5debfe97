import { expect, test } from "vitest";
import { useCatalog } from "../../support/catalog.ts";

const page = useCatalog(
  `
  create schema page;
  create schema hidden;
  create table page.rows (id int);
  create view page.seen as select id from page.rows;
  create table hidden.rows (id int);
  create domain hidden."Text/HTML" as text;
  create domain page."*/*" as bytea;
  create domain page.plain as text;
  create function page.add(text, page.rows) returns hidden."Text/HTML" language sql as 'select null::text';
  create function page.add(text, page.seen) returns hidden."Text/HTML" language sql as 'select null::text';
  create function page.add(text, hidden.rows) returns hidden."Text/HTML" language sql as 'select null::text';
  create function page.add(bytea, anyelement) returns page."*/*" language sql as 'select null::bytea';
  create aggregate page.html(page.rows) (sfunc = page.add, stype = hidden."Text/HTML");
  create aggregate page.html(page.seen) (sfunc = page.add, stype = hidden."Text/HTML");
  create aggregate page."Odd Name"(anyelement) (sfunc = page.add, stype = page."*/*");
  create aggregate page.of_hidden(hidden.rows) (sfunc = page.add, stype = hidden."Text/HTML");
  create function page.add(page.plain, page.rows) returns page.plain language sql as 'select null::text';
  create aggregate page.no_type(page.rows) (sfunc = page.add, stype = page.plain);
  create aggregate hidden.html(page.rows) (sfunc = page.add, stype = hidden."Text/HTML");`,
  { schemas: ["page"] },
);

test("an aggregate of served rows that returns a domain named like a media type is a media handler", () => {
  const html = { mediaType: "text/html", function: '"page"."html"', isBinary: false };
  expect(page().catalog.mediaHandlers).toEqual([
    { mediaType: "*/*", function: '"page"."Odd Name"', table: null, isBinary: true },
    { ...html, table: { schema: "page", name: "rows" } },
    { ...html, table: { schema: "page", name: "seen" } },
  ]);
});
