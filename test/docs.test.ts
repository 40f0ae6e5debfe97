import { existsSync, globSync, readFileSync } from "node:fs";
import { CloseCode } from "graphql-ws";
import { expect, test } from "vitest";
import { describePostgrest } from "../config/postgrest-names.ts";
import { RELOADABLE } from "../config/reload.ts";
import { MODULES } from "../db/modules/modules.ts";
import { SQLSTATES } from "../db/sqlstates.ts";
import { docsOf } from "../pages/documents.ts";
import { readRules } from "../parts/advisor/advisor.ts";
import { MIGRATION_RULES } from "../parts/development/migrations/rules.ts";
import { listGroups } from "../parts/site/contents.ts";
import type { Reason } from "../problems/reasons.ts";
import { CODES, REASONS, REST_CODES } from "../problems/reasons.ts";
import { REASON_CODES } from "../realtime/problem.ts";
import { internalProblem } from "../rest-gateway/table/answer/error-mapping.ts";
import { SERVICE_CODES, TABLE_CODES, TOKEN_CODES } from "../rest-gateway/table/problem.ts";
import { describeSettings } from "./support/config.ts";
import { DEMO } from "./support/demo.ts";

/** Of a folder that has a lock file of its own. */
const NO_PACKAGES = { exclude: ["**/node_modules/**"] };

/** The cells of the table rows below a heading, without header rows and backticks. */
function tableRows(file: string, heading = ""): string[][] {
  const text = readFileSync(file, "utf8");
  const section = text.slice(text.indexOf(heading)).slice(heading.length);
  const end = section.search(new RegExp(`^#{1,${heading.indexOf(" ")}} `, "m"));
  const lines = (end < 0 ? section : section.slice(0, end)).split("\n").filter((line) => line.startsWith("|"));
  const isRow = (i: number) => !lines[i]!.startsWith("|---") && !lines[i + 1]?.startsWith("|---");
  return lines
    .filter((_, i) => isRow(i))
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll("`", "")),
    );
}

