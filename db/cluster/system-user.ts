import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { lchown, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The user that the server runs as. */
export type SystemUser = { readonly uid: number; readonly gid: number };

const NAME = "content-service";

/**
 * The user to start PostgreSQL as on this data directory, which need not exist; undefined for the current user.
 *
 *   an ordinary user                  → undefined; throws when the directory belongs to another user
 *   root                              → `content-service`, created when missing; throws when that fails
 *   root, on a cluster of another user → that user, so that one start with sudo does not lock them out
 */
export async function findServerUser(dataDir: string): Promise<SystemUser | undefined> {
  const owner = await ownerOf(dataDir);
  if (process.getuid?.() !== 0) return refuseForeign(dataDir, owner);
  if (owner && owner.uid !== 0 && existsSync(join(dataDir, "PG_VERSION"))) return owner;
  const user = await findSystemUser();
  if (owner) await giveTo(user, dataDir);
  return user;
}

/** The user `content-service`, which is created when it does not exist. */
export async function findSystemUser(): Promise<SystemUser> {
  return (await lookUpUser()) ?? createUser();
}

/**
 * Throws an error with advice if the user cannot access the program or the parent of the data directory.
 * Runs `test -x` as that user: mode bits alone would miss access control lists.
 */
export function assertReach(user: SystemUser, program: string, dataDir: string): void {
  const advice = { [program]: "install the project where this user can reach it", [dirname(dataDir)]: MOVE_DATA };
  for (const [path, what] of Object.entries(advice)) {
    if (canReach(user, path)) continue;
    const barrier = ancestors(path).find((folder) => !canReach(user, folder)) ?? path;
    throw new Error(
      `PostgreSQL does not run as root, and the system user it runs as (uid ${user.uid}) cannot reach ${barrier}, ` +
        `needed for ${path}; ${what}, or run the service as an ordinary user`,
    );
  }
}

const MOVE_DATA = "set DATA_DIR to a folder that this user can reach";

async function ownerOf(path: string): Promise<SystemUser | undefined> {
  return stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
}

function refuseForeign(dataDir: string, owner: SystemUser | undefined): undefined {
  if (!owner || !process.getuid || owner.uid === process.getuid()) return undefined;
  throw new Error(
    `data directory ${dataDir} belongs to another user (uid ${owner.uid}); run as that user or choose another DATA_DIR`,
  );
}

async function lookUpUser(): Promise<SystemUser | undefined> {
  try {
    const [uid, gid] = await Promise.all([run("id", ["-u", NAME]), run("id", ["-g", NAME])]);
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    return undefined;
  }
}

async function createUser(): Promise<SystemUser> {
  const command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME];
  // flock: two concurrent useradd both succeed, and the later one changes the uid that the earlier one assigned.
  const outcome = await run("flock", ["/etc", ...command]).catch((error: Error) => error);
  const user = await lookUpUser();
  if (user) return user;
  const reason = outcome instanceof Error ? outcome.message.trim() : "it is not listed";
  throw new Error(
    `PostgreSQL does not run as root, and its system user "${NAME}" could not be created (${reason}); ` +
      `run the service as an ordinary user, or create that user: ${command.join(" ")}`,
  );
}

/** For a cluster that root has copied here: PostgreSQL itself never creates one that is owned by root. */
async function giveTo({ uid, gid }: SystemUser, dataDir: string): Promise<void> {
  await lchown(dataDir, uid, gid);
  for (const entry of await readdir(dataDir, { recursive: true })) await lchown(join(dataDir, entry), uid, gid);
}

/** Also true if the program `test` does not exist: PostgreSQL then reports the paths that it cannot reach. */
function canReach(user: SystemUser, path: string): boolean {
  return spawnSync("test", ["-x", path], { ...user, cwd: "/", stdio: "ignore" }).status !== 1;
}

/** `/a/b/c` → `["/", "/a", "/a/b"]`. */
function ancestors(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [...ancestors(parent), parent];
}
