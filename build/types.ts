import { spawnSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// Checks the types of the projects that the product consists of. Each may import from those before it alone: the core; the commands; each
// part, from the parts that it needs; and then everything else. What has not changed since the last run is not checked again.
const ROOT = join(import.meta.dirname, "..");
/** Configurations and declarations of the projects. */
const CACHE = join(ROOT, "node_modules/.cache/types");

const CORE = [
  ...["app", "cache", "config", "db", "gate", "graphql", "identity", "pages", "plugins", "problems", "realtime"],
  ...["rest-gateway", "service", "telemetry"],
];
const COMPOSED = ["server.ts", "cli/content-service.ts", "parts/list.ts"];
const OTHERS = ["build", "demo", "kit", "template", "test", "bench"];

function write(name: string, files: readonly string[], uses: readonly string[]): void {
  const configuration = {
    extends: "../../../tsconfig.json",
    compilerOptions: {
      ...{ composite: true, noEmit: false, emitDeclarationOnly: true },
      ...{ rootDir: "../../..", outDir: "out", tsBuildInfoFile: `${name}.tsbuildinfo` },
    },
    include: files.map((path) => `../../../${path}`),
    exclude: ["../../../demo/pages"],
    references: uses.map((other) => ({ path: `${other}.json` })),
  };
  writeFileSync(join(CACHE, `${name}.json`), JSON.stringify(configuration, null, 2));
}

function needsOf(part: string): readonly string[] {
  const [, names = ""] = /^ {2}needs: \[(.*)\]/m.exec(readFileSync(join(ROOT, `parts/${part}/part.ts`), "utf8")) ?? [];
  return [...names.matchAll(/"(.+?)"/g)].map(([, name]) => name!);
}

mkdirSync(CACHE, { recursive: true });
const parts = globSync("*/part.ts", { cwd: join(ROOT, "parts") }).map((file) => file.split("/")[0]!);
const commands = globSync("cli/*.ts", { cwd: ROOT }).filter((file) => !COMPOSED.includes(file));
write("core", CORE, []);
write("cli", commands, ["core"]);
for (const part of parts) write(part, [`parts/${part}`], ["core", "cli", ...needsOf(part)]);
write("all", [...COMPOSED, ...OTHERS], ["core", "cli", ...parts]);
const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
process.exitCode = spawnSync(process.execPath, [compiler, "-b", join(CACHE, "all.json")], { stdio: "inherit" }).status!;
