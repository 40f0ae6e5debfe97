import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { CommandError, defineCommand } from "../../cli/command.ts";
import { COMMAND } from "../../config/command.ts";
import { enterCommand, type NewFile, writeFiles } from "./new-files.ts";

const PAGES = fileURLToPath(new URL("../../demo/pages/", import.meta.url));

/** npm would take a folder with a package.json for a package. */
const MANIFEST = "package.template.json";

/** What every page needs. */
const COMMON = ["tsconfig.json", "vite.config.ts"];

type Manifest = { readonly description: string };

/** The pages, with what each shows. */
const EXAMPLES: ReadonlyMap<string, string> = new Map(
  globSync(`*/${MANIFEST}`, { cwd: PAGES })
    .sort()
    .map((file) => [dirname(file), (JSON.parse(readPage(file)) as Manifest).description]),
);

const HELP = `\
Copies an example page with everything that it needs. It overwrites and installs nothing.

  ${COMMAND} example <name> <folder>   copy it to this folder, which may exist
  ${COMMAND} example                   list the examples
  ${COMMAND} example --help            show this help

${[...EXAMPLES].map(([name, about]) => `  ${name.padEnd(8)} ${about}`).join("\n")}

The pages are for the demo, which ${COMMAND} start serves in a clone.
`;

export const example = defineCommand({
  name: "example",
  help: HELP,
  maxArguments: 2,
  async run({ args: [name, given] }) {
    if (name === undefined) return HELP;
    if (!EXAMPLES.has(name))
      throw new CommandError(2, `there is no example ${name}; there are ${[...EXAMPLES.keys()].join(", ")}`);
    if (given === undefined) throw new CommandError(2, `name a folder: ${COMMAND} example ${name} my-page`);
    const folder = resolve(given);
    const files = [...COMMON, ...filesOf(name)].map((file): NewFile => ({ file, text: readPage(file) }));
    await writeFiles(folder, [{ file: "package.json", text: readPage(join(name, MANIFEST)) }, ...files], {
      given,
      replaces: false,
    });
    const enter = enterCommand(folder, given);
    return `${files.map(({ file }) => `  ${file}\n`).join("")}\nThe page is ready. Install its packages and start it:\n\n  ${enter}npm install\n  npm run dev\n`;
  },
});

/** The files of a page, and all that they import. */
function filesOf(name: string): string[] {
  const own = globSync(`${name}/**/*.*`, { cwd: PAGES }).filter((file) => !file.endsWith(MANIFEST));
  const files = new Set(own.sort());
  for (const file of files)
    for (const [, path] of readPage(file).matchAll(/(?: from |href=|src=)"(\.?[./\w-]+\.(?:tsx?|css))"/g))
      files.add(normalize(join(dirname(file), path!)));
  return [...files];
}

function readPage(file: string): string {
  return readFileSync(join(PAGES, file), "utf8");
}
