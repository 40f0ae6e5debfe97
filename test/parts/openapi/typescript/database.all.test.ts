import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { escapeIdentifier } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { typesOf } from "../../../../parts/openapi/typescript/database.ts";
import { catalogOf } from "../../../support/content-types.ts";
import { createTestDatabase, type TestDatabase } from "../../../support/database.ts";

const run = promisify(execFile);

let database: TestDatabase;
/** The types of shop.sql, which has every kind of object. */
let shop: string;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.owner.query(await readFile(new URL("./shop.sql", import.meta.url), "utf8"));
  shop = typesOf(await read("shop"));
});
afterAll(() => database.drop());

const read = (...schemas: string[]) => catalogOf(database, schemas);

test("the order of the served schemas does not change the types", async () => {
  expect(typesOf(await read("shop", "public"))).toBe(typesOf(await read("public", "shop")));
});

/** Compiles files as a client would, in a folder from which its packages can be imported. Resolves to the compiler output. */
async function compile(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(process.cwd(), ".types-"));
  try {
    for (const [name, text] of Object.entries({ ...files, "shop.ts": shop })) await writeFile(join(folder, name), text);
    const tsconfig = { extends: "../tsconfig.json", include: ["*.ts"] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(tsconfig));
    const { stdout } = await run("node_modules/.bin/tsc", ["--noEmit", "-p", folder]).catch((error) => error);
    return stdout;
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("a program with the real client compiles, except for the lines marked as errors", async () => {
  const program = await readFile(new URL("./program.ts.txt", import.meta.url), "utf8");
  expect(await compile({ "program.ts": program })).toBe("");
});

test("rows in JSON, as Postgres writes them, have their types", async () => {
  const lines: string[] = [];
  for (const { name, computedFields } of (await read("shop")).schemas.get("shop")!.tables.values()) {
    const readOnly = [...computedFields.values()].filter(({ isVolatile }) => !isVolatile);
    const fields = ["t.*", ...readOnly.map((field) => `shop."${field.name}"(t)`)];
    const rows = `select ${fields.join(", ")} from shop.${escapeIdentifier(name)} as t`;
    const result = await database.owner.query(`select coalesce(json_agg(r), '[]') as json from (${rows}) as r`);
    const type = `Tables<${JSON.stringify(name)}>[]`;
    lines.push(`export const rows${lines.length}: ${type} = ${JSON.stringify(result.rows[0].json)};`);
  }
  expect(lines.join("\n")).toContain('"code":"A1"');
  expect(await compile({ "rows.ts": ['import type { Tables } from "./shop.ts";', ...lines].join("\n") })).toBe("");
});
