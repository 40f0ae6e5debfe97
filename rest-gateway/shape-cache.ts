/** What the texts of all that is remembered may have in characters; what is made of one takes up to 16 bytes. */
const CAPACITY = 2_000_000;
/** Longer ones are not remembered: few of them would push out all others. */
const LONGEST = CAPACITY / 40;

type Remembered<Value> = { readonly value: Value; readonly weight: number };

/** Remembers what was made of shapes of requests, as many as fit; those that were not used for the longest time make way. */
export class Shapes<Value> {
  readonly #known = new Map<string, Remembered<Value>>();
  /** Characters of text in a value. */
  readonly #lengthOf: (value: Value) => number;
  #weight = 0;

  constructor(lengthOf: (value: Value) => number) {
    this.#lengthOf = lengthOf;
  }

  /** What `make` throws is not remembered. */
  of(shape: string, make: () => Value): Value {
    const known = this.#known.get(shape);
    if (known === undefined) return this.#remember(shape, make());
    this.#known.delete(shape);
    this.#known.set(shape, known);
    return known.value;
  }

  #remember(shape: string, value: Value): Value {
    const weight = shape.length + this.#lengthOf(value);
    if (weight > LONGEST) return value;
    this.#known.set(shape, { value, weight });
    this.#weight += weight;
    for (const [oldest, { weight }] of this.#known) {
      if (this.#weight <= CAPACITY) break;
      this.#known.delete(oldest);
      this.#weight -= weight;
    }
    return value;
  }
}
