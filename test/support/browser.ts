import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

/** Debian's. The headless shell needs less CPU time: it draws no window. */
const PROGRAM = ["/usr/lib/chromium/chromium-headless-shell", "/usr/bin/chromium"].find(existsSync);
const DISABLED_FEATURES = [
  // A process for the next page of another site, started with each page.
  "SpareRendererForSitePerProcess",
  // The invisible address bar of each window would load two pages.
  "WebUIOmniboxPopup",
  "WebUIOmniboxAimPopup",
  // Features that send requests to the vendor. Playwright disables them too, but Chromium uses only the last list.
  "AimEnabled",
  "HttpsFirstBalancedModeAutoEnable",
  "HttpsUpgrades",
  "MediaRouter",
  "NetworkTimeServiceQuerying",
  "OptimizationHints",
  "PaintHolding",
  "PreconnectToSearch",
];
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  `--disable-features=${DISABLED_FEATURES.join(",")}`,
];

/** Whether a browser is installed. Without one, `what` is skipped and a warning is logged. */
export function hasBrowser(what: string): boolean {
  if (!PROGRAM) console.warn(`skipped: ${what} in a browser, because chromium-headless-shell is not installed`);
  return PROGRAM !== undefined;
}

let launched: Promise<Browser> | undefined;

/** The browser of this worker, without its background requests. It ends with the worker; a file closes only its pages. */
export function sharedBrowser(): Promise<Browser> {
  launched ??= chromium.launch({ executablePath: PROGRAM!, args: FLAGS }).then((browser) =>
    browser.on("disconnected", () => {
      launched = undefined;
    }),
  );
  return launched;
}

/** Closes all pages and contexts of the browser of this worker: a worker runs one file after the other. */
export async function closePages(): Promise<void> {
  const contexts = (await launched)?.contexts() ?? [];
  await Promise.all(contexts.map((context) => context.close()));
}