// For a new setting, write a row with its name: vitest -u fills it in.
test("docs/settings.md has a row for every setting, made from its declaration", async () => {
  const rows = new Map(
    describeSettings().map(({ name, fallback, about }) => [
      name,
      `| \`${name}\` | ${fallback === "" ? "" : `\`${fallback}\``} | ${about.replaceAll("|", "\\|")} |`,
    ]),
  );
  const page = readFileSync("docs/settings.md", "utf8");
  const [before, settings, after] = page.split(/(?=^## (?:All settings|Settings of the demo)$)/m);
  const names = [...settings!.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
  expect(names.toSorted()).toEqual([...rows.keys()].toSorted());
  const made = settings!.replace(/^\| `(\w+)`.*$/gm, (_, name) => rows.get(name)!);
  await expect([before, made, after].join("")).toMatchFileSnapshot("../docs/settings.md");
});

test("docs/settings.md lists every setting of the demo with its meaning", () => {
  const settings = Object.entries(DEMO.config.environment!).map(([name, type]) => [name, type.description]);
  expect(tableRows("docs/settings.md", "## Settings of the demo")).toEqual(settings);
});

test("docs/configuration.md lists the settings that a reload applies", () => {
  const text = readFileSync("docs/configuration.md", "utf8");
  const [, listed = ""] = /`SIGUSR2` applies:\n\n([^.]*)\./.exec(text) ?? [];
  expect(listed.match(/\w+/g)).toEqual(RELOADABLE);
});

test("docs/from-postgrest.md lists the supported settings of PostgREST", () => {
  expect(tableRows("docs/from-postgrest.md", "## Settings in the environment")).toEqual(describePostgrest());
});

test("docs/advisor.md lists every rule with its level and reason", async () => {
  const rules = (await readRules()).map(({ name, level, about }) => [name, level, about.replaceAll("`", "")]);
  expect(tableRows("docs/advisor.md", "## Rules").sort()).toEqual(rules);
});

test("docs/migrations.md lists every rule for migrations with its level and meaning", () => {
  const rules = Object.entries(MIGRATION_RULES).map(([rule, text]) => [rule, ...text.split(": ")]);
  expect(tableRows("docs/migrations.md", "## Rules")).toEqual(rules);
});

test("docs/dba-guide.md lists every schema of the service", () => {
  const own = readFileSync("demo/db/schema/public.sql", "utf8").matchAll(/create schema if not exists (\w+)/g);
  const schemas = [...[...own].map(([, name]) => name!), ...MODULES.flatMap((module) => module.schemas)];
  const documented = tableRows("docs/dba-guide.md", "### Schemas of the service").map(([name]) => name);
  expect(documented.sort()).toEqual(["public", "content_service", "graphile_migrate", ...schemas].sort());
});

test("docs/operations.md lists every import of applications as public, and the schemas that are private", () => {
  const text = readFileSync("docs/operations.md", "utf8");
  const sections = ["What is public", "What is private"].map(
    (heading) => text.split(`## ${heading}\n`)[1]!.split("\n## ")[0]!,
  );
  const [publicNames, privateNames] = sections.map((section) =>
    [...section.matchAll(/`([^`]*)`/g)].map(([, name]) => name),
  );
  const { name, exports } = JSON.parse(readFileSync("package.json", "utf8"));
  const imports = Object.keys(exports).map((path) => name + path.slice(1));
  expect(publicNames).toEqual(expect.arrayContaining(imports));
  const schemas = [...MODULES.flatMap((module) => module.schemas), "content_service", "graphile_migrate"];
  expect(privateNames).toEqual(expect.arrayContaining(schemas));
});

test("docs/operations.md lists every field of the log", () => {
  const documented = tableRows("docs/operations.md", "### Fields of the log").flatMap(([names]) => names!.split(", "));
  const folders =
    "{app,cache,cli,config,db,demo,gate,graphql,identity,kit,parts,plugins,problems,rest-gateway,service,telemetry}";
  const sources = globSync([`${folders}/**/*.ts`, "server.ts"], NO_PACKAGES).map((file) => readFileSync(file, "utf8"));
  const namesIn = (object: string) => object.split(",").map((member) => member.split(":")[0]!.trim());
  const logged = sources.flatMap((source) =>
    [...source.matchAll(/[lL]og(?:\[\w+\]|\.(?:trace|debug|info|warn|error|fatal))\(\s*\{([^}]*)\}/g)].flatMap(
      ([, object]) => namesIn(object!).filter((name) => /^\w+$/.test(name)),
    ),
  );
  expect(logged).toContain("keepsChanges");
  expect([...new Set(logged)].filter((name) => !documented.includes(name))).toEqual([]);
});

test("docs/architecture.md names only files that exist", () => {
  const files = globSync(
    "{*,{app,bench,build,cache,cli,config,db,demo,deploy,gate,graphql,identity,kit,pages,parts,plugins,problems,realtime,rest-gateway,service,telemetry,test}/**/*}.ts",
    NO_PACKAGES,
  );
  const named = readFileSync("docs/architecture.md", "utf8").match(/(?<![\w/.-])[\w-]+(\/[\w-]+)*(\.\w+)?\.ts\b/g)!;
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((name) => !files.some((file) => file === name || file.endsWith(`/${name}`)))).toEqual([]);
});

test("each column of a table in the documentation has a heading", () => {
  const files = [...globSync("docs/**/*.md"), "README.md", "CONTRIBUTING.md", "SECURITY.md"];
  const headings = files.flatMap((file) => readFileSync(file, "utf8").match(/^\|.*(?=\n\|---)/gm) ?? []);
  expect(headings.length).toBeGreaterThan(100);
  // A screen reader says it before each cell.
  expect(
    headings.filter((heading) =>
      heading
        .split("|")
        .slice(1, -1)
        .some((cell) => cell.trim() === ""),
    ),
  ).toEqual([]);
});

test("the contents of the documentation have every page once", () => {
  const listed = docsOf({ groups: listGroups() }).map(({ file }) => file);
  const others = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "bench/results.md"];
  expect(listed.toSorted()).toEqual([...globSync("docs/**/*.md"), ...others].toSorted());
});

test("docs/index.md leads to every page", () => {
  const index = readFileSync("docs/index.md", "utf8");
  const pages = globSync(["docs/*.md", "docs/decisions/README.md"]).map((file) => file.slice("docs/".length));
  expect(pages.filter((page) => page !== "index.md" && !index.includes(`](${page})`))).toEqual([]);
});

test("every page begins with its readers, and what it is for", () => {
  const pages = globSync("docs/*.md");
  expect(pages.length).toBeGreaterThan(20);
  expect(pages.filter((file) => !/^# .+\n\nFor [^:.]+[:.]/.test(readFileSync(file, "utf8")))).toEqual([]);
});

test("the skill for agents has twenty points, and names settings and commands that exist", () => {
  const skill = readFileSync("skills/content-service/SKILL.md", "utf8");
  expect(skill).toMatch(/^---\nname: content-service\ndescription: .{50,1000}\n---\n/);
  expect([...skill.matchAll(/^(\d+)\. /gm)].map(([, n]) => Number(n))).toEqual(
    Array.from({ length: 20 }, (_, i) => i + 1),
  );
  const settings = new Set(describeSettings().map(({ name }) => name));
  const named = [...skill.matchAll(/`([A-Z]+(?:_[A-Z]+)+)`/g)].map(([, name]) => name!);
  expect(named.filter((name) => name !== "ANON_KEY" && !settings.has(name))).toEqual([]);
  const commands =
    readFileSync("docs/operations.md", "utf8") +
    readFileSync("docs/applications.md", "utf8") +
    readFileSync("docs/advisor.md", "utf8");
  for (const [command] of skill.matchAll(/npx content-service \w+(?: \w+)?/g)) expect(commands).toContain(command);
});

test("no page has more than 6000 words", () => {
  const pages = globSync("docs/**/*.md").map((file) => [file, readFileSync(file, "utf8").split(/\s+/).length] as const);
  expect(pages.length).toBeGreaterThan(20);
  expect(pages.filter(([, words]) => words > 6000)).toEqual([]);
});

test("the glossary of docs/architecture.md has each word once", () => {
  const words = tableRows("docs/architecture.md", "## Glossary").map(([word]) => word);
  expect(words.length).toBeGreaterThan(20);
  expect(words.filter((word, i) => words.indexOf(word) < i)).toEqual([]);
});

test("docs/architecture.md, Where to change what: every path exists", () => {
  const changes = tableRows("docs/architecture.md", "## Where to change what").map(([, change]) => change!);
  const paths = changes.flatMap((change) => change.match(/[\w-]+\/[\w/-]*(\.\w+)?/g) ?? []);
  expect(paths.length).toBeGreaterThan(15);
  expect(paths.filter((path) => !existsSync(path))).toEqual([]);
});

test("docs/errors.md lists every code", () => {
  expect(tableRows("docs/errors.md", "## Codes").map(([code]) => code)).toEqual([...CODES]);
});

test("docs/errors.md lists every code of the REST endpoints", () => {
  const documented = tableRows("docs/errors.md", "### Codes of the REST endpoints").map(([code]) => code!);
  expect(documented.sort()).toEqual([...CODES, ...REST_CODES].sort());
});

test("docs/realtime.md lists every code of the reasons on channels", () => {
  expect(tableRows("docs/realtime.md", "## Errors on channels").map(([code]) => code)).toEqual([...REASON_CODES]);
});

test("docs/errors.md lists the statuses of every code", () => {
  const documented = new Map(
    tableRows("docs/errors.md", "## Codes").map(([code, status, meaning]) => [code, `${status} ${meaning}`]),
  );
  for (const [, reason] of SQLSTATES) {
    const [status, code] = REASONS[reason ?? "internal error"];
    expect(documented.get(code)).toContain(String(status));
  }
});

test("docs/errors.md lists status, code and message of each SQLSTATE", () => {
  const rows = SQLSTATES.flatMap(([sqlstate, reason]) =>
    reason === null ? [] : [[sqlstate, ...REASONS[reason].map(String)]],
  );
  expect(tableRows("docs/errors.md", "## Errors of PostgreSQL").sort()).toEqual(rows.sort());
});

test("docs/errors.md lists every code of the table interface with its statuses", () => {
  const rows = Object.entries(TABLE_CODES) as [Reason, string | readonly string[]][];
  const ours = [
    // SQLSTATEs are in another table.
    ...rows.flatMap(([reason, row]) => {
      const [code] = [row].flat() as [string];
      return code.startsWith("P") ? [`${code} ${REASONS[reason][0]}`] : [];
    }),
    ...Object.values(TOKEN_CODES).map((code) => `${code} 401`),
    ...Object.entries(SERVICE_CODES).flatMap(([status, code]) => (code.startsWith("P") ? [`${code} ${status}`] : [])),
    `${internalProblem("").code} ${internalProblem("").status}`,
  ];
  const documented = tableRows("docs/errors.md", "### Codes of the table interface").flatMap(([code, statuses]) =>
    statuses!.split(", ").map((status) => `${code} ${status}`),
  );
  expect(documented.sort()).toEqual([...new Set(ours)].sort());
});

test("docs/errors.md lists the SQLSTATEs that have another status in the table interface", () => {
  const rows = SQLSTATES.flatMap(([sqlstate, , status]) => (status ? [[sqlstate, String(status)]] : [])).sort();
  expect(tableRows("docs/errors.md", "### SQLSTATEs of the table interface")).toEqual(rows);
});

test("docs/errors.md lists every status and code with which a WebSocket is rejected or closed", () => {
  const documented = tableRows("docs/errors.md", "## WebSockets").map(([code]) => Number(code));
  const sources = [
    "gate/limits/upgrade-gate.ts",
    "graphql/transport/socket.ts",
    "identity/socket-caller.ts",
    "realtime/socket.ts",
  ]
    .map((file) => readFileSync(file, "utf8"))
    .join();
  const ours = [...sources.matchAll(/(?:return |= |close\()(\d{3,4})\b/g)]
    .map(([, code]) => Number(code))
    .filter((code) => (code >= 400 && code < 600) || (code > 1000 && code < 5000));
  // graphql-ws defines further codes for clients and for other kinds of servers.
  const others = new Set([
    CloseCode.InternalClientError,
    CloseCode.InternalServerError,
    CloseCode.BadResponse,
    CloseCode.ConnectionAcknowledgementTimeout,
    CloseCode.SubprotocolNotAcceptable,
  ]);
  const protocol = Object.values(CloseCode).filter(
    (code): code is number => typeof code === "number" && !others.has(code),
  );
  expect(ours).toContain(4403);
  expect([...ours, ...protocol].filter((code) => code !== 2000 && !documented.includes(code))).toEqual([]);
});
