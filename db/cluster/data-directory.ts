import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

const BYTES = 32;

/**
 * The secret that is kept in this file; made, for its owner's eyes only, when there is none. Throws for a file that
 * holds less than a secret.
 */
export async function keepSecret(file: string): Promise<string> {
  const kept = (await readKept(file)) ?? (await make(file));
  if (kept.length < BYTES)
    throw new Error(`${file} holds no secret of at least ${BYTES} characters; put one in, or remove it`);
  return kept;
}

/** Written beside its place and linked into it: a crash leaves nothing half-written, and of two at once one wins. */
async function make(file: string): Promise<string> {
  await mkdir(dirname(file), { recursive: true });
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  await writeFile(draft, randomBytes(BYTES).toString("base64url"), { mode: 0o600, flag: "wx" });
  try {
    await link(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(draft);
  }
  return (await readKept(file))!;
}

async function readKept(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** The owner's connection string of the embedded database that runs on this folder; null when none does. */
export function runningUrl(dataDir: string): string | null {
  try {
    const password = readFileSync(join(dataDir, "postgres-password"), "utf8").trim();
    // The fourth line of postmaster.pid is the port.
    const port = readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[3];
    return `postgres://postgres:${password}@127.0.0.1:${port}/content`;
  } catch {
    return null;
  }
}
