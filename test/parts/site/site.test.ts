import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { applicationOf } from "../../../app/application.ts";
import { NO_APPLICATION } from "../../../app/load.ts";
import { docsOf } from "../../../pages/documents.ts";
import { listGroups } from "../../../parts/site/contents.ts";
import { startPage } from "../../../parts/site/site.ts";
import type { Base } from "../../../service/part.ts";
import { readConfig } from "../../support/config.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const docs = docsOf({ groups: listGroups() });

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ PARTS: "+site,+reference,+explorer,+console" });
});
afterAll(() => service.stop());

const HTML = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const get = (path: string, headers: Readonly<Record<string, string>> = {}) => fetch(service.url + path, { headers });
const text = async (path: string, headers: Readonly<Record<string, string>> = HTML) =>
  (await get(path, headers)).text();

const forStart: Omit<Base, "state"> = {
  config: readConfig({}),
  application: applicationOf(NO_APPLICATION, readConfig({})),
  ...{
    parts: [],
    links: [],
    pages: [],
    hasAccountPages: true,
    url: () => "",
    core: () => null,
    onInternalError: () => {},
  },
};

describe("/", () => {
  test("lists the interfaces with their URLs, state and version as JSON for programs", async () => {
    const response = await get("/");
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    const { interfaces, documentation, ...rest } = (await response.json()) as any;
    expect(rest).toEqual({ name: "Content Service", version: expect.stringMatching(/^\d+\.\d+\.\d+/), state: "ready" });
    const urls = Object.fromEntries(interfaces.map((each: any) => [each.name, each.url]));
    expect(urls).toMatchObject({
      Tables: `${service.url}/rest/v1/`,
      GraphQL: `${service.url}/graphql`,
      Subscriptions: `${service.url.replace("http", "ws")}/graphql`,
      "API reference": `${service.url}/docs`,
      Health: `${service.url}/health`,
    });
    expect(documentation).toContainEqual({ name: "Errors", path: "/docs/errors" });
  });

  test("is a page for browsers", async () => {
    const response = await get("/", HTML);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("vary")).toContain("Accept");
    const page = await response.text();
    expect(page).toContain(`<code>${service.url}/rest/v1/</code>`);
    expect(page).toContain(`<a href="${service.url}/health">`);
  });

  test("has first requests with the anon key, which work as they are", async () => {
    const page = (await text("/")).replace(/<\/?span[^>]*>/g, "");
    const [, command = ""] = /<code>(curl [\s\S]*?)<\/code>/.exec(page)!;
    const [, url = "", key = ""] = /curl &quot;([^&]+)&quot; \\\s+-H &quot;apikey: ([^&]+)&quot;/.exec(command)!;
    const rows = await fetch(url, { headers: { apikey: key } });
    expect([rows.status, ((await rows.json()) as unknown[]).length]).toEqual([200, 3]);
    const [, query = ""] = /const query = `([^`]+)`/.exec(page)!;
    const headers = { "content-type": "application/json" };
    const sent = await fetch(`${service.url}/graphql`, { method: "POST", headers, body: JSON.stringify({ query }) });
    expect(((await sent.json()) as any).errors).toBeUndefined();
  });

  test.each(["starting", "draining"] as const)("is 503 while the service is %s, with what it offers", async (state) => {
    const app = express().use(startPage({ ...forStart, state: () => state }));
    const server = app.listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
      expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
      expect(await response.json()).toMatchObject({ name: "Content Service", state });
    } finally {
      server.close();
    }
  });

  test("has an entity tag, and allows only reading", async () => {
    const etag = (await get("/")).headers.get("etag")!;
    expect((await get("/", { "if-none-match": etag })).status).toBe(304);
    const refused = await fetch(`${service.url}/`, { method: "POST" });
    expect([refused.status, refused.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });

  test("offers only what is served, and leads to no dead end", async () => {
    const { interfaces } = (await (await get("/")).json()) as any;
    const read = interfaces.filter(({ url }: any) => url.startsWith("http") && !url.endsWith("/graphql"));
    for (const { url } of read) expect([url, (await fetch(url)).status]).toEqual([url, expect.toBeOneOf([200, 401])]);
    const some = await startTestService({ PARTS: "site", GRAPHQL_DOCUMENTS: "none" });
    try {
      const names = ((await (await fetch(`${some.url}/`)).json()) as any).interfaces.map(({ name }: any) => name);
      expect(names).toEqual(["Health"]);
      for (const path of ["/docs", "/graphiql", "/console", "/console/sign-in", "/assets/graphiql.js"])
        expect([path, (await fetch(some.url + path)).status]).toEqual([path, 404]);
    } finally {
      await some.stop();
    }
  });

  test("is 404 without the part, and so is every document but the errors", async () => {
    const off = await startTestService({ GRAPHQL_DOCUMENTS: "none" });
    try {
      for (const path of ["/", "/llms.txt", "/docs/tables", "/docs/schema.graphql"])
        expect([path, (await fetch(off.url + path)).status]).toEqual([path, 404]);
      const errors = await fetch(`${off.url}/docs/errors`, { headers: HTML });
      expect([errors.status, await errors.text()]).toEqual([200, expect.stringContaining("<title>Errors – ")]);
      expect((await fetch(`${off.url}/assets/style.css`)).status).toBe(200);
    } finally {
      await off.stop();
    }
  });
});

describe("/docs/…", () => {
  const idsOf = (page: string) => new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
  const hrefsOf = (page: string) => [...page.matchAll(/ href="([^"]+)"/g)].map(([, href]) => href!);

  test("every document is a page, and the same Markdown as in the repository for programs", async () => {
    expect(docs.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["/docs/operations", "/docs/configuration", "/docs/decisions", "/docs/changelog"]),
    );
    for (const { path, name } of docs) {
      const page = await get(path, HTML);
      expect([path, page.status, page.headers.get("content-type")]).toEqual([path, 200, "text/html; charset=utf-8"]);
      expect(await page.text()).toContain(`<title>${name} – Content Service</title>`);
      for (const markdown of [path, `${path}.md`]) expect(await text(markdown, {})).toContain(`# ${name}\n`);
    }
  });

  test("/llms.txt lists every document for programs, with what it is for", async () => {
    const list = await text("/llms.txt", {});
    expect(list).toMatch(/^# Content Service\n\n> .+\n\n## Start\n/);
    expect(list).toContain("\n- [Errors](docs/errors.md): For ");
    expect([...list.matchAll(/\]\((.+?)\)/g)].map(([, path]) => `/${path}`)).toEqual(
      docs.map(({ path }) => `${path}.md`),
    );
  });

  test("every link in a document leads to a page and a heading that exist", async () => {
    const pages = new Map<string, string>();
    const read = async (path: string) => {
      const known = pages.get(path);
      if (known !== undefined) return known;
      const response = await get(path, HTML);
      expect([path, response.status]).toEqual([path, 200]);
      const page = await response.text();
      pages.set(path, page);
      return page;
    };
    const dead: string[] = [];
    for (const { path } of docs) {
      for (const href of hrefsOf(await read(path)).filter((each) => /^[/#]/.test(each))) {
        const [target, anchor] = href.split("#") as [string, string?];
        const page = await read(target || path);
        if (anchor && anchor !== "main" && !idsOf(page).has(anchor)) dead.push(`${path}: ${href}`);
      }
    }
    expect(dead).toEqual([]);
  });

  test("pictures of a document are served as they are in the repository", async () => {
    const page = await text("/docs/readme");
    const sources = [...page.matchAll(/<img src="([^"]+)" alt="[^"]{20,}">/g)].map(([, source]) => source!);
    expect(sources).toEqual(["/docs/images/overview.svg", "/docs/images/start.png", "/docs/images/console.png"]);
    for (const source of sources) {
      const response = await get(source);
      const type = source.endsWith(".svg") ? "image/svg+xml" : "image/png";
      expect([source, response.status, response.headers.get("content-type")]).toEqual([source, 200, type]);
      const bytes = await response.arrayBuffer();
      expect(Buffer.from(bytes).equals(readFileSync(source.slice(1)))).toBe(true);
      expect(bytes.byteLength).toBeLessThan(150_000);
    }
  });

  test("Markdown in code and values is text, not markup", async () => {
    const page = await text("/docs/tables");
    expect(page).not.toContain("<relation>");
    expect(page).toMatch(/<code>[^<]*&lt;[^<]*<\/code>/);
  });

  test("a file has its name, and its code colours", async () => {
    const page = await text("/docs/database-application");
    expect(page).toMatch(/<p class="file">vite.config.ts<\/p><pre tabindex="0"><code><span class="hljs-/);
  });

  test("pages load nothing from elsewhere and run no inline script", async () => {
    const policy = (await get("/docs/tables", HTML)).headers.get("content-security-policy");
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(await text("/docs/tables")).not.toMatch(/<script(?! type="module" src="\/assets\/)|<style| style=/);
    expect((await get("/assets/style.css")).headers.get("content-type")).toBe("text/css; charset=utf-8");
  });

  test("an error is a page for a person, and JSON for programs and scripts", async () => {
    // Not with fetch, which says in Sec-Fetch-Mode that a script has sent the request.
    const [page] = (await once(request(`${service.url}/nothing`, { headers: HTML }).end(), "response")) as [
      IncomingMessage,
    ];
    expect([page.statusCode, page.headers["content-type"], page.headers.vary]).toEqual([
      404,
      "text/html; charset=utf-8",
      expect.stringContaining("Accept"),
    ]);
    const shown = (await page.toArray()).join("");
    expect(shown).toContain("<h1>There is nothing here</h1>");
    expect(shown).toContain(`<code>${page.headers["x-request-id"]}</code>`);
    for (const headers of [{ accept: "*/*" }, { ...HTML, "sec-fetch-mode": "cors" }]) {
      const { status, headers: sent } = await get("/nothing", headers);
      expect([status, sent.get("content-type")]).toEqual([404, "application/json; charset=utf-8"]);
    }
    const posted = await fetch(`${service.url}/nothing`, { method: "POST", headers: HTML });
    expect(posted.headers.get("content-type")).toBe("application/json; charset=utf-8");
  });

  test("every page has the same header, which marks the page", async () => {
    const pages = ["/", "/docs/readme", "/docs", "/docs/live", "/graphiql", "/console/sign-in"];
    for (const path of pages) {
      const shown = await text(path);
      expect([path, shown]).toEqual([path, expect.stringContaining('<header class="site">')]);
      expect([path, shown.match(/href="[^"]+" aria-current="page"/g)?.[0]]).toEqual([
        path,
        `href="${path.replace("/sign-in", "")}" aria-current="page"`,
      ]);
      expect([path, shown]).toEqual([path, expect.stringContaining('href="/assets/header.css"')]);
    }
  });

  test("an unknown document is 404", async () => {
    expect((await get("/docs/nothing", HTML)).status).toBe(404);
    expect((await get("/docs/..%2fpackage.json", HTML)).status).toBe(404);
    expect((await get("/assets/..%2fsite.ts")).status).toBe(404);
  });
});
