/** A TypeScript type: finished text, or a structure that layout.ts writes on one or several lines. */
export type Type =
  | string
  | { readonly kind: "object"; readonly members: readonly Member[]; readonly isOpen: boolean }
  | { readonly kind: "union"; readonly types: readonly Type[] }
  | { readonly kind: "array"; readonly element: Type }
  | { readonly kind: "tuple"; readonly elements: readonly Type[] };

/** `age?: number` */
export type Member = { readonly name: string; readonly type: Type; readonly isOptional?: boolean };

/** `{ id: number }`, on one line if it fits. */
export const object = (members: readonly Member[]): Type => ({ kind: "object", members, isOpen: false });

/** An object with one member per line. */
export const openObject = (members: readonly Member[]): Type => ({ kind: "object", members, isOpen: true });

export const array = (element: Type): Type => ({ kind: "array", element });
export const tuple = (elements: readonly Type[]): Type => ({ kind: "tuple", elements });

/** `"DRAFT" | "PUBLISHED"`. The union of one type is this type; of none, `never`. */
export function union(types: readonly Type[]): Type {
  if (types.length < 2) return types[0] ?? "never";
  return { kind: "union", types };
}

/** `unknown` already includes null. */
export const orNull = (type: Type): Type => (type === "unknown" ? type : union([type, "null"]));

/** `mood` in `Enums` of `public` → `Database["public"]["Enums"]["mood"]` */
export const entry = (...path: readonly string[]): string =>
  `Database${path.map((name) => `[${literal(name)}]`).join("")}`;

/** `it's` → `"it's"` */
export const literal = (text: string): string => JSON.stringify(text);

/** A name as the key of an object: `user_id`, `"user-id"`. */
export const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : literal(name));

/** Sorted by code units, which do not depend on the locale. */
export const inOrder = <Item>(items: Iterable<Item>, textOf: (item: Item) => string): Item[] =>
  [...items]
    .map((item) => ({ item, text: textOf(item) }))
    .sort((a, b) => (a.text < b.text ? -1 : Number(a.text > b.text)))
    .map(({ item }) => item);

export const byName = <Item extends { readonly name: string }>(items: Iterable<Item>): Item[] =>
  inOrder(items, ({ name }) => name);
