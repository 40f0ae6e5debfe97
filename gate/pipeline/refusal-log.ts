/** Lines within a second about refusals of one client with the same reason. */
const LINES = 3;
const SECOND = 1000;

/** Writes a line of the log. `more` is the number of such refusals that have no line. */
type WriteLine = (more: number) => void;

/** Keeps clients that are refused again and again from filling the log: the first refusals of a second have a line, and its last has their number. */
export class RefusalLog {
  readonly #refused = new Map<string, { count: number; write: WriteLine }>();

  /** `reason` is equal for refusals that are counted together. */
  add(client: string, reason: string, write: WriteLine): void {
    const key = `${client} ${reason}`;
    if (this.#refused.size === 0) setTimeout(() => this.#end(), SECOND).unref();
    const refused = this.#refused.get(key) ?? { count: 0, write };
    if (refused.count === 0) this.#refused.set(key, refused);
    refused.count++;
    refused.write = write;
    if (refused.count <= LINES) write(0);
  }

  #end(): void {
    for (const { count, write } of this.#refused.values()) if (count > LINES) write(count - LINES - 1);
    this.#refused.clear();
  }
}
