import { Router } from "express";
import { describe, expect, test } from "vitest";
import { Routes } from "../../gate/pipeline/pipeline.ts";
import { PARTS } from "../../parts/list.ts";
import { authRoutesOf, loadParts } from "../../service/parts.ts";
import { applicationRoutes, httpRoutes, socketRoutes } from "../../service/routes.ts";
import { DESCRIPTIONS } from "../support/demo.ts";

const NAMES = [
  ...(["tables", "graphql", "broadcasts", "resources", "auth"] as const),
  ...(["health", "operations", "pages"] as const),
];

const parts = await loadParts(PARTS, { parts: [], embedded: true });
const ofParts = Object.fromEntries(parts.flatMap(({ name, paths = [] }) => paths.map((path) => [path, name])));
const all = httpRoutes(Object.fromEntries(NAMES.map((name) => [name, name])), "nothing", DESCRIPTIONS, ofParts);

test.each([
  ["/rest/v1", "tables"],
  ["/rest/v1?select=*", "tables"],
  ["/rest/v1/", "tables"],
  ["/rest/v1/articles?select=title,author:users(name)", "tables"],
  ["/rest/v1/rpc/publish_article", "tables"],
  ["/rest/v10/articles", "nothing"],
  ["/rest", "nothing"],
  ["/rest?path=/v1/articles", "nothing"],
  ["/graphql", "graphql"],
  ["/graphql?query={__typename}", "graphql"],
  ["/graphql/", "nothing"],
  ["/graphiql", "explorer"],
  ["/graphiql/session", "explorer"],
  ["/realtime/v1/api/broadcast/room/events/cursor?private=true", "broadcasts"],
  ["/realtime/v1/websocket", "nothing"],
  ["/auth/login", "auth"],
  ["/auth/v1/token?grant_type=password", "supabase-auth"],
  ["/auth/v1", "supabase-auth"],
  ["/storage/v1/object/notes/a.txt", "supabase-paths"],
  ["/graphql/v1", "supabase-paths"],
  ["/auth/v10", "auth"],
  ["/users", "resources"],
  ["/articles/7/comments?page=2", "resources"],
  ["/comments/", "resources"],
  ["/usersx", "nothing"],
  ["/api/v2/users/7", "resources"],
  ["/api/mfa", "auth"],
  ["/api/users", "resources"],
  ["/openapi.json?version=2", "resources"],
  ["/tasks/5d3f/cancel", "resources"],
  ["/live", "health"],
  ["/ready?verbose", "health"],
  ["/health", "health"],
  ["/health/", "nothing"],
  ["/metrics", "operations"],
  ["/config", "operations"],
  ["/schema_cache", "operations"],
  ["/console", "console"],
  ["/console/why?table=articles", "console"],
  ["/", "site"],
  ["/?from=mail", "site"],
  ["/assets/style.css", "pages"],
  ["/docs", "reference"],
  ["/docs/live?table=users", "reference"],
  ["/docs/readme", "pages"],
  ["/docs/live/more", "pages"],
  ["//users", "nothing"],
  ["/constructor", "nothing"],
  ["/toString/valueOf", "nothing"],
  ["*", "nothing"],
  ["", "nothing"],
  ["http://other.example/users", "nothing"],
])("%s → %s", (url, name) => expect(all.find(url)).toBe(name));

test("every route of authentication leads to it", () => {
  const paths = Object.keys(authRoutesOf(parts)).map((route) => route.split(" ")[1]!.replace(/\{\w+\}/g, "7"));
  expect(paths).toEqual(expect.arrayContaining(["/auth/login", "/api/mfa/verify", "/csrf-token"]));
  expect(paths.filter((path) => all.find(path) !== "auth")).toEqual([]);
});

test("the paths of an absent interface belong to the next shorter path, or to nothing", () => {
  const some = httpRoutes<string>({ auth: "auth", tables: null, resources: undefined }, "nothing");
  expect(["/auth/v1/user", "/rest/v1", "/users"].map((url) => some.find(url))).toEqual(["auth", "nothing", "nothing"]);
});

describe("WebSockets", () => {
  test.each([
    ["/graphql?token=1", "graphql"],
    ["/realtime/v1/websocket?apikey=7&vsn=1.0.0", "realtime"],
    ["/realtime/v1/websocket/more", null],
    ["/rest/v1/articles", null],
  ])("%s → %s", (url, name) =>
    expect(socketRoutes<string>({ graphql: "graphql", realtime: "realtime" }).find(url)).toBe(name),
  );
});

test("the order of the rows has no effect", () => {
  const rows = [
    ["/docs/*", "all"],
    ["/docs", "docs"],
    ["/docs/live", "live"],
    ["/docs/live/old/*", "old"],
  ] as const;
  const urls = ["/docs", "/docs/x", "/docs/live", "/docs/live/x", "/docs/live/old", "/docs/live/old/x"];
  for (const ordered of [rows, rows.toReversed()])
    expect(urls.map((url) => new Routes<string>(ordered, "rest").find(url))).toEqual([
      "docs",
      "all",
      "live",
      "all",
      "old",
      "old",
    ]);
});

describe("of an application", () => {
  const route = (path: string) => ({ path, methods: {} });
  const find = (paths: readonly string[], url: string) => {
    const { rows, others } = applicationRoutes(paths.map(route), "own", "nothing");
    return httpRoutes<string>({ tables: "tables" }, others, [], rows).find(url);
  };

  test.each([
    ["/status", "own"],
    ["/status?full=true", "own"],
    ["/status/", "nothing"],
    ["/reports/7", "own"],
    ["/reports/7/pages/1", "own"],
    ["/reported", "nothing"],
    ["/", "nothing"],
    ["/rest/v1/reports", "tables"],
  ])("%s is served by %s", (url, expected) => expect(find(["/status", "/reports/:id"], url)).toBe(expected));

  test.each(["/:name", "/{:name}", "/*files"])("the path %s may be any", (path) =>
    expect(find([path], "/anything")).toBe("own"),
  );

  test("a router may serve any path", () => {
    const { rows, others } = applicationRoutes([Router(), route("/status")], "own", "nothing");
    expect([rows, others]).toEqual([{}, "own"]);
  });
});
