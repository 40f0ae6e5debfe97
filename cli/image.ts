import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { extname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { configFileIn, findApplication } from "../app/load.ts";
import { COMMAND } from "../config/command.ts";
import { folderIn } from "../config/config.ts";
import { makeFolder } from "../db/cluster/folders.ts";
import { CommandError, defineCommand, programOf, quoted } from "./command.ts";
import { APP, NODE, writeImageFiles } from "./image-files.ts";

const HELP = `\
Makes the files of a container image from the application in this folder, and a Dockerfile. Install its packages first.

  ${COMMAND} image <directory>   write them into a new directory
  ${COMMAND} image --help        show this help

  docker build --tag my-app <directory>

The image has the application in JavaScript, the packages that it needs in production, this Node and its libraries, and nothing else: no
TypeScript, shell, package manager or PostgreSQL server. Run the command on Linux, on the architecture of the image. Files in test/ and files
whose names begin with a dot, such as .env, are left out.
`;

/** The root file system, beside the Dockerfile. */
const ROOT = "root";
const SERVICE = "node_modules/content-service";
const COMMAND_OF_IMAGE = [`/${NODE}`, `${SERVICE}/cli/content-service.js`];

const DOCKERFILE = `\
FROM scratch
COPY ${ROOT} /
WORKDIR /${APP}
# Any other user works, too.
USER 65532:65532
ENV NODE_ENV=production GRAPHILE_ENV=production HOME=/ HOST=0.0.0.0
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s CMD ${JSON.stringify([...COMMAND_OF_IMAGE, "ready"])}
ENTRYPOINT ${JSON.stringify(COMMAND_OF_IMAGE)}
CMD ["start"]
`;

/** Files of the application that production does not read. TypeScript is compiled, and a package was installed. */
const LEFT_OUT = /(^|\/)(\.[^/]*|node_modules)$|^tests?$|^tsconfig\.json$|\.([cm]?ts|tgz)$/;

export const image = defineCommand({
  name: "image",
  help: HELP,
  maxArguments: 1,
  async run({ args: [given], refuse }) {
    if (!given) throw refuse("expected one directory");
    if (process.platform !== "linux")
      throw new CommandError(
        1,
        "an image has programs of Linux: run the command there, such as in a container of node:24",
      );
    const folder = findApplication(folderIn());
    if (folder === null || configFileIn(folder) === null || !existsSync(join(folder, "package.json")))
      throw new CommandError(2, "there is no application with a package.json here: run the command in its folder");
    const target = resolve(given);
    if (existsSync(target)) throw new CommandError(2, `${given} exists already: name a new directory`);
    try {
      write(folder, target);
    } catch (error) {
      rmSync(target, { recursive: true, force: true });
      throw error;
    }
    return `The files of the image are ready. Build it:\n\n  docker build --tag my-app ${quoted(given)}\n`;
  },
});

function write(folder: string, target: string): void {
  const app = join(target, ROOT, APP);
  makeFolder(app);
  const isWanted = (file: string) => !(file === target || LEFT_OUT.test(relative(folder, file)));
  // One by one, because the target may be in the folder. A link, such as db/migrations/fixtures, stays relative.
  for (const name of readdirSync(folder))
    cpSync(join(folder, name), join(app, name), { recursive: true, filter: isWanted, verbatimSymlinks: true });
  compile(folder, app);
  writeImageFiles(folder, join(target, ROOT));
  writeFileSync(join(target, "Dockerfile"), DOCKERFILE);
}

/** Writes JavaScript for what the configuration imports. Throws CommandError with the errors of the types. */
function compile(folder: string, app: string): void {
  const file = configFileIn(folder)!;
  if (extname(file) !== ".ts") return;
  const own = join(folder, "tsconfig.json");
  const compilerOptions = {
    rootDir: folder,
    outDir: app,
    noEmit: false,
    declaration: false,
    rewriteRelativeImportExtensions: true,
    typeRoots: [join(folder, "node_modules/@types")],
  };
  const project = join(app, "tsconfig.json");
  const base = existsSync(own) ? own : fileURLToPath(new URL("../app/tsconfig.json", import.meta.url));
  writeFileSync(project, JSON.stringify({ extends: base, compilerOptions, files: [file], include: [] }));
  try {
    execFileSync(process.execPath, [programOf(folder, "typescript", "bin/tsc"), "--project", project], { cwd: folder });
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(1, (error as { readonly stdout?: Buffer }).stdout?.toString().trimEnd() || String(error));
  }
  rmSync(project);
}
