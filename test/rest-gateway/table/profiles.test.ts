import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

const ARCHIVE = `
  create schema archive;
  create table archive.books (id int primary key, box text not null);
  insert into archive.books values (1, 'A');
  create table archive.boxes (name text primary key, book_id int references library.books on delete cascade);
  insert into archive.boxes values ('red', 1), ('blue', 1);
  create function archive.boxed() returns int stable language sql return 7;
  grant usage on schema archive to anon;
  grant all on archive.books, archive.boxes to anon;
  grant execute on function archive.boxed to anon;
  create schema cellar;
  create table cellar.wines (id int primary key, book_id int references library.books on delete cascade);
  create schema "Größe";
  create table "Größe".maße (id int primary key);
  grant usage on schema "Größe" to anon;
  grant select on "Größe".maße to anon;`;

const { rest, rows, failure } = useLibrary({ DB_SCHEMAS: "library,archive,Größe" }, ARCHIVE);

const reading = (profile: string) => ({ headers: { "accept-profile": profile } });
const writing = (profile: string) => ({ headers: { "content-profile": profile, prefer: "return=representation" } });

describe("with several schemas,", () => {
  test("the first schema is the default, and Content-Profile names it", async () => {
    const { json, headers } = await rest("books?select=title&id=eq.1");
    expect(json).toEqual([{ title: "Notes on the Engine" }]);
    expect(headers.get("content-profile")).toBe("library");
  });

  test.each(["GET", "HEAD"])("Accept-Profile selects the schema for %s", async (method) => {
    const { status, text, headers } = await rest("books", { method, ...reading("archive") });
    expect([status, text]).toEqual([200, method === "GET" ? '[{"id":1,"box":"A"}]' : ""]);
    expect(headers.get("content-profile")).toBe("archive");
  });

  test("Content-Profile selects the schema for other methods", async () => {
    const inserted = await rest("books", { body: { id: 2, box: "B" }, ...writing("archive") });
    expect([inserted.status, inserted.headers.get("content-profile")]).toEqual([201, "archive"]);
    const updated = await rest("books?id=eq.2", { method: "PATCH", body: { box: "C" }, ...writing("archive") });
    expect(updated.json).toEqual([{ id: 2, box: "C" }]);
    const deleted = await rest("books?id=eq.2", { method: "DELETE", ...writing("archive") });
    expect([deleted.json, deleted.headers.get("content-profile")]).toEqual([[{ id: 2, box: "C" }], "archive"]);
  });

  test("each header applies only to its methods", async () => {
    expect(await rows("books?select=title&id=eq.1", writing("archive"))).toEqual([{ title: "Notes on the Engine" }]);
    expect(await failure("boxes", { body: { name: "x" }, ...reading("archive") })).toEqual([404, "PGRST205"]);
  });

  test("the headers apply to functions too", async () => {
    expect(await rows("rpc/boxed", reading("archive"))).toBe(7);
    expect(await rows("rpc/boxed", { body: {}, ...writing("archive") })).toBe(7);
    expect(await failure("rpc/boxed")).toEqual([404, "PGRST202"]);
  });

  test("Accept-Profile selects the schema that GET /rest/v1/ describes, and Content-Profile names it", async () => {
    for (const method of ["GET", "HEAD"]) {
      const described = async (headers = {}) => rest("", { method, headers });
      expect((await described()).headers.get("content-profile")).toBe("library");
      const archive = await described({ "accept-profile": "archive" });
      expect(archive.headers.get("content-profile")).toBe("archive");
      if (method === "GET") expect(Object.keys(archive.json.paths)).toContain("/boxes");
    }
    const profile = Buffer.from("Größe").toString("latin1");
    const { json, headers } = await rest("", reading(profile));
    expect(Object.keys(json.paths)).toContain(`/${encodeURIComponent("maße")}`);
    expect(headers.get("content-profile")).toBe(profile);
    expect(await failure("", reading("cellar"))).toEqual([406, "PGRST106"]);
  });

  test("a schema name may have any letters, as UTF-8", async () => {
    const profile = Buffer.from("Größe").toString("latin1");
    const { status, json, headers } = await rest("maße", reading(profile));
    expect([status, json]).toEqual([200, []]);
    expect(headers.get("content-profile")).toBe(profile);
  });

  test("a schema that is not exposed is 406 with the list of exposed schemas", async () => {
    const { status, json } = await rest("books", reading("cellar"));
    expect(status).toBe(406);
    expect(json).toEqual({
      code: "PGRST106",
      message: "Invalid schema: cellar",
      details: null,
      hint: "Only the following schemas are exposed: library, archive, Größe",
    });
    expect(await failure("books", { body: { id: 9 }, ...writing("cellar") })).toEqual([406, "PGRST106"]);
    expect(await failure("books", { method: "OPTIONS", ...reading("cellar") })).toEqual([406, "PGRST106"]);
  });

  test("a table of another schema is not found", async () => {
    expect(await failure("boxes")).toEqual([404, "PGRST205"]);
    expect(await failure("genres", reading("archive"))).toEqual([404, "PGRST205"]);
  });

  test("relations lead to other exposed schemas only", async () => {
    expect(await rows("books?select=id,boxes(name)&id=eq.1&boxes.order=name")).toEqual([
      { id: 1, boxes: [{ name: "blue" }, { name: "red" }] },
    ]);
    expect(await rows("boxes?select=name,books(title)&name=eq.red", reading("archive"))).toEqual([
      { name: "red", books: { title: "Notes on the Engine" } },
    ]);
    expect(await failure("books?select=id,wines(id)")).toEqual([400, "PGRST200"]);
  });
});
