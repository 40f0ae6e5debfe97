/** The paths that begin with the same segments. */
type Node<T> = { at: T | undefined; below: T | undefined; readonly next: Map<string, Node<T>> };

const emptyNode = <T>(): Node<T> => ({ at: undefined, below: undefined, next: new Map() });

/**
 * A table of paths, which are compared by segments. `/graphql` is this path alone, `/rest/v1/*` is `/rest/v1` and every path below
 * it. The longest path decides; `rest` is for every other URL.
 *
 *   new Routes([["/docs/*", site], ["/docs/live", reference]], nothing).find("/docs/live?table=users")  // reference
 */
export class Routes<T> {
  readonly #root = emptyNode<T>();
  readonly #rest: T;

  constructor(rows: Iterable<readonly [path: string, value: T]>, rest: T) {
    this.#rest = rest;
    for (const [path, value] of rows) this.#add(path, value);
  }

  #add(path: string, value: T): void {
    const isBelow = path.endsWith("/*");
    let node = this.#root;
    for (const segment of path.slice(1, isBelow ? -2 : undefined).split("/")) {
      const next = node.next.get(segment) ?? emptyNode<T>();
      node.next.set(segment, next);
      node = next;
    }
    node[isBelow ? "below" : "at"] = value;
  }

  /** Percent-encoded characters are not decoded. */
  find(url: string): T {
    const question = url.indexOf("?");
    const end = question < 0 ? url.length : question;
    let node = this.#root;
    let found = this.#rest;
    // The first character is a slash, unless the URL is `*` or has a host: such a URL has no row.
    let start = url.startsWith("/") ? 1 : Infinity;
    while (start <= end && node.next.size > 0) {
      const slash = url.indexOf("/", start);
      const segmentEnd = slash < 0 || slash > end ? end : slash;
      const next = node.next.get(url.slice(start, segmentEnd));
      if (!next) break;
      node = next;
      found = node.below ?? found;
      if (segmentEnd === end) return node.at ?? found;
      start = segmentEnd + 1;
    }
    return found;
  }
}
