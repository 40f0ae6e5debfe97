import { isIPv6 } from "node:net";
import { COMMAND } from "../config/command.ts";
import type { Config, Environment } from "../config/config.ts";
import { CommandError, defineCommand, readSettings } from "./command.ts";

const HELP = `\
Asks the service on this machine whether it is ready. It reads HOST, PORT, ADMIN_PORT and ADMIN_HOST as the service does.

  ${COMMAND} ready

The exit code is 0 if it is ready, 1 if it is not, and 2 for invalid settings.
`;

/** Milliseconds. */
const TIMEOUT = 5000;

export const ready = defineCommand({
  name: "ready",
  help: HELP,
  async run(_, environment?: Environment) {
    const url = `${probesOf(await readSettings(environment))}/ready`;
    const fault = await faultAt(url).catch(({ message, cause }: Error) =>
      cause instanceof Error ? cause.message : message,
    );
    if (fault !== null) throw new CommandError(1, `not ready: ${fault}`);
    return "ready\n";
  },
});

/** Where this machine reaches the probes. Clients cannot connect to 0.0.0.0 or ::, which mean all its IP addresses. */
export function probesOf({ host, port, adminHost, adminPort }: Config): string {
  const name = adminPort === 0 ? host : adminHost;
  const local = name === "0.0.0.0" ? "127.0.0.1" : name === "::" ? "::1" : name;
  return `http://${isIPv6(local) ? `[${local}]` : local}:${adminPort || port}`;
}

async function faultAt(url: string): Promise<string | null> {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT) });
  const { status, reason } = (await response.json()) as { status?: string; reason?: string };
  return response.status === 200 ? null : (reason ?? status ?? String(response.status));
}
