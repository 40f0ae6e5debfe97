import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, rename, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import { PROJECT } from "./command.ts";

const run = promisify(execFile);

/** Milliseconds in which the package is made, also on a machine that is busy. */
export const PACKAGE_LIMIT = 600_000;

/** The program of the package. */
export const PROGRAM = "cli/content-service.js";

/** Packages that an application installs besides the package itself. */
const PACKAGES = ["vitest", "typescript", "supertest", "@types"];

/** Links the package, and others of the repository, into the folder of an application, as `npm install` would. */
export async function linkPackages(app: string): Promise<void> {
  const linked = join(app, "node_modules");
  await mkdir(linked, { recursive: true });
  await symlink(await makePackage(), join(linked, "content-service"));
  for (const name of PACKAGES) await symlink(join(PROJECT, "node_modules", name), join(linked, name));
}

/**
 * The folder of the package as it would be published, with the packages of the repository. It is made once for all tests of a run. Its path
 * is that of an installation: what is not in node_modules, vitest compiles for each application, which takes 5 seconds of CPU time.
 * TypeScript reads its declarations: it would check all sources of the service for each application, which takes 14 seconds of CPU time.
 */
export async function makePackage(): Promise<string> {
  const folder = join(tmpdir(), "node_modules/content-service");
  const lock = join(tmpdir(), "package.lock");
  while (!existsSync(folder)) {
    const isMine = await mkdir(lock).then(
      () => true,
      () => false,
    );
    if (!isMine) await setTimeout(100);
    else
      try {
        if (!existsSync(folder)) await build(folder, join(lock, "draft"));
      } finally {
        await rm(lock, { recursive: true, force: true });
      }
  }
  return folder;
}

async function build(folder: string, draft: string): Promise<void> {
  await run(process.execPath, ["build/package.ts", draft], { cwd: PROJECT });
  await symlink(join(PROJECT, "node_modules"), join(draft, "node_modules"));
  await chmod(join(draft, PROGRAM), 0o755);
  await mkdir(dirname(folder), { recursive: true });
  await rename(draft, folder);
}
