import { randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** The secret that is kept in this file; made, for its owner's eyes only, when there is none. */
export async function keepSecret(file: string): Promise<string> {
  await mkdir(dirname(file), { recursive: true });
  try {
    const secret = randomBytes(32).toString("base64url");
    await writeFile(file, secret, { mode: 0o600, flag: "wx" });
    return secret;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return (await readFile(file, "utf8")).trim();
  }
}
