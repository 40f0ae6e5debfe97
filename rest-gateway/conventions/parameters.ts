import { KEY_PARAMETERS } from "../../identity/credentials.ts";
import { badParameter, badRequest, unknownParameter } from "./problem.ts";

/** Query parameters that every request may contain. */
const EVERYWHERE = ["version", "api_key"];
/** Credentials are read earlier, and are neither stored nor returned in links. */
export const CREDENTIALS: readonly string[] = [...KEY_PARAMETERS, "_csrf"];

/** `?a=b` → `a=b` */
export const searchOf = ({ url }: { readonly url: string }) => url.split("?", 2)[1] ?? "";

/** The query parameters of a request. */
export class Parameters {
  readonly #values: URLSearchParams;

  constructor(search: string) {
    this.#values = new URLSearchParams(search);
  }

  /** Throws Problem for a duplicate parameter, and for text that is not valid UTF-8. */
  refuseMalformed(): void {
    if (this.#values.size === 0) return;
    const seen = new Set<string>();
    for (const [name, value] of this.#values) {
      if (seen.has(name)) throw badParameter(name, `${name} must not be given twice`);
      if (value.includes("\0") || value.includes("�")) throw badRequest("parameters must be valid UTF-8 without NUL");
      seen.add(name);
    }
  }

  /** Null when the parameter is absent; "" when it is empty. */
  get(name: string): string | null {
    return this.#values.get(name);
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** Throws Problem for an unknown parameter: ignoring a typo would return wrong data. */
  allowOnly(names: readonly string[], hasOtherName: (name: string) => boolean = () => false): void {
    for (const name of this.#values.keys()) {
      const isKnown = names.includes(name) || EVERYWHERE.includes(name) || CREDENTIALS.includes(name);
      if (!isKnown && !hasOtherName(name)) throw unknownParameter(name, [...names, ...EVERYWHERE]);
    }
  }

  /** The query string with these parameters replaced, for a link whose path contains the version. */
  with(changes: Readonly<Record<string, number>>): string {
    const changed = new URLSearchParams(this.#values);
    for (const name of [...CREDENTIALS, "version"]) changed.delete(name);
    for (const [name, value] of Object.entries(changes)) changed.set(name, String(value));
    return changed.toString();
  }
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => UUID.test(text);
