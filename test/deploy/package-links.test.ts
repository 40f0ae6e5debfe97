import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { makePackage, PACKAGE_LIMIT } from "../support/package.ts";

let folder: string;
beforeAll(async () => {
  folder = await makePackage();
}, PACKAGE_LIMIT);

/** The relative targets of the links of a page, without those in code. */
const linksOf = (text: string): string[] =>
  [...text.replaceAll(/```.*?```/gs, "").matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target!.replace(/#.*/, ""))
    .filter((target) => target !== "" && !/^[a-z]+:/.test(target));

test("every link of every page in the package leads to a file of the package", () => {
  const pages = globSync("**/*.md", { cwd: folder, exclude: ["node_modules"] });
  expect(pages).toEqual(expect.arrayContaining(["README.md", "CHANGELOG.md", "docs/graphql.md"]));
  const broken = pages.flatMap((page) =>
    linksOf(readFileSync(join(folder, page), "utf8"))
      .filter((target) => !existsSync(join(folder, dirname(page), target)))
      .map((target) => `${page}: ${target}`),
  );
  expect(broken).toEqual([]);
});

test("every file of the demo and of an example that a page names is in the package", () => {
  const named = globSync("{README.md,docs/*.md}", { cwd: folder }).flatMap((page) =>
    [
      ...readFileSync(join(folder, page), "utf8").matchAll(
        /`((?:demo|test\/applications)\/[\w/.-]+\.(?:ts|sql|graphql|md))`/g,
      ),
    ].map(([, file]) => file!),
  );
  expect(named.length).toBeGreaterThan(3);
  // Only developers of the project read what follows.
  const ofProject = /^test\/applications\/[\w.]+\.test\.ts$/;
  expect(named.filter((file) => !ofProject.test(file) && !existsSync(join(folder, file)))).toEqual([]);
});
