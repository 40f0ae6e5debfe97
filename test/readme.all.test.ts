import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestService, type TestService } from "./support/service.ts";

const run = promisify(execFile);
const DOCUMENTED_URL = "http://127.0.0.1:3000";

let service: TestService;
let folder: string;
beforeAll(async () => {
  // As with the embedded database, for which the documents are written.
  service = await startTestService({ USERS_WRITE: "open", taskAnonymousRetention: 3600 });
  // In the project directory, so that imports resolve as they do for the reader.
  folder = await mkdtemp(join(process.cwd(), ".readme-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
  await service.stop();
});

type Block = { readonly language: string; readonly code: string };

async function readBlocks(file: string): Promise<Block[]> {
  const text = await readFile(file, "utf8");
  const blocks = [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
  return blocks.map(([, language, code]) => ({
    language: language!,
    code: code!
      .replaceAll(DOCUMENTED_URL, service.url)
      .replace(/^ANON_KEY=….*$/m, `ANON_KEY=${service.service.tokens.issueKey("anon")}`)
      .replace(/^SERVICE_KEY=….*$/m, `SERVICE_KEY=${service.service.tokens.issueKey("service_role")}`)
      .replaceAll(DOCUMENTED_URL.replace("http", "ws"), service.url.replace("http", "ws")),
  }));
}

/** Blocks in other languages are not run. */
const LANGUAGES = new Set(["sh", "js", "sql"]);

/**
 * The steps of a reader, in order. Adjacent blocks of a language are one script, and every script of the shell starts with the first
 * block.
 */
async function readSteps(file: string): Promise<Block[]> {
  const all = (await readBlocks(file)).filter(({ code }) => !code.startsWith("npm ci"));
  const [prelude, ...blocks] = all.filter(({ language }) => LANGUAGES.has(language));
  const steps: Block[] = [];
  for (const { language, code } of blocks) {
    const isOne = language !== "sql" && steps.at(-1)?.language === language;
    const before = isOne ? steps.pop()!.code : language === "sh" ? prelude!.code : "";
    steps.push({ language, code: before + code });
  }
  return steps;
}

/** Runs all steps and resolves to their output. */
async function follow(file: string, runJs: (code: string) => Promise<string> = runScript): Promise<string> {
  let output = "";
  for (const { language, code } of await readSteps(file)) {
    if (language === "sql") {
      await service.database.owner.query(code);
      if (file === "README.md") await served(code);
    }
    if (language === "js") output += await runJs(code);
    if (language === "sh") output += (await run("bash", ["-euc", code])).stdout;
  }
  return output;
}

/** The subscriptions to changes, of all interfaces. */
async function subscriptions(): Promise<number> {
  const authorization = `Bearer ${service.service.tokens.issueKey("service_role")}`;
  const health = await fetch(`${service.url}/health`, { headers: { authorization } });
  return ((await health.json()) as { details: { changes: { subscriptions: number } } }).details.changes.subscriptions;
}

/** Waits for the tables that the SQL creates: GraphQL serves them a moment later. */
async function served(code: string): Promise<void> {
  const fields = async () => (await service.gql("{ __schema { queryType { fields { name } } } }")).data;
  for (const [, table] of code.matchAll(/create table public\.(\w+)/g)) {
    await expect.poll(async () => JSON.stringify(await fields())).toContain(`"${table}"`);
  }
}

async function runScript(code: string, flags: readonly string[] = []): Promise<string> {
  const file = join(folder, "script.mjs");
  await writeFile(file, code);
  const env = { ...process.env, ANON_KEY: service.service.tokens.issueKey("anon") };
  return (await run(process.execPath, [...flags, file], { env })).stdout;
}

test("the first two commands of the README are start and test", async () => {
  const [start, tests] = await readBlocks("README.md");
  expect([start!.code.trim(), tests!.code.trim()]).toEqual(["npm ci && npm start", "npm ci && npm test"]);
});

test("the README has at most 150 lines, and no sentence of more than 30 words", async () => {
  const text = await readFile("README.md", "utf8");
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(150);
  const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, "").replaceAll(/^(?:[|#!]).*$/gm, "");
  const sentences = prose.split(/[.:;](?=\s)|\n{2,}/).map((sentence) => sentence.replace(/\]\([^)]*\)/g, "]"));
  expect(sentences.length).toBeGreaterThan(30);
  expect(sentences.filter((sentence) => sentence.trim().split(/\s+/).length > 30)).toEqual([]);
});

test("the examples of the README run", async () => {
  let listener: Promise<string> | undefined;
  const everything = await follow("README.md", async (code) => {
    listener = runScript(code);
    await expect.poll(subscriptions).toBe(1);
    return "";
  });
  expect(everything).not.toContain('"errors":[{"message"');
  expect(everything).toContain('"me":{"id":"1","name":"Ada Lovelace"');
  expect(everything).toContain('"article":{"title":"Notes on the Analytical Engine","author":{"name":"Ada Lovelace"}}');
  expect(everything).toContain('[{"title":"Notes on the Analytical Engine","author":{"name":"Ada Lovelace"}}]');
  expect(everything).toContain('"createComment":{"id":"');
  expect(everything).toContain('"createBookmark":{"id":"1","note":"read again","article":{"title":"Notes on');
  expect(everything).toContain('[{"id":1,"user_id":1,"article_id":1,"note":"read again"}]');
  expect(everything).toContain('"bookmarks":[{"note":"read again"}]');
  expect(await listener).toContain("Well woven.");
});

test("the client of docs/supabase-js.md for PostgREST reads a row", async () => {
  const [, example] = (await readBlocks("docs/supabase-js.md")).filter(({ language }) => language === "js");
  expect(await runScript(example!.code)).toContain("title: 'Notes on the Analytical Engine'");
});

test("the client of docs/supabase-js.md for Node 20 reads and listens without a global WebSocket", async () => {
  const [example] = (await readBlocks("docs/supabase-js.md")).filter(({ language }) => language === "js");
  const use = `
    console.log(typeof globalThis.WebSocket);
    console.log((await supabase.from("articles").select("title").eq("id", 1).single()).data.title);
    const channel = supabase.channel("any");
    console.log(await new Promise((resolve) => channel.subscribe(resolve)));
    process.exit();`;
  const printed = await runScript(example!.code + use, ["--no-experimental-websocket"]);
  expect(printed).toBe("undefined\nNotes on the Analytical Engine\nSUBSCRIBED\n");
});

test("the examples of docs/tables.md run", async () => {
  const everything = await follow("docs/tables.md");
  expect(everything).not.toContain('{"code"');
  expect(everything).toContain('"author":{"name":"Ada Lovelace"}');
  expect(everything).toContain("Content-Range: 0-1/");
  expect(everything).toContain('"title":"Punched cards and looms"');
  expect(everything).toContain('{"openapi":"3.1.0",');
  expect(everything).toContain("418 I'm a Teapot");
});

test("the examples of docs/resources.md run", async () => {
  const everything = await follow("docs/resources.md");
  expect(everything).not.toContain('"error":{"code"');
  expect(everything).toContain("Location: /users/");
  expect(everything).toContain('"author":{"name":"Ada Lovelace"}');
  expect(everything).toContain('"pagination":{"skip":0,"limit":2,"total":');
  expect(everything).toContain('"accessToken":');
  expect(everything).toContain("304 Not Modified");
  expect(everything).toContain("412 Precondition Failed");
  expect(everything).toContain("202 Accepted");
});

test("the examples of docs/authentication.md run", async () => {
  const everything = await follow("docs/authentication.md");
  expect(everything).not.toContain('"error":{"code"');
  expect(everything).not.toContain('{"code"');
  expect(everything).toContain('"username":"ada","email":"ada@example.com"');
  expect(everything).toContain('"device":"curl"');
  expect(everything).toContain("signed out everywhere else");
  expect(everything).toMatch(/"name":"Grace".*"role":"admin".*"disabled":true/s);
  expect(everything).toContain("account_deleted,");
  expect(everything).toContain('"name":"nightly import"');
  expect(everything).toContain('"event":"account_deleted","user_id"');
  expect(everything).toContain("true 3600");
  expect(everything).toContain("{ title: 'On wind tunnels', author: { name: 'Mary Jackson' } }");
  expect(everything).toContain("401 PGRST301");
});
