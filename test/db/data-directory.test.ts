import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { keepSecret } from "../../db/cluster/data-directory.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "content-service-secrets-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("a secret is created once, with its folder, and only its owner can read it", async () => {
  const file = join(folder, "data", "secret");
  const secret = await keepSecret(file);
  expect(secret).toMatch(/^[\w-]{43}$/);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await keepSecret(file)).toBe(secret);
  expect(await readdir(join(folder, "data"))).toEqual(["secret"]);
});

test("concurrent starts have the same secret", async () => {
  const file = join(folder, "secret");
  const secrets = await Promise.all(Array.from({ length: 20 }, () => keepSecret(file)));
  expect(new Set(secrets)).toEqual(new Set([await readFile(file, "utf8")]));
  expect(await readdir(folder)).toEqual(["secret"]);
});

test("an existing secret is kept, without the line break at its end", async () => {
  await writeFile(join(folder, "secret"), `${"x".repeat(32)}\n`);
  expect(await keepSecret(join(folder, "secret"))).toBe("x".repeat(32));
});

test.each(["", "too short", " ".repeat(64)])("a file with the secret %j is refused as too short", async (text) => {
  const file = join(folder, "secret");
  await writeFile(file, text);
  await expect(keepSecret(file)).rejects.toThrow(
    `${file} does not contain a secret of at least 32 characters; write one to it, or remove the file`,
  );
  expect(await readFile(file, "utf8")).toBe(text);
});
