/** A generation ends when its texts have so many characters; what is made of one takes about a hundred bytes. */
const GENERATION = 30_000;
/** What a text counts for besides its characters. */
const ENTRY = 20;
const LONGEST = 2_000;

/**
 * Remembers what a pure function makes of short texts. Those that were used in this generation or the one before are
 * still known: a hit is one look-up, and what a stranger can fill is bounded.
 */
export class Memo<Value> {
  #present = new Map<string, Value>();
  #past = new Map<string, Value>();
  #size = 0;

  /** What is given back is shared: nobody may change it. What `make` throws is not remembered. */
  of(text: string, make: (text: string) => Value): Value {
    const known = this.#present.get(text);
    if (known !== undefined) return known;
    if (text.length > LONGEST) return make(text);
    const own = ownText(text);
    const value = this.#past.get(text) ?? make(own);
    this.#keep(own, value);
    return value;
  }

  #keep(text: string, value: Value): void {
    this.#size += text.length + ENTRY;
    if (this.#size > GENERATION) {
      this.#past = this.#present;
      this.#present = new Map();
      this.#size = text.length + ENTRY;
    }
    this.#present.set(text, value);
  }
}

/** A copy: V8's slices keep the whole text they were cut from. */
const ownText = (text: string) => Buffer.from(text).toString();
