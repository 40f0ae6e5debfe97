import { every, type Repetition } from "../../db/repeat.ts";
import { type AuthFunctions, seconds } from "./functions.ts";
import type { AuthSettings } from "./limits.ts";

const HOUR = 3_600_000;
/** Seconds after the end of its last session, which nothing can start again, until an anonymous account is deleted: 30 days. */
export const ANONYMOUS_SECONDS = 30 * 24 * 3600;
/** Seconds for which the limits of e-mails count: those of auth_api.request_mail. */
const MAIL_WINDOW = 3600;

export type HousekeepingOptions = {
  readonly purges: readonly (() => Promise<void>)[];
  onError(error: unknown): void;
};

/** Deletes expired attempts, tokens, sessions, e-mails, reservations, anonymous accounts and security events at start and every hour. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  #purges: Repetition | null = null;
  #isClosed = false;

  constructor(options: HousekeepingOptions) {
    this.#options = options;
  }

  start(): void {
    this.#purges = every(HOUR, () => this.#purge());
    this.#purges.now();
  }

  /** Stops, and waits for a running purge, but starts no further one. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#purges?.stop();
  }

  async #purge(): Promise<void> {
    const { purges, onError } = this.#options;
    // One after the other: at the same time, each would open a connection of its own at a start.
    for (const purge of purges) if (!this.#isClosed) await purge().catch(onError);
  }
}

export async function purge(functions: AuthFunctions, settings: AuthSettings): Promise<void> {
  const attempts = Math.max(settings.loginWindow, MAIL_WINDOW);
  const spans = [attempts, settings.auditRetention, settings.emailReservation].map(seconds);
  await functions.call("purge($1::timestamptz, $2::interval, $3::interval, $4::interval)", [functions.now(), ...spans]);
}

export async function purgeAnonymous(functions: AuthFunctions): Promise<void> {
  const values = [functions.now(), seconds(ANONYMOUS_SECONDS)];
  await functions.call("purge_anonymous($1::timestamptz, $2::interval)", values);
}
