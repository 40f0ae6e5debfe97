// After each installation in this repository: deletes from node_modules what nothing here reads. It is a quarter of the 800 MB.
import { globSync, rmSync } from "node:fs";

/** As relay-compiler names the folders of its programs: `linux-x64`. */
const platform = `${{ darwin: "macos", win32: "win" }[process.platform as string] ?? process.platform}-${process.arch}`;

/** The headers of Node, the programs of the Relay compiler, and source maps. */
const UNREAD = ["node/node_modules/*/include", "relay-compiler/{linux,macos,win}-*", "**/*.map"];

const options = { cwd: "node_modules", exclude: [`relay-compiler/${platform}`] };
for (const path of globSync(UNREAD, options)) rmSync(`node_modules/${path}`, { recursive: true, force: true });
