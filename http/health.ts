import { setTimeout } from "node:timers/promises";
import type { RequestHandler } from "express";
import { RETRY_SECONDS } from "./retry.ts";

export type ServiceState = "starting" | "ready" | "draining";

export type Health = {
  state(): ServiceState;
  /** Rejects when the database does not answer. */
  ping(): Promise<void>;
  /** What an operator should know although requests are answered. */
  details(): Readonly<Record<string, unknown>>;
};

/** A database that needs longer for nothing at all is not healthy. */
const PING_MILLISECONDS = 3000;

/** `GET /health`: 200 when requests can be answered, else 503 with the reason. */
export function healthHandler(health: Health): RequestHandler {
  return async (_request, response) => {
    const reason = await reasonOf(health);
    response.set("Cache-Control", "no-store");
    if (reason === null) return void response.json({ status: "ok", ...health.details() });
    response.status(503).set("Retry-After", RETRY_SECONDS).json({ status: "unavailable", reason });
  };
}

/** `GET /live`: the process runs. Never asks the database. */
export const liveHandler: RequestHandler = (_request, response) => {
  response.set("Cache-Control", "no-store").json({ status: "ok" });
};

async function reasonOf({ state, ping }: Health): Promise<string | null> {
  if (state() !== "ready") return state();
  const answered = ping().then(
    () => true,
    () => false,
  );
  const isHealthy = await Promise.race([answered, setTimeout(PING_MILLISECONDS, false, { ref: false })]);
  return isHealthy ? null : "the database does not answer";
}
