import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

const CHROMIUM = "/usr/bin/chromium";
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
  const installed = existsSync(CHROMIUM);
  if (!installed) console.warn(`skipped: ${what} in a browser, because ${CHROMIUM} is not installed`);
  return installed;
}

/** Launches Debian's Chromium, without its background requests. */
export const launchBrowser = (): Promise<Browser> => chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
