import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds, as `rule: element`; `rule` selects one. Scripts of the test are not subject to the policy of the page. */
export async function violationsOf(page: Page, rule?: string): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(
    (only) => (globalThis as any).axe.run(only ? { runOnly: [only] } : {}),
    rule,
  );
  return violations.flatMap(({ id, nodes }: any) => nodes.map(({ html }: any) => `${id}: ${html}`));
}

/** Pixels by which the page is wider than the window. */
export const overflowOf = (page: Page): Promise<number> =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
