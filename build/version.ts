import { readFileSync, writeFileSync } from "node:fs";

/**
 * Run by `npm version <number>`, which has changed package.json and package-lock.json: writes the number into the Helm chart, and the date
 * into the heading of the changelog.
 */
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const date = new Date().toISOString().slice(0, 10);

replace("deploy/helm/content-service/Chart.yaml", /^version: .*$/m, `version: ${version}`);
replace("deploy/helm/content-service/Chart.yaml", /^appVersion: .*$/m, `appVersion: "${version}"`);
replace("CHANGELOG.md", `## ${version} (unreleased)\n`, `## ${version} (${date})\n`);

function replace(file: string, line: string | RegExp, replacement: string): void {
  const text = readFileSync(file, "utf8");
  const changed = text.replace(line, () => replacement);
  if (changed === text && !text.includes(replacement)) {
    console.error(`${file} has no line ${String(line).trim()}. Write it, and run npm version ${version} again.`);
    process.exit(1);
  }
  writeFileSync(file, changed);
}
