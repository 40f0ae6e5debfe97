import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";

export type AddressReader = (request: IncomingMessage) => string;

/** Whether what this address says of the one before it is believed; `hop` is 0 for the address of the connection. */
export type Trust = (address: string, hop: number) => boolean;

/** Without the zone of a link-local one, `fe80::1%eth0`, which Postgres would not take for an address. */
const addressOfConnection: AddressReader = ({ socket }) => socket.remoteAddress?.split("%", 1)[0] ?? "";

/** Where a request comes from: the last address that is no trusted proxy's. Null where there is no proxy. */
export function addressReader(trust: Trust | null): AddressReader {
  if (trust === null) return addressOfConnection;
  return (request) => {
    const own = addressOfConnection(request);
    const before = String(request.headers["x-forwarded-for"] ?? "").split(",");
    const chain = [
      own,
      ...before
        .map(withoutPort)
        .filter((address) => address !== "")
        .reverse(),
    ];
    const found = chain.find((address, hop) => !trust(address, hop)) ?? chain.at(-1)!;
    return isIP(found) > 0 ? found : own;
  };
}

/** ` 203.0.113.7:4711` → `203.0.113.7`, `[2001:db8::7]` → `2001:db8::7` */
const withoutPort = (text: string) => text.trim().replace(/^(?:\[([^\]]+)\]|(\d+(?:\.\d+){3}))(?::\d+)?$/, "$1$2");
