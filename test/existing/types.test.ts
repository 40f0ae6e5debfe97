import { afterAll, beforeAll, expect, test } from "vitest";
import { types } from "../../parts/openapi/types.ts";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit();
});
afterAll(() => trackit.stop());

const typesFor = async (as?: number) => {
  const token = as === undefined ? {} : { authorization: `Bearer ${trackit.token(as)}` };
  return (await fetch(`${trackit.url}/rest/v1/types.ts`, { headers: token as Record<string, string> })).text();
};
/** The keys of an object type at this indent. */
const keys = (text: string, indent: number) =>
  [...text.matchAll(new RegExp(`^ {${indent}}(\\w+): \\{$`, "gm"))].map(([, name]) => name);

test("types.ts has what an anonymous caller may use", async () => {
  // The composite type is not a table.
  expect(keys(await typesFor(), 6)).toEqual(["plan_features", "plans", "address"]);
});

test("types.ts has what the role of a user may use", async () => {
  const text = await typesFor(1);
  expect(keys(text, 6)).toEqual(expect.arrayContaining(["members", "projects", "tasks", "users", "open_tasks"]));
  for (const hidden of ["api_tokens", "bcrypt", "token_hash", "current_user_id"]) expect(text).not.toContain(hidden);
  const [, users] = /^ {6}users: \{\n([\s\S]*?)^ {6}\}/m.exec(text)!;
  expect(users).toContain("full_name?: string");
  expect(users).toContain("email?: never");
});

test("npx content-service types --role has what this role may use, and without it everything", async () => {
  const settings = { DATABASE_URL: trackit.database.url, MIGRATE: "off", JWT_SECRET: "x".repeat(40) };
  expect(await types(["--role", trackit.role("user")], settings)).toBe(await typesFor(1));
  expect(await types([], settings)).toContain("bcrypt");
  await expect(types(["--role", "absent"], settings)).rejects.toThrow("no such role: absent");
});
