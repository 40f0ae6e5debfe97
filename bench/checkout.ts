import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileOf } from "./servers.ts";

const ROOT = fileOf("../");

const git = (...args: string[]): string => execFileSync("git", ["-C", ROOT, ...args], { encoding: "utf8" }).trim();

/** Returns the full hash. Throws if there is no such commit. */
export const findCommit = (name: string): string => git("rev-parse", "--verify", "--quiet", `${name}^{commit}`);

/** The service as it was at a commit, with its dependencies, in a temporary folder. */
export type Checkout = Disposable & { readonly root: string };

export function checkOut(commit: string): Checkout {
  const folder = mkdtempSync(join(tmpdir(), "bench-checkout-"));
  // A service that root has started runs as another user, who must be able to read it.
  chmodSync(folder, 0o755);
  const root = join(folder, "service");
  git("worktree", "add", "--quiet", "--detach", root, commit);
  const lockOf = (folder: string) => readFileSync(join(folder, "package-lock.json"), "utf8");
  const modules = join(ROOT, "node_modules");
  if (lockOf(root) === lockOf(ROOT) && existsSync(modules)) symlinkSync(modules, join(root, "node_modules"));
  else execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: root, stdio: "ignore" });
  const dispose = () => {
    git("worktree", "remove", "--force", root);
    rmSync(folder, { recursive: true });
  };
  return { root, [Symbol.dispose]: dispose };
}
