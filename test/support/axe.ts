import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds, as `rule: element`; `rule` selects one. Scripts of the test are not subject to the policy of the page. */
export async function violationsOf(page: Page, rule?: string): Promise<string[]> {
  // It is half a megabyte, which the browser parses.
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(AXE);
  // Only what is violated is described: on a long page the rest would take as long as the search.
  const options = { resultTypes: ["violations"], selectors: false, ...(rule && { runOnly: [rule] }) };
  const { violations } = await page.evaluate((options) => (globalThis as any).axe.run(options), options);
  return violations.flatMap(({ id, nodes }: any) => nodes.map(({ html }: any) => `${id}: ${html}`));
}

/** Pixels by which the page is wider than the window. */
export const overflowOf = (page: Page): Promise<number> =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

/** What is wrong with the layout of the page on a phone and on a desktop, and with its access there, light and dark: `dark: color-contrast: …` */
export async function faultsAtEachSize(page: Page): Promise<string[]> {
  const faults: string[] = [];
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 844 });
    const overflow = await overflowOf(page);
    if (overflow !== 0) faults.push(`${width} pixels: ${overflow} too wide`);
  }
  return [...faults, ...(await violationsInBoth(page))];
}

/** What axe finds in light and dark. The layout of both themes is the same, their colours are not. */
export async function violationsInBoth(page: Page): Promise<string[]> {
  await page.emulateMedia({ colorScheme: "light" });
  const light = await violationsOf(page);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await violationsOf(page, "color-contrast");
  return [...light.map((each) => `light: ${each}`), ...dark.map((each) => `dark: ${each}`)];
}
