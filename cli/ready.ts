import { isIPv6 } from "node:net";
import { ConfigError, readConfig } from "../config/config.ts";

const HELP = `npm run ready

Asks the service on this machine whether it is ready: exit code 0 if it is, 1 if it is not, 2 for invalid settings. It reads HOST,
PORT, ADMIN_PORT and ADMIN_HOST as the service does. In the health check of a container, run node cli/ready.ts, which needs no shell.
`;

/** Milliseconds. */
const TIMEOUT = 5000;

/** Clients cannot connect to 0.0.0.0 or ::, which mean all IP addresses of this machine. */
function probeUrl(): string {
  const { host, port, adminHost, adminPort } = readConfig();
  const name = adminPort === 0 ? host : adminHost;
  const local = name === "0.0.0.0" ? "127.0.0.1" : name === "::" ? "::1" : name;
  return `http://${isIPv6(local) ? `[${local}]` : local}:${adminPort || port}/ready`;
}

async function check(): Promise<[exitCode: number, message: string]> {
  try {
    const response = await fetch(probeUrl(), { signal: AbortSignal.timeout(TIMEOUT) });
    const { status, reason } = (await response.json()) as { status?: string; reason?: string };
    if (response.status === 200) return [0, "ready"];
    return [1, `not ready: ${reason ?? status ?? response.status}`];
  } catch (error) {
    if (error instanceof ConfigError) return [2, error.message];
    const { message, cause } = error as Error;
    return [1, `not ready: ${cause instanceof Error ? cause.message : message}`];
  }
}

if (["--help", "-h"].includes(process.argv[2] ?? "")) process.stdout.write(HELP);
else {
  const [exitCode, message] = await check();
  process[exitCode === 0 ? "stdout" : "stderr"].write(`${message}\n`);
  process.exitCode = exitCode;
}
