import type { MessageWriter } from "./messages.ts";

/** Undoes a change of the list if Postgres has not processed the message. */
export type Undo = () => void;

/** The part of the prepared statements that all callers without credentials share. */
const ANONYMOUS_PART = 1 / 5;

/**
 * Characters of all prepared statements, for each statement that a connection may have. The plans of a statement take about 70 bytes in
 * PostgreSQL for each of its characters.
 */
const CHARACTERS_PER_STATEMENT = 1000;

/** The statements that one connection has prepared. They survive a rollback. */
export class PreparedStatements {
  readonly #messages: MessageWriter;
  readonly #known: PreparedList;
  readonly #anonymous: PreparedList;

  /** The messages that prepare and close statements are added to `messages`. */
  constructor(messages: MessageWriter) {
    this.#messages = messages;
    this.#known = new PreparedList(messages);
    this.#anonymous = new PreparedList(messages);
  }

  /** Writes the statement unless the connection has prepared it. */
  prepare(name: string, { text, isAnonymous }: ToPrepare, max: number): Undo | null {
    if (name === "") {
      this.#messages.parse(name, text);
      return null;
    }
    return isAnonymous
      ? this.#anonymous.prepare(name, text, Math.ceil(max * ANONYMOUS_PART))
      : this.#known.prepare(name, text, max);
  }

  doubt(name: string): void {
    this.#known.doubt(name);
    this.#anonymous.doubt(name);
  }

  doubtAll(): void {
    this.#known.doubtAll();
    this.#anonymous.doubtAll();
  }
}

/** `isAnonymous`: whether it belongs to callers without credentials, who have a small share of the prepared statements. */
type ToPrepare = { readonly text: string; readonly isAnonymous?: boolean };

/** `isCertain`: whether the statement certainly exists. */
type Prepared = { isCertain: boolean; readonly length: number };

/**
 * Prepared statements by name, the least recently used first. After an error it is uncertain whether the failed statement exists, so it
 * is closed, which never fails, before it is parsed again.
 */
class PreparedList {
  readonly #messages: MessageWriter;
  readonly #statements = new Map<string, Prepared>();
  #characters = 0;

  constructor(messages: MessageWriter) {
    this.#messages = messages;
  }

  prepare(name: string, text: string, max: number): Undo | null {
    const known = this.#statements.get(name);
    if (known) this.#statements.delete(name);
    const statement = known ?? { isCertain: false, length: text.length };
    this.#statements.set(name, statement);
    if (known?.isCertain) return null;

    statement.isCertain = true;
    const closed: [string, Prepared][] = [];
    if (known) this.#messages.close(name);
    else {
      this.#characters += text.length;
      while (this.#isFull(max)) closed.push(this.#closeOldest());
    }
    this.#messages.parse(name, text);
    return () => {
      if (known) known.isCertain = false;
      else this.#remove(name);
      for (const [other, statement] of closed) {
        this.#statements.set(other, statement);
        this.#characters += statement.length;
      }
    };
  }

  doubt(name: string): void {
    const statement = this.#statements.get(name);
    if (statement) statement.isCertain = false;
  }

  doubtAll(): void {
    for (const statement of this.#statements.values()) statement.isCertain = false;
  }

  /** The newest statement always fits. */
  #isFull(max: number): boolean {
    const { size } = this.#statements;
    return size > 1 && (size > max || this.#characters > max * CHARACTERS_PER_STATEMENT);
  }

  #closeOldest(): [string, Prepared] {
    const oldest = this.#statements.entries().next().value!;
    this.#remove(oldest[0]);
    this.#messages.close(oldest[0]);
    return oldest;
  }

  #remove(name: string): void {
    this.#characters -= this.#statements.get(name)?.length ?? 0;
    this.#statements.delete(name);
  }
}
