import { existsSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { APP, copy, writeImageFiles } from "../../cli/image-files.ts";

const HELP = `node deploy/image/build.ts <directory>

Writes the root file system of the container image into a new directory: the service with the demo, the packages that it needs, Node, and
the libraries that Node needs. Run npm ci first. The image has no shell, no package manager, no PostgreSQL server and no GraphiQL.
npx content-service image does the same for an application.
`;

/** Files that npm always packs. */
const ALWAYS = ["package.json", "README.md", "LICENSE"];

const root = fileURLToPath(new URL("../../", import.meta.url));

function build(target: string): void {
  const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const file of [...ALWAYS, ...(files as string[])]) copy(realpathSync(join(root, file)), join(target, APP, file));
  writeImageFiles(root, target);
}

const [target] = process.argv.slice(2);
if (target === undefined || target.startsWith("-")) process.stdout.write(HELP);
else if (existsSync(target)) {
  process.stderr.write(`${target} exists already: name a new directory\n`);
  process.exitCode = 2;
} else build(target);
