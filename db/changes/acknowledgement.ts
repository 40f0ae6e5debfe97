/** A position that the stream had reached. `at` is milliseconds since 1970. */
type Mark = { readonly lsn: bigint; readonly at: number };

export type AcknowledgementLimits = {
  /** Milliseconds. */
  readonly maxAge: number;
  /** Bytes of write-ahead log. */
  readonly maxBytes: bigint;
};

/**
 * How far behind the stream a slot is acknowledged. The server keeps the write-ahead log after that position, so that a service
 * that was killed, or has lost its connection, reads again the changes that its clients may lack.
 */
export class Acknowledgement {
  readonly #limits: AcknowledgementLimits;
  #marks: Mark[] = [];

  constructor(limits: AcknowledgementLimits) {
    this.#limits = limits;
  }

  /** The stream has reached this position, which may precede an earlier one. Returns the position to acknowledge, or 0. */
  reach(lsn: bigint, now = Date.now()): bigint {
    const { maxAge, maxBytes } = this.#limits;
    this.#marks.push({ lsn, at: now });
    const isPast = ({ lsn: mark, at }: Mark) => now - at > maxAge || lsn - mark > maxBytes;
    // The newest mark that is past may be acknowledged, so it is kept.
    while (this.#marks[1] && isPast(this.#marks[1])) this.#marks.shift();
    const [oldest] = this.#marks;
    if (!isPast(oldest!)) return 0n;
    return oldest!.lsn < lsn ? oldest!.lsn : lsn;
  }
}
