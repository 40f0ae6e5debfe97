import { randomBytes } from "node:crypto";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { makeFolder } from "./folders.ts";

const BYTES = 32;

/**
 * Reads the secret in this file. Creates the file, readable only by its owner, when it does not exist. Throws when the
 * file contains less than 32 characters.
 */
export async function keepSecret(file: string): Promise<string> {
  const kept = (await readSecret(file)) ?? (await createSecret(file));
  if (kept.length < BYTES)
    throw new Error(
      `${file} does not contain a secret of at least ${BYTES} characters; write one to it, or remove the file`,
    );
  return kept;
}

/** Writes a draft and links it: a crash leaves no incomplete file, and of two concurrent calls one wins. */
async function createSecret(file: string): Promise<string> {
  makeFolder(dirname(file));
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  await writeFile(draft, randomBytes(BYTES).toString("base64url"), { mode: 0o600, flag: "wx" });
  try {
    await link(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(draft);
  }
  return (await readSecret(file))!;
}

async function readSecret(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
