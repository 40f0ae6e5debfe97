import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const PROMISE = readFileSync("docs/operations.md", "utf8");
/** The schemas that docs/operations.md calls private, and what is public in them. */
const [, listed = ""] = /^- the schemas (`[\s\S]*?) Do not refer/m.exec(PROMISE) ?? [];
const [, triggers = ""] = /^- the triggers ([\s\S]*?), for /m.exec(PROMISE) ?? [];
const namesIn = (text: string) => text.match(/(?<=`)[\w.]+(?=`)/g) ?? [];
const PRIVATE = namesIn(listed).filter((name) => name !== "tasks" && name !== "realtime");

const PROMISED = [...namesIn(triggers), "auth_private.providers"];

/** What of them a text names. */
const privateNames = (text: string): readonly string[] =>
  [...text.matchAll(new RegExp(`\\b(?:${PRIVATE.join("|")})\\.\\w+`, "g"))].map(([name]) => name);

test.each([...globSync("template/**/*.{sql,ts,json,yml,md}"), "docs/applications.md", "docs/existing-database.md"])(
  "%s names nothing of the private schemas",
  (file) => {
    expect(PRIVATE).toContain("auth_api");
    const named = privateNames(readFileSync(file, "utf8"));
    expect(named.filter((name) => file !== "docs/applications.md" || !PROMISED.includes(name))).toEqual([]);
  },
);

test("docs/dba-guide.md and docs/applications.md name only functions that docs/operations.md promises", () => {
  const texts = ["docs/dba-guide.md", "docs/applications.md"].map((file) => readFileSync(file, "utf8"));
  const named = privateNames(texts.join("")).filter((name) => name.startsWith("auth_"));
  expect(new Set(named)).toEqual(new Set(PROMISED));
  expect(PROMISE).toContain("the table `auth_private.providers`\n");
});
