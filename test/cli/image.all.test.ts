import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { writeImageFiles } from "../../cli/image-files.ts";

let folder: string;
let built: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "image of "));
  built = join(folder, "image");
  return () => rmSync(folder, { recursive: true });
});

const write = (path: string, text: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
};
/** A package in this folder, in which these files are. */
const addPackage = (path: string, manifest: object, files: readonly string[] = ["index.js"]) => {
  write(join(path, "package.json"), JSON.stringify(manifest));
  for (const file of files) write(join(path, file), "");
};
const link = (path: string, target: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  symlinkSync(target, join(folder, path));
};
const inImage = (...paths: string[]) => paths.map((path) => existsSync(join(built, "app/node_modules", path)));

test("an image has the packages of production, where npm has installed them", () => {
  addPackage("", { dependencies: { a: "1" }, devDependencies: { tool: "1" } }, []);
  const a = { dependencies: { b: "1", c: "1" }, peerDependencies: { peer: "1", absent: "1" } };
  addPackage("node_modules/a", { ...a, peerDependenciesMeta: { absent: { optional: true } } });
  addPackage("node_modules/a/node_modules/b", { optionalDependencies: { "for-windows": "1" } }, ["b.js", "b.d.ts"]);
  for (const name of ["c", "peer", "tool"]) addPackage(`node_modules/${name}`, {});
  writeImageFiles(folder, built);
  expect(inImage("a/index.js", "a/node_modules/b/b.js", "c", "peer")).toEqual([true, true, true, true]);
  expect(inImage("tool", "a/node_modules/b/b.d.ts")).toEqual([false, false]);
  expect(existsSync(join(built, "usr/local/bin/node"))).toBe(true);
});

test("an image has the packages of production, and the links to them, where pnpm has installed them", () => {
  addPackage("", { dependencies: { "@scope/a": "1" } }, []);
  addPackage("node_modules/.pnpm/a@1/node_modules/@scope/a", { dependencies: { b: "1" } });
  addPackage("node_modules/.pnpm/b@1/node_modules/b", {});
  addPackage("node_modules/.pnpm/tool@1/node_modules/tool", {});
  link("node_modules/@scope/a", "../.pnpm/a@1/node_modules/@scope/a");
  link("node_modules/.pnpm/a@1/node_modules/b", "../../b@1/node_modules/b");
  link("node_modules/.pnpm/node_modules/@scope/a", "../../a@1/node_modules/@scope/a");
  link("node_modules/.pnpm/node_modules/b", "../b@1/node_modules/b");
  link("node_modules/.pnpm/node_modules/tool", "../tool@1/node_modules/tool");
  writeImageFiles(folder, built);
  const fileIn = (name: string) => realpathSync(join(built, "app/node_modules", name, "index.js"));
  const b = join(built, "app/node_modules/.pnpm/b@1/node_modules/b/index.js");
  expect(createRequire(fileIn("@scope/a")).resolve("b")).toBe(b);
  expect(inImage(".pnpm/tool@1", ".pnpm/node_modules/tool")).toEqual([false, false]);
  // A package that b does not declare.
  expect(createRequire(b).resolve("@scope/a")).toBe(fileIn("@scope/a"));
});

test("packages that are missing, or elsewhere, are named", () => {
  addPackage("", { dependencies: { a: "1" } }, []);
  expect(() => writeImageFiles(folder, built)).toThrow("the package a is not installed: run npm install");
  addPackage("node_modules/a", { dependencies: { b: "1" } });
  expect(() => writeImageFiles(folder, built)).toThrow(
    "the package b is not installed, and node_modules/a needs it: run npm install",
  );
  link("node_modules/b", tmpdir());
  expect(() => writeImageFiles(folder, built)).toThrow(
    `the package b is a link to ${tmpdir()}: install it in the folder of the application`,
  );
});
