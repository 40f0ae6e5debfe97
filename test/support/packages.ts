import { createRequire } from "node:module";
import { join } from "node:path";
import { installPackages } from "../../build/packages.ts";
import { PROJECT } from "./command.ts";

/** The packages of a folder that has a lock file of its own, and the test files that need them: none of them is quick. */
const USERS: Readonly<Record<string, RegExp>> = {
  "build/browser-library": /^test\/(browser\/graphiql|pages\/types)\./,
  "build/schemas": /^test\/deploy\/packages\./,
  bench: /^test\/(parts\/openapi\/tables\/swagger|rest-gateway\/table\/postgrest)\./,
  "demo/pages":
    /^test\/(browser\/(examples[\w-]*|page-files|server-rendered)|cli\/example|graphql\/(apollo|clients)|pages\/types)\./,
};

/** Installs what these test files need. Without the network, those that lack it fail. */
export function installPackagesOf(files: readonly string[]): void {
  for (const [folder, users] of Object.entries(USERS))
    if (files.some((file) => users.test(file))) installPackages(folder);
}

/**
 * A package of the example pages: `ofPages("@apollo/client")`. Its types are any, because the root's installation, which the types of
 * tests are checked with, does not have it.
 */
export const ofPages: (name: string) => any = createRequire(join(PROJECT, "demo/pages/package.json"));
