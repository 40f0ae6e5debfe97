import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { startTestService, type TestService } from "../support/service.ts";

/** The versions are those of docs/supabase-js.md, "Other clients". */
const PACKAGES = [
  "@raphiniert/ra-data-postgrest@2.5.1",
  ...["@refinedev/supabase@6.0.2", "@refinedev/core@5.0.12", "react@19", "react-dom@19", "react-router@7"],
  ...["@supabase-cache-helpers/postgrest-react-query@1.13.9", "@supabase/supabase-js@2", "@tanstack/react-query@5"],
  ...["@tanstack/db@0.15.2", "@tanstack/query-db-collection@1.4.8", "graphql@16", "graphql-request@7"],
];

let folder: string;
let service: TestService;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "works-with-"));
  service = await startTestService({ RATE_LIMIT: "1000000" });
  return async () => {
    await service.stop();
    await rm(folder, { recursive: true });
  };
}, 60_000);

async function run(program: string, ...args: readonly string[]): Promise<string> {
  const env = {
    ...process.env,
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    URL: service.url,
    KEY: service.service.tokens.issueKey("anon"),
    TOKEN: service.token("ada"),
  };
  const failed = ({ stdout, stderr }: Readonly<Record<"stdout" | "stderr", string>>) =>
    Promise.reject(new Error(stdout + stderr));
  return (await promisify(execFile)(program, args, { cwd: folder, env }).catch(failed)).stdout;
}

test("react-admin, refine, Supabase cache helpers, TanStack DB and graphql-request work unmodified", async () => {
  await writeFile(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  await run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", ...PACKAGES);
  await cp(new URL("program.mjs.txt", import.meta.url), join(folder, "program.mjs"));
  expect(JSON.parse(await run(process.execPath, "program.mjs"))).toEqual({
    reactAdmin: { list: [[1, 2], 3], title: "Updated", many: 2, afterDelete: 1 },
    refine: { list: [[3, 2, 1], 3], titles: ["Changed", "Changed"] },
    cacheHelpers: [[[{ id: 1, author: { name: "Ada Lovelace" } }], 1]],
    tanstack: { size: 3, title: "By TanStack DB" },
    graphqlRequest: { article: { id: "1", author: { name: "Ada Lovelace" } } },
  });
}, 600_000);
