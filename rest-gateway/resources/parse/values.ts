/** The values of a request, on their way to the parameters of a statement. */
export class Values {
  readonly all: string[] = [];

  /** The index of the value. */
  add(text: string): number {
    return this.all.push(text) - 1;
  }
}
