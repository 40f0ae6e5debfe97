import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

const CHROMIUM = "/usr/bin/chromium";
const DISABLED_FEATURES = [
  // The address bar of each window, which nobody sees, would load two pages of its own.
  "WebUIOmniboxPopup",
  "WebUIOmniboxAimPopup",
  // What would ask its makers for something. Playwright says so too, but of two lists Chromium takes the last one.
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

/** Whether there is a browser; `what` is skipped without one, and the log says so. */
export function hasBrowser(what: string): boolean {
  const installed = existsSync(CHROMIUM);
  if (!installed) console.warn(`skipped: ${what} in a browser, because ${CHROMIUM} is not installed`);
  return installed;
}

/** Debian's chromium, which asks nobody for anything by itself. */
export const launchBrowser = (): Promise<Browser> => chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
