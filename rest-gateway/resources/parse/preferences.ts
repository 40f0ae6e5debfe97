import { DIALECTS, type Dialect } from "../../../config/setting-types.ts";
import { parserCache } from "../../cache.ts";
import { readPair, splitList } from "../../conventions/header-list.ts";
import { unknownPreferences } from "../problem.ts";
import { NO_DIALECT, type Preferences } from "../request.ts";

/** Reads the header Prefer: `dialect=envelope, handling=strict`; `dialect="case flat"` names two. */
export class PreferenceParser {
  readonly #usual: ReadonlySet<Dialect>;
  readonly #none: Preferences;
  readonly #cache = parserCache<Preferences>();

  /** `usual` applies when a client names no dialect. */
  constructor(usual: readonly Dialect[]) {
    this.#usual = new Set(usual);
    this.#none = preferencesOf([], this.#usual);
  }

  parse(header: string | readonly string[] | undefined): Preferences {
    if (header === undefined) return this.#none;
    return this.#cache.getOrCompute(String(header), (text) => preferencesOf(splitList(text, ","), this.#usual));
  }
}

/** Throws RestError with `handling=strict`. */
export function refuseUnknown({ handling, unknown }: Preferences): void {
  if (handling === "strict" && unknown.length > 0) throw unknownPreferences(unknown);
}

const isDialect = (name: string): name is Dialect => (DIALECTS as readonly string[]).includes(name);

function preferencesOf(items: readonly string[], usual: ReadonlySet<Dialect>): Preferences {
  const dialects = new Set<Dialect>();
  const unknown: string[] = [];
  let handling: Preferences["handling"] = null;
  let saysNone = false;
  let respondsAsync = false;
  for (const item of items) {
    const text = splitList(item, ";")[0] ?? "";
    const { name, value } = readPair(text) ?? { name: text.toLowerCase(), value: "" };
    if (name === "respond-async") respondsAsync = true;
    else if (name === "handling" && (value === "strict" || value === "lenient")) handling ??= value;
    else if (name === "dialect") {
      for (const word of value.split(/\s+/)) {
        if (isDialect(word)) dialects.add(word);
        else if (word === NO_DIALECT) saysNone = true;
        else unknown.push(`dialect=${word}`);
      }
    } else if (name !== "wait") unknown.push(item);
  }
  const isNone = saysNone && dialects.size === 0;
  return {
    dialects: isNone || dialects.size > 0 ? dialects : usual,
    named: isNone ? new Set([NO_DIALECT]) : dialects,
    handling,
    respondsAsync,
    unknown,
  };
}
