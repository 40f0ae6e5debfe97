import type { Conflict } from "./conflicts.ts";
import { fieldOf, type Parsed, SETTINGS, type Settings, type ValuesOf } from "./settings.ts";

/** What a part adds to the settings. They are read whether it is open or not. */
export type DeclaredSettings<S extends Settings = Settings> = {
  readonly settings: S;
  /** What contradicts each other in them, or between them and the settings of the core. */
  conflicts?(values: Parsed & ValuesOf<S>): readonly Conflict[];
};

/** Every setting, those of the parts included. */
export const knownSettings = (ofParts: readonly DeclaredSettings[]): Settings =>
  Object.assign({}, SETTINGS, ...ofParts.map(({ settings }) => settings));

/** The values of the settings that a part has declared. */
export const valuesOf = <S extends Settings>(config: object, { settings }: DeclaredSettings<S>): ValuesOf<S> =>
  Object.fromEntries(
    Object.keys(settings).map((name) => [fieldOf(name), config[fieldOf(name) as keyof typeof config]]),
  ) as unknown as ValuesOf<S>;

/** What the parts of a list declare, which is loaded. */
export const settingsOfParts = (
  list: readonly { readonly settings?: () => Promise<DeclaredSettings> }[],
): Promise<readonly DeclaredSettings[]> => Promise.all(list.flatMap(({ settings }) => settings?.() ?? []));
