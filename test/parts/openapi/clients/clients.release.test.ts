import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { startTestService, type TestService } from "../../../support/service.ts";

const PACKAGES = [
  "openapi-typescript@7.13.0",
  "openapi-fetch@0.17.0",
  "@hey-api/openapi-ts@0.99.0",
  "orval@8.38.0",
  "zod@4.6.7",
  "typescript@5.9.3",
  "@types/node@24",
];
const HEY_PLUGINS = ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk", "zod"];
const TSCONFIG = {
  compilerOptions: {
    ...{
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      target: "es2024",
      module: "preserve",
      moduleResolution: "bundler",
    },
    ...{ allowImportingTsExtensions: true, types: ["node"] },
  },
  files: ["program.ts", "calls.ts", "orval-fetch.ts"],
};
const ORVAL = {
  tables: { input: "tables.json", output: { target: "orval-zod.ts", client: "zod" } },
  fetch: { input: "tables.json", output: { target: "orval-fetch.ts", client: "fetch" } },
};

let folder: string;
let service: TestService;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "clients-"));
  service = await startTestService({ GRAPHQL_DOCUMENTS: "none", RATE_LIMIT: "1000000" });
  return async () => {
    await service.stop();
    await rm(folder, { recursive: true });
  };
}, 60_000);

const environment = () => ({
  ...process.env,
  PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
  URL: service.url,
  KEY: service.service.tokens.issueKey("anon"),
  TOKEN: service.token("ada"),
});
async function run(program: string, ...args: readonly string[]): Promise<string> {
  const options = { cwd: folder, env: environment(), maxBuffer: 2 ** 24 };
  const failed = ({ stdout, stderr }: Readonly<Record<"stdout" | "stderr", string>>) =>
    Promise.reject(new Error(stdout + stderr));
  return (await promisify(execFile)(program, args, options).catch(failed)).stdout;
}
const save = (name: string, content: unknown) => writeFile(join(folder, name), JSON.stringify(content));

test("clients of openapi-typescript, hey-api and orval compile in strict mode, and lose nothing", async () => {
  await save("package.json", { private: true, type: "module" });
  await run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", ...PACKAGES);
  const { KEY, TOKEN } = environment();
  const headers = { apikey: KEY, authorization: `Bearer ${TOKEN}` };
  const documents = {
    tables: "/rest/v1/openapi.json",
    "resources-1": "/openapi.json",
    "resources-2": "/api/v2/openapi.json",
  };
  for (const [name, path] of Object.entries(documents)) {
    await save(`${name}.json`, await (await fetch(service.url + path, { headers })).json());
    await run("npx", "openapi-typescript", `${name}.json`, "-o", `${name}.ts`);
  }
  for (const [name, output] of [
    ["tables", "hey"],
    ["resources-1", "hey-1"],
    ["resources-2", "hey-2"],
  ] as const)
    await run("npx", "openapi-ts", "-i", `${name}.json`, "-o", output, "-p", ...HEY_PLUGINS);
  await writeFile(join(folder, "orval.config.mjs"), `export default ${JSON.stringify(ORVAL)}`);
  await run("npx", "orval", "--config", "orval.config.mjs");
  for (const file of ["program.ts", "calls.ts"]) await cp(new URL(`${file}.txt`, import.meta.url), join(folder, file));
  await save("tsconfig.json", TSCONFIG);
  await run("npx", "tsc", "-p", ".");
  expect(JSON.parse(await run(process.execPath, "program.ts"))).toEqual([
    ...["PUBLISHED", 204, "PUBLISHED", 204, "PUBLISHED"],
    ...[["title", "content"], 201, true, "RESOURCE_NOT_FOUND", 200],
  ]);
}, 600_000);
