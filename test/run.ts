import { spawnSync } from "node:child_process";
import { LANES, type Lane } from "./support/lanes.ts";

const HELP = `npm test                     types, lint, migrations, and the quick tests
npm test -- table/filters    only the test files whose paths contain the text, of every lane, without types and lint
npm run test:all             the same as \`npm test\`, and the tests that start processes; property tests take all their samples
npm run test:release         what a release needs: installations, tutorials, other versions of PostgreSQL, disturbances

Options
  --rest     with test:all, only what \`npm test\` does not run
  --costs    one file at a time; writes what each file costs to test/costs.json
  --help     this text
All other arguments are those of vitest.
`;

const [command, ...given] = process.argv.slice(2);
const own = ["--rest", "--costs", "--help"];
const [isRest, isCosts, isHelp] = own.map((option) => given.includes(option));
const args = given.filter((argument) => !own.includes(argument));
const names = args.filter((argument) => !argument.startsWith("-"));

if (isHelp) {
  process.stdout.write(HELP);
} else {
  const isChecked = names.length === 0 && !isRest && command !== "release";
  if (isChecked) run("npm", ["run", "--silent", "check"]);
  run("vitest", ["run", ...args, ...(isCosts ? ["--maxWorkers=1", "--reporter=./test/support/costs.ts"] : [])], {
    TEST_LANES: (names.length > 0 ? LANES : lanesOf(command!)).join(),
    ...(command !== "quick" && names.length === 0 && { SAMPLES: "all" }),
  });
}

function lanesOf(lane: string): readonly Lane[] {
  if (lane === "all") return isRest ? ["all"] : ["quick", "all"];
  return [lane as Lane];
}

/** Ends this process if the program fails. */
function run(program: string, args: readonly string[], environment: Readonly<Record<string, string>> = {}): void {
  const { status, signal, error } = spawnSync(program, args, {
    stdio: "inherit",
    env: { ...process.env, ...environment },
  });
  if (error) console.error(`${error.message}: run it with npm test`);
  if (status !== 0) process.exit(status ?? (signal === "SIGINT" ? 130 : 1));
}
