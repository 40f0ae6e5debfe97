import { execFileSync } from "node:child_process";
import { globSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

// What a start loads stays in memory. A package that most services do not need at once is imported where it is used, with `import()`.

/** Prints the packages and the parts of Node that are loaded with these modules. */
const program = (modules: readonly string[]) => `
  import { Module, registerHooks } from "node:module";
  const loaded = [];
  registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context); } });
  for (const each of ${JSON.stringify(modules)}) await import(each);
  const files = [...loaded, ...Object.keys(Module._cache).filter((file) => Module._cache[file].filename !== null)];
  const packages = files.flatMap((file) => /.*node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(file)?.[1] ?? []);
  console.log(JSON.stringify({ packages: [...new Set(packages)], parts: process.moduleLoadList }));`;

function loadedWith(...modules: string[]): { readonly packages: readonly string[]; readonly parts: readonly string[] } {
  const urls = modules.map((each) => import.meta.resolve(`../../${each}`));
  const output = execFileSync(process.execPath, ["--input-type=module", "-e", program(urls)], { encoding: "utf8" });
  return JSON.parse(output);
}

const ON_DEMAND = [
  ...["@node-rs/argon2", "@node-rs/bcrypt", "uqr", "@simplewebauthn/server"],
  ...["openid-client", "@node-saml/node-saml", "nodemailer", "@redis/client", "json-p3"],
  ...["@opentelemetry/sdk-trace", "@opentelemetry/exporter-trace-otlp-proto", "highlight.js", "marked", "minisearch"],
  ...["graphile-migrate", "transliteration", "vite"],
];

test("a start loads no package that is only needed later", () => {
  const { packages, parts } = loadedWith("server.ts", "service/start.ts", "graphql/index.ts", "demo/plugins/index.ts");
  expect(packages).toEqual(expect.arrayContaining(["express", "graphile-worker", "grafast", "graphile-build"]));
  expect(packages.filter((name) => ON_DEMAND.includes(name))).toEqual([]);
  // `fetch` and its classes take 12 MB. An import of node:http reads all that it exports, and with them these classes.
  expect(parts.filter((part) => part.includes("undici"))).toEqual([]);
});

test("without GraphQL, a start does not load PostGraphile", () => {
  const { packages } = loadedWith("server.ts", "service/start.ts", ...globSync("parts/*/part.ts"));
  expect(
    packages.filter((name) => /^(grafast|graphile-build|graphile-build-pg|graphql|postgraphile)$/.test(name)),
  ).toEqual([]);
});

test("a name that is not ASCII is transliterated", async () => {
  await import("../../plugins/transliteration.ts");
  const require = createRequire(fileURLToPath(import.meta.resolve("postgraphile/graphile-build")));
  const { transliterate } = createRequire(require.resolve("graphile-build"))("transliteration");
  expect(["name", "größe", "имя"].map(transliterate)).toEqual(["name", "grosse", "imya"]);
});
