import { once } from "node:events";
import { parseArgs } from "node:util";
import { refuseMissing, startRig } from "../../rig/rig.ts";
import { LIMITS, runRigChaos } from "./chaos.ts";
import { orderOf, randomOf } from "./disturbances.ts";
import { lineOf, summaryOf, tableOf } from "./report.ts";

const HELP = `npm run chaos -- rig [options]
  Starts what npm run rig does, and kills, pauses and cuts each part in turn, while clients read, write, subscribe, use channels and sign
  in. Exits with 1 if an acknowledged write or a change was lost, changes or broadcasts came out of order, a read was stale, a rate limit
  was doubled for more than 10 seconds, or an error did not say "try again". The logs are then kept in the temporary folder.

  --disturbances N  their number, default 100
  --seed N          repeats an order and durations of disturbances; by default another one in each run
  --only TEXT       only disturbances whose name contains this text
  --help            show this help
`;

export async function runRig(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      disturbances: { type: "string", default: "100" },
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      only: { type: "string", default: "" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return void process.stdout.write(HELP);
  refuseMissing();
  const seed = Number(values.seed);
  const count = Number(values.disturbances);
  const disturbances = orderOf(count, randomOf(seed), values.only);
  await using rig = await startRig((text) => process.stdout.write(`starts ${text}\n`));
  process.stdout.write(`--seed ${seed}; logs in ${rig.folder}\n`);
  const interrupted = once(process, "SIGINT").then(() => null);
  const finished = runRigChaos(rig, {
    ...{ disturbances, seed, limits: LIMITS },
    onBegin: (name, number) => process.stdout.write(`${number}/${count} ${name}: `),
    onEnd: (each) => process.stdout.write(lineOf(each)),
  });
  const report = await Promise.race([finished, interrupted]);
  if (report === null) {
    await rig[Symbol.asyncDispose]();
    process.exit(130);
  }
  process.stdout.write(`\n${tableOf(report.disturbances)}\n${summaryOf(report)}`);
  for (const violation of report.violations) process.stdout.write(`  ${violation}\n`);
  if (report.logs !== null) process.stdout.write(`the logs are kept in ${report.logs}\n`);
  process.exitCode = report.violations.length === 0 ? 0 : 1;
}
