import pg from "pg";

/** The used part of AbortSignal, so that a lighter object can replace it. */
export type CancelSignal = {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
};

/** Maximum time that a cancel request may take. */
const CANCEL_MILLISECONDS = 5000;

/** Sends a cancel request for `client` on a separate connection; resolves when it has been sent. */
export function cancelRequest(config: pg.ClientConfig, client: pg.ClientBase): Promise<void> {
  const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
  const canceller = new pg.Client(config) as unknown as {
    host: string;
    port: number;
    connection: pg.Connection & {
      connect(at: number | string, host?: string): void;
      cancel(pid: number, key: number): void;
    };
  };
  const { connection } = canceller;
  // A transaction waits for this too, before it releases the cancelled connection.
  const timer = setTimeout(() => connection.stream.destroy(), CANCEL_MILLISECONDS);
  const sent = new Promise<void>((resolve) => {
    connection.on("connect", () => connection.cancel(processID, secretKey));
    connection.on("error", () => resolve());
    connection.on("end", () => resolve());
    if (canceller.host.startsWith("/")) connection.connect(`${canceller.host}/.s.PGSQL.${canceller.port}`);
    else connection.connect(canceller.port, canceller.host);
  });
  return sent.finally(() => clearTimeout(timer));
}
