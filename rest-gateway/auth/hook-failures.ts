import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import { isTimeout } from "../../db/errors.ts";
import type { Finding } from "../../db/findings/finding.ts";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import { type Metrics, Tally } from "../../telemetry/metrics.ts";

/** The lines of the context of an error that name a hook, and the function of the service that has called it. */
const HOOK = /select ([^\n]+)\(\$1(?:, \$2)?\)[^\n]*\n[^\n]*\bauth_private\.(\w+)\(/;

/** Beginnings of the SQLSTATEs of errors that say nothing about the hook: what the user sent is taken, or the database is busy. */
const NO_FAULT = ["23", "40001", "40P01", "55P03", "53", "57P", "08"];

/** Milliseconds for which the same line is not logged again. */
const PAUSE = 600_000;
const MAX_LINES = 1000;

/**
 * Hooks of the application that fail: they raise an error other than their own refusal, or take too long. The refusal of a hook is an
 * error that it raises itself, with `raise`. Hooks are known by the name of their function.
 */
export class HookFailures {
  readonly #log: Logger;
  readonly #counts = new Tally("function", 50);
  /** Why each has failed first, since the schema has last changed. */
  readonly #failing = new Map<string, string>();
  /** The same reasons are in the log once in ten minutes, however often the schema changes. */
  readonly #logged = new LRUCache<string, true>({ max: MAX_LINES, ttl: PAUSE });
  /** Called when a hook begins to fail. */
  onFinding: () => void = () => {};

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Counts an error of the database if a hook has caused it. The log gets one line for each hook and reason, and for each constraint. */
  note(error: unknown): void {
    const constraint = constraintIn(error as DatabaseErrorLike);
    if (constraint !== null && this.#isNew(Object.values(constraint).join(" ")))
      this.#log.info(constraint, "what the application writes for an account violates a constraint");
    const name = hookIn(error as DatabaseErrorLike);
    if (name === null) return;
    this.#counts.add(name);
    if (this.#failing.has(name)) return;
    const reason = reasonOf(error as DatabaseErrorLike);
    this.#failing.set(name, reason);
    this.onFinding();
    if (this.#isNew(`${name} ${reason}`))
      this.#log.error({ hook: name, err: error }, "a hook of the application has failed");
  }

  #isNew(line: string): boolean {
    const isNew = !this.#logged.has(line);
    if (isNew) this.#logged.set(line, true);
    return isNew;
  }

  /** The hooks that have failed, for the advisor. */
  get findings(): readonly Finding[] {
    return [...this.#failing].map(([name, reason]) => ({
      rule: "hook-fails",
      level: "error",
      object: `function ${name}`,
      reason: `the service has called it as a hook, and ${reason}`,
      fix: null,
    }));
  }

  /** After a change of the schema, which may have cured them. Returns whether there were any. */
  forget(): boolean {
    const had = this.#failing.size > 0;
    this.#failing.clear();
    return had;
  }

  registerMetrics(metrics: Metrics): void {
    metrics.counter({
      name: "hook_failures_total",
      about: "Errors of hooks of the application other than their refusals, and hooks that took too long, by function.",
      labels: ["function"],
      read: () => this.#counts.samples,
    });
  }
}

/** The name of the hook that has failed; null if no hook has caused the error, or has refused the request. */
function hookIn({ code, routine, where }: DatabaseErrorLike): string | null {
  if (code === undefined || NO_FAULT.some((beginning) => code.startsWith(beginning))) return null;
  const [, name, caller] = HOOK.exec(where ?? "") ?? [];
  if (name === undefined) return null;
  // What these raise refuses nothing: the e-mail is sent later, and no account is found without its claims.
  const isRefusal = caller !== "send_message" && caller !== "claims_of";
  return routine === "exec_stmt_raise" && isRefusal ? null : name;
}

/** What a row of the application violates, without values; null for other errors, for rows of accounts, and for an e-mail that is taken. */
function constraintIn({ code, schema, table, column, constraint }: DatabaseErrorLike) {
  if (!code?.startsWith("23") || !table || schema === "auth_private") return null;
  if (code === "23505" && /e_?mail/i.test(constraint ?? "")) return null;
  return { code, table: `${schema}.${table}`, ...(constraint ? { constraint } : { column }) };
}

/** The message may quote values, except where it is about the text of the function and rights. */
function reasonOf(error: DatabaseErrorLike): string {
  const { code, message } = error;
  if (isTimeout(error)) return "it took longer than DB_STATEMENT_TIMEOUT";
  return code!.startsWith("42") ? `it raised ${code}: ${message}` : `it raised ${code}`;
}
