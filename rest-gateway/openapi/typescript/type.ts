/** A type of TypeScript: text that stands as it is, or parts that layout.ts writes on one line or several. */
export type Type =
  | string
  | { readonly kind: "object"; readonly members: readonly Member[]; readonly isOpen: boolean }
  | { readonly kind: "union"; readonly types: readonly Type[] }
  | { readonly kind: "array"; readonly element: Type }
  | { readonly kind: "tuple"; readonly elements: readonly Type[] };

/** `age?: number` */
export type Member = { readonly name: string; readonly type: Type; readonly isOptional?: boolean };

/** `{ id: number }`, on one line where it fits. */
export const object = (members: readonly Member[]): Type => ({ kind: "object", members, isOpen: false });

/** An object with each member on a line of its own. */
export const openObject = (members: readonly Member[]): Type => ({ kind: "object", members, isOpen: true });

export const array = (element: Type): Type => ({ kind: "array", element });
export const tuple = (elements: readonly Type[]): Type => ({ kind: "tuple", elements });

/** `"DRAFT" | "PUBLISHED"`; of one type that type, of none `never`. */
export function union(types: readonly Type[]): Type {
  if (types.length < 2) return types[0] ?? "never";
  return { kind: "union", types };
}

/** `unknown` holds null already. */
export const orNull = (type: Type): Type => (type === "unknown" ? type : union([type, "null"]));

/** `mood` in `Enums` of `public` → `Database["public"]["Enums"]["mood"]` */
export const entry = (...path: readonly string[]): string =>
  `Database${path.map((name) => `[${literal(name)}]`).join("")}`;

/** `it's` → `"it's"` */
export const literal = (text: string): string => JSON.stringify(text);

/** A name as the key of an object: `user_id`, `"user-id"`. */
export const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : literal(name));

/** By code units, which are the same on every computer. */
export const inOrder = <Item>(items: Iterable<Item>, textOf: (item: Item) => string): Item[] =>
  [...items]
    .map((item) => ({ item, text: textOf(item) }))
    .sort((a, b) => (a.text < b.text ? -1 : Number(a.text > b.text)))
    .map(({ item }) => item);

export const byName = <Item extends { readonly name: string }>(items: Iterable<Item>): Item[] =>
  inOrder(items, ({ name }) => name);
