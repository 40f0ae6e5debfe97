import { beforeAll, expect, test } from "vitest";
import { startTestService, type TestService } from "../support/service.ts";

const SCHEMA = `
  create domain public."text/html" as text;
  create function public.a_page() returns public."text/html" language sql stable as $$ select '<h1>Hello</h1>' $$;
  create function public.a_page_by_header() returns text language plpgsql stable as $$
    begin
      perform set_config('response.headers', '[{"content-type": "text/html; charset=utf-8"}]', true);
      return '<h1>Hello</h1>';
    end $$;
  grant execute on function public.a_page, public.a_page_by_header to anon;`;

let started: TestService;
beforeAll(async () => {
  started = await startTestService({ API_KEY_REQUIRED: "false", PARTS: "+site,+reference,+explorer" });
  await started.database.owner.query(SCHEMA);
  return () => started.stop();
});

const get = async (path: string, headers: Record<string, string> = {}) =>
  (await fetch(started.url + path, { headers })).headers;

const HTML = { accept: "text/html, */*" };
const DATA = ["/rest/v1/articles", "/rest/v1/nothing", "/users", "/users/0"];

test.each(DATA)(
  "the response of %s cannot load anything as a page, be framed or be taken for another type",
  async (path) => {
    const headers = await get(path);
    expect(headers.get("content-security-policy")).toBe("default-src 'none'; frame-ancestors 'none'");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("x-frame-options")).toBe("SAMEORIGIN");
    expect(headers.get("strict-transport-security")).toMatch(/^max-age=\d+/);
    expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
  },
);

test.each(DATA)(
  "the response of %s has neither headers of pages nor those of CORS for a client without Origin",
  async (path) => {
    const headers = await get(path);
    for (const name of ["cross-origin-opener-policy", "x-dns-prefetch-control", "access-control-allow-origin"])
      expect(headers.has(name)).toBe(false);
    expect((await get(path, { origin: "https://app.example" })).get("access-control-allow-origin")).toBe("*");
  },
);

test.each(["/rest/v1/articles", "/users"])("Vary of %s has Origin, with and without one", async (path) => {
  expect((await get(path)).get("vary")).toMatch(/^Origin, /);
  expect((await get(path, { origin: "https://app.example" })).get("vary")).toMatch(/^Origin, /);
});

test.each(["/docs", "/graphiql", "/rest/v1/rpc/a_page", "/rest/v1/rpc/a_page_by_header"])(
  "the page %s has all headers of pages",
  async (path) => {
    // A new function is known a moment later.
    await expect.poll(async () => (await get(path, HTML)).get("content-type")).toMatch(/^text\/html/);
    const headers = await get(path, HTML);
    expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
    expect(headers.get("x-dns-prefetch-control")).toBe("off");
    expect(headers.get("content-security-policy")).toMatch(/default-src 'self'|default-src 'none'/);
  },
);
