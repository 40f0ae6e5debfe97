import { posix } from "node:path";
import { expect, test } from "vitest";
import { renderDocs } from "../../build/docs.ts";

const files = renderDocs();
const pages = [...files].flatMap(([name, text]) =>
  typeof text === "string" && name.endsWith(".html") ? [[name, text] as const] : [],
);

test("docs:build writes every document, with styles, scripts and the search", () => {
  expect(pages.length).toBeGreaterThan(30);
  expect([...files.keys()]).toEqual(
    expect.arrayContaining([
      "index.html",
      "docs/tables.html",
      "docs/search.json",
      "assets/style.css",
      "assets/docs.js",
      "docs/images/overview.svg",
    ]),
  );
});

test("every link of a page that docs:build writes is relative, and leads to a file and an anchor that exist", () => {
  const dead: string[] = [];
  for (const [name, text] of pages) {
    for (const [, link = ""] of text.matchAll(/ (?:href|src|data-index)="([^"]+)"/g)) {
      if (/^(https?|data):/.test(link)) continue;
      const [target = "", anchor] = link.split("#");
      const file = target === "" ? name : posix.join(posix.dirname(name), target);
      const found = files.get(file);
      if (link.startsWith("/") || found === undefined || (anchor && !found.includes(` id="${anchor}"`)))
        dead.push(`${name}: ${link}`);
    }
  }
  expect(dead).toEqual([]);
});

test("every document of the list for programs is written", () => {
  const paths = [...String(files.get("llms.txt")).matchAll(/\]\((.+?)\)/g)].map(([, path]) => path!);
  expect(paths.length).toBeGreaterThan(30);
  expect(paths.filter((path) => !files.has(path))).toEqual([]);
});

test("every result of the search leads to a section that exists", () => {
  const sections = JSON.parse(String(files.get("docs/search.json"))) as [string, string, string, string][];
  expect(sections.length).toBeGreaterThan(300);
  const dead = sections.filter(([path]) => {
    const [target = "", anchor] = path.split("#");
    const page = files.get(posix.join("docs", target));
    return page === undefined || (anchor !== undefined && !page.includes(` id="${anchor}"`));
  });
  expect(dead).toEqual([]);
});
