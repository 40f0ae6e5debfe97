import { describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const { rest, failure } = useRest(
  { GRAPHQL_DOCUMENTS: "none" },
  `
  create table public.pages (id int primary key, html text not null);
  insert into public.pages values (1, '<p>one</p>'), (2, '<p>two</p>');
  grant select, insert on public.pages to anon;
  create table public.scans (id int primary key, bytes bytea not null);
  insert into public.scans values (1, '\\x00ff'), (2, '\\x01');
  grant select on public.scans to anon;
  create function public.all_pages() returns setof public.pages language sql stable as 'select * from public.pages order by id';

  create domain public."text/html" as text;
  create function public.add_page(text, public.pages) returns public."text/html" language sql immutable as $$ select $1 || $2.html $$;
  create aggregate public.html_of(public.pages) (sfunc = public.add_page, stype = public."text/html", initcond = '<!doctype html>');

  create domain public."text/x-lines" as text;
  create function public.add_line(public."text/x-lines", anyelement) returns public."text/x-lines"
    language sql immutable as $$ select $1 || to_json($2)::text || E'\\n' $$;
  create aggregate public.lines_of(anyelement) (sfunc = public.add_line, stype = public."text/x-lines", initcond = '');

  create domain public."*/*" as bytea;
  create function public.add_bytes(public."*/*", public.scans) returns public."*/*" language sql immutable as $$ select $1 || $2.bytes $$;
  create aggregate public.bytes_of(public.scans) (sfunc = public.add_bytes, stype = public."*/*", initcond = '');

  grant execute on all functions in schema public to anon;`,
);
const accept = (type: string) => ({ headers: { accept: type } });
const answerOf = async (path: string, type: string, sent: object = {}) => {
  const { status, headers, text } = await rest(path, { ...sent, ...accept(type) });
  return [status, headers.get("content-type"), text];
};

describe("an aggregate that returns a domain named like a media type", () => {
  test("produces that media type from the rows of its table", async () => {
    expect(await answerOf("pages?order=id", "text/html")).toEqual([
      200,
      "text/html",
      "<!doctype html><p>one</p><p>two</p>",
    ]);
    expect(await answerOf("pages?id=eq.2", "text/html")).toEqual([200, "text/html", "<!doctype html><p>two</p>"]);
  });

  test("produces it from the rows that a function returns and from written rows too", async () => {
    expect(await answerOf("rpc/all_pages", "text/html")).toEqual([
      200,
      "text/html",
      "<!doctype html><p>one</p><p>two</p>",
    ]);
    const written = { body: { id: 3, html: "<p>three</p>" }, prefer: "return=representation" };
    expect(await answerOf("pages", "text/html", written)).toEqual([201, "text/html", "<!doctype html><p>three</p>"]);
  });

  test("does not produce it from other rows", async () => {
    expect(await failure("pages?select=html", accept("text/html"))).toEqual([406, "PGRST107"]);
    expect(await failure("users", accept("text/html"))).toEqual([406, "PGRST107"]);
  });

  test("of anyelement produces it from any rows", async () => {
    const type = "text/x-lines";
    expect(await answerOf("pages?select=id&order=id&id=lt.3", type)).toEqual([200, type, '{"id":1}\n{"id":2}\n']);
    expect(await answerOf("users?select=n:name&id=eq.1", type)).toEqual([200, type, '{"n":"Ada Lovelace"}\n']);
  });

  test("is available next to the other media types", async () => {
    expect(await answerOf("pages?id=eq.1", "text/html;q=0.1, text/csv")).toEqual([
      200,
      "text/csv; charset=utf-8",
      "id,html\n1,<p>one</p>",
    ]);
    expect((await answerOf("pages?id=eq.1", "*/*")).at(1)).toBe("application/json; charset=utf-8");
  });
});

test("an aggregate for */* produces the response to every Accept", async () => {
  for (const type of ["image/png", "application/json", "*/*"]) {
    const { headers, text } = await rest("scans?order=id&id=eq.2", accept(type));
    expect([headers.get("content-type"), text]).toEqual(["application/octet-stream", "\u0001"]);
  }
});
