import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const HELP = `npm run weight [-- --roads] [-- --write]

Prints how many lines each room of the project has, and how many its budget allows; the core, the parts, the tests, and the words
of the documentation. test/weight.test.ts fails when a room has grown by more than a tenth over its budget.

Options
  --roads    prints which files a warm request of each kind passes, instead of the lines; takes half a minute
  --write    makes today's lines the budget of each room that has grown or shrunk, in build/weight.json; with --roads, writes
             the files of each road into bench/roads.md
  --help     this text
`;

const ROOT = join(import.meta.dirname, "..");
const BUDGET = join(ROOT, "build/weight.json");

/** These are no part of the service that runs on another database. */
const BESIDE_THE_CORE = ["demo", "template", "cli", "build", "deploy", "parts"];
const TESTS = ["test", "bench"];
const PRODUCT = [
  ...["app", "cache", "config", "db", "graphql", "gate", "identity", "kit", "pages", "plugins", "problems", "realtime"],
  ...["rest-gateway", "service", "telemetry", "server.ts", ...BESIDE_THE_CORE],
];

/** Folders whose folders are rooms of their own. */
const HOUSES = ["db", "rest-gateway", "parts"];

/** Generated, or written by others. */
const FOREIGN = /(^|\/)(node_modules|dist)\/|\.d\.ts$|\.min\.|^pages\/assets\/|^demo\/db\/migrations\//;

/** Room → lines of TypeScript, SQL, JavaScript and CSS, blank ones and comments included. `db/changes` is a room, and `gate`. */
export function weighRooms(): Readonly<Record<string, number>> {
  const files = globSync(`{${[...PRODUCT, ...TESTS].join()}}{,/**/*.{ts,tsx,sql,js,css}}`, {
    cwd: ROOT,
    exclude: ["**/node_modules/**"],
  }).filter((file) => /\.\w+$/.test(file) && !FOREIGN.test(file));
  const rooms: Record<string, number> = {};
  for (const file of files.sort()) {
    const room = roomOf(file);
    rooms[room] = (rooms[room] ?? 0) + linesOf(file);
  }
  return rooms;
}

/** Room → lines that it may have. */
export const readBudget = (): Readonly<Record<string, number>> => JSON.parse(readFileSync(BUDGET, "utf8"));

function roomOf(file: string): string {
  const [house = "", room = "", ...rest] = file.split("/");
  return HOUSES.includes(house) && rest.length > 0 ? `${house}/${room}` : house;
}

const linesOf = (file: string) => readFileSync(join(ROOT, file), "utf8").split("\n").length - 1;

const FILES_OF_CORE = `{${PRODUCT.filter((name) => !BESIDE_THE_CORE.includes(name)).join()}}{,/**/*.ts}`;

const sumOfFiles = (pattern: string) =>
  globSync(pattern, { cwd: ROOT })
    .filter((file) => file.endsWith(".ts"))
    .reduce((sum, file) => sum + linesOf(file), 0);

const wordsOf = (pattern: string) =>
  globSync(pattern, { cwd: ROOT }).reduce(
    (sum, file) => sum + readFileSync(join(ROOT, file), "utf8").split(/\s+/).filter(Boolean).length,
    0,
  );

const sumOf = (rooms: Readonly<Record<string, number>>, isMeant: (house: string) => boolean) =>
  Object.entries(rooms).reduce((sum, [room, lines]) => sum + (isMeant(room.split("/")[0]!) ? lines : 0), 0);

function report(rooms: Readonly<Record<string, number>>): string {
  const budget = readBudget();
  const row = (name: string, value: number, more = "") =>
    `${name.padEnd(30)}${value.toLocaleString("en").padStart(9)}${more}`;
  const ofBudget = (room: string) => {
    const allowed = budget[room];
    return allowed === undefined ? "  no budget" : `${allowed.toLocaleString("en").padStart(9)}`;
  };
  const isTest = (house: string) => TESTS.includes(house);
  const isBeside = (house: string) => BESIDE_THE_CORE.includes(house);
  return [
    `${"room".padEnd(30)}${"lines".padStart(9)}${"budget".padStart(9)}`,
    ...Object.entries(rooms).map(([room, lines]) => row(room, lines, ofBudget(room))),
    "",
    row(
      "core, with its SQL",
      sumOf(rooms, (house) => !isTest(house) && !isBeside(house)),
    ),
    row("  of which TypeScript", sumOfFiles(FILES_OF_CORE)),
    row(
      "parts",
      sumOf(rooms, (house) => house === "parts"),
    ),
    row(
      "beside them",
      sumOf(rooms, (house) => isBeside(house) && house !== "parts"),
    ),
    row("tests and benches", sumOf(rooms, isTest)),
    row("words of documentation", wordsOf("{*.md,docs/**/*.md}")),
    "",
  ].join("\n");
}

if (import.meta.main) {
  const flag = { type: "boolean" } as const;
  const { values } = parseArgs({ options: { roads: flag, write: flag, help: flag } });
  if (values.help) process.stdout.write(HELP);
  else if (values.roads) await (await import("../bench/roads.ts")).printRoads(values.write === true);
  else {
    if (values.write) writeFileSync(BUDGET, `${JSON.stringify(weighRooms(), null, 2)}\n`);
    process.stdout.write(report(weighRooms()));
  }
}
